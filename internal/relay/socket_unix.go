//go:build unix

package relay

import (
	"os"

	"golang.org/x/sys/unix"
)

// canReadRaw says that a socket may be read from within RawConn.Read.
const canReadRaw = true

// readSocket tries to read, with a buffer that it keeps only if there was something, and reports whether there was.
func (d *direction) readSocket(fd int) bool {
	pool := firstBuffers
	if d.streak > 0 {
		pool = bulkBuffers
	}
	buf := takeBuffer(pool)
	n, err := readAgain(fd, buf.bytes)
	if n > 0 {
		d.buf, d.got = buf, n
		d.note(n)
		return true
	}
	buf.giveBack()
	return d.nothingRead(fd, "read", err)
}

// nothingRead deals with a read or splice from src that brought no data, and reports whether the wait is over.
func (d *direction) nothingRead(fd int, call string, err error) bool {
	if err == unix.EAGAIN {
		return false
	}
	// The order matters: shut is set before the stream to src is ended.
	if err == nil && d.src.tcp != nil && maybeReset(fd) && !d.src.shut.Load() {
		err = unix.ECONNRESET
	}
	if err != nil {
		d.err = os.NewSyscallError(call, err)
	}
	d.ended = err == nil
	return true
}

// readAgain is read(2), again after a signal.
func readAgain(fd int, b []byte) (int, error) {
	for {
		n, err := unix.Read(fd, b)
		if err != unix.EINTR {
			return n, err
		}
	}
}
