package relay

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

const (
	spliceFlags = unix.SPLICE_F_MOVE | unix.SPLICE_F_NONBLOCK
	// spliceMax is how much one splice asks for. The pipe's slots are the real bound; the kernel fills a slot with
	// up to a fragment of the socket's memory, which may be more than a page.
	spliceMax = 1 << 20
)

// fillPipe moves what src has into a pipe, which the direction then keeps until there is nothing left to read.
func (d *direction) fillPipe(fd int) fill {
	if d.copyOnly || d.dst.raw == nil {
		return unspliced
	}
	if d.pipe == nil {
		d.pipe = d.pipes.take()
	}
	if d.pipe == nil {
		return unspliced
	}
	n, err := spliceAgain(fd, d.pipe.w, spliceMax)
	if n > 0 {
		d.left = n
		d.note(n)
		return filled
	}
	d.dropPipe()
	if unsupported(err) {
		d.copyOnly = true
		return unspliced
	}
	if d.nothingRead(fd, "splice", err) {
		return filled
	}
	return waiting
}

// drainPipe moves what is in the pipe to dst.
func (d *direction) drainPipe() error {
	if d.onWritable == nil {
		d.onWritable = d.writable
	}
	err := d.dst.raw.Write(d.onWritable)
	if err == nil {
		err, d.err = d.err, nil
	}
	if unsupported(err) {
		d.copyOnly = true
		err = d.copyPipe()
	}
	if !d.bulk || err != nil {
		d.dropPipe()
	}
	return err
}

// writable is called when dst may have room, and reports whether there is nothing left to wait for.
func (d *direction) writable(fd uintptr) bool {
	for d.left > 0 {
		n, err := spliceAgain(d.pipe.r, int(fd), d.left)
		if err == unix.EAGAIN {
			return false
		}
		if err != nil {
			d.err = os.NewSyscallError("splice", err)
			return true
		}
		d.left -= n
		d.dst.taken.Add(int64(n))
	}
	return true
}

// copyPipe copies what is in the pipe to dst, which turned out not to take it by splice.
func (d *direction) copyPipe() error {
	buf := takeBuffer(bulkBuffers)
	defer buf.giveBack()
	for d.left > 0 {
		n, err := readAgain(d.pipe.r, buf.bytes)
		if err != nil {
			return os.NewSyscallError("read", err)
		}
		d.left -= n
		if err := d.write(buf.bytes[:n]); err != nil {
			return err
		}
	}
	return nil
}

// dropPipe gives the pipe back, or closes it if there are bytes in it that nobody gets any more.
func (d *direction) dropPipe() {
	if d.pipe == nil {
		return
	}
	if d.left > 0 {
		d.pipes.discard(d.pipe)
	} else {
		d.pipes.giveBack(d.pipe)
	}
	d.pipe, d.left = nil, 0
}

// unsupported reports whether err says that splice(2) can't be used, rather than that an end broke.
func unsupported(err error) bool {
	return errors.Is(err, unix.EINVAL) || errors.Is(err, unix.ENOSYS) || errors.Is(err, unix.EOPNOTSUPP) ||
		errors.Is(err, unix.EPERM)
}

// spliceAgain is splice(2), again after a signal.
func spliceAgain(from, to, most int) (int, error) {
	for {
		n, err := unix.Splice(from, nil, to, nil, most, spliceFlags)
		if err != unix.EINTR {
			return int(n), err
		}
	}
}
