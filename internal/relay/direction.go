package relay

import (
	"io"
	"sync/atomic"
)

// fill is the result of moving data from a socket to a pipe.
type fill uint8

const (
	// unspliced means that there is no pipe to be had, or splice(2) can't do it: copy.
	unspliced fill = iota
	// waiting means that there is nothing to read.
	waiting
	// filled means that there are data in the pipe, or the stream ended, or failed.
	filled
)

const (
	// bulkAfter is how many bytes must come in a row, in reads of at least fullRead, before a direction counts as
	// bulk. Below, setting up a pipe costs more than the copies it saves.
	bulkAfter = 256 << 10
	// fullRead is the size from which a read counts towards bulk: below it a copy is as cheap as a splice.
	fullRead = 16 << 10
	// bulkEnds is how many smaller reads in a row end bulk.
	bulkEnds = 8
)

// direction moves bytes one way. Its fields belong to the goroutine that runs it, but those of which is said that a mutex
// guards them.
type direction struct {
	relay    *Relay
	src, dst *endpoint
	other    *direction
	// limited is set once an ending has bounded the direction. The relay's mu guards it.
	limited bool
	// moved is set when bytes were moved since the last look at it.
	moved bool
	// spot is where the direction is parked. The lot's mu guards it.
	spot spot
	// over is set once the stream of src has come to its end, before that is passed on.
	over atomic.Bool
	// out is how the direction ended, once done is set. The relay's mu guards both.
	out  outcome
	done bool

	pipes *pipePool
	// onReadable and onWritable are the callbacks for src and dst, made once.
	onReadable, onWritable func(fd uintptr) bool
	// buf holds got bytes that were read and are to be written.
	buf *buffer
	got int
	// pipe, while data flow, holds left bytes that are to be spliced out.
	pipe *pipe
	left int
	// streak counts the bytes of full reads in a row, small the small ones in bulk.
	streak, small int
	bulk          bool
	// copyOnly is set once splice(2) turned out not to work between these two.
	copyOnly bool
	// ended is set at the end of the stream; err is an error of the last system call.
	ended bool
	err   error
}

// run moves bytes until the stream ends or an end breaks.
func (d *direction) run(pipes *pipePool) outcome {
	if d.src.raw == nil {
		return d.copyConn()
	}
	d.pipes = pipes
	d.onReadable = d.readable
	out := d.copySocket()
	if !out.parked {
		d.dropPipe()
	}
	return out
}

// copyConn copies from a connection that can only be read by waiting in Read. While it waits it holds the idle buffer,
// and one for bulk only after a read that left more behind.
func (d *direction) copyConn() outcome {
	pool := idleBuffers
	for {
		buf := takeBuffer(pool)
		n, err := d.src.conn.Read(buf.bytes)
		werr := d.write(buf.bytes[:n])
		pool = idleBuffers
		if n == len(buf.bytes) {
			pool = bulkBuffers
		}
		buf.giveBack()
		switch {
		case werr != nil:
			return outcome{at: writing, err: werr}
		case err == io.EOF:
			return outcome{}
		case err != nil:
			return outcome{at: reading, err: err}
		}
	}
}

// copySocket moves bytes from a plain socket. It waits without a buffer or a pipe.
func (d *direction) copySocket() outcome {
	for {
		err := d.src.raw.Read(d.onReadable)
		if err == nil {
			err = d.err
		}
		if err != nil {
			switch d.rest(err) {
			case awake:
				continue
			case asleep:
				return outcome{parked: true}
			}
			return outcome{at: reading, err: err}
		}
		if d.ended {
			return outcome{}
		}
		if err := d.deliver(); err != nil {
			return outcome{at: writing, err: err}
		}
		d.moved = true
	}
}

// readable is called when src may have data, and reports whether it had, or ended.
func (d *direction) readable(fd uintptr) bool {
	if d.bulk {
		if got := d.fillPipe(int(fd)); got != unspliced {
			return got == filled
		}
	}
	return d.readSocket(int(fd))
}

// note learns from the size of a read whether this is bulk.
func (d *direction) note(n int) {
	switch {
	case n < fullRead && !d.bulk:
		d.streak = 0
	case !d.bulk:
		d.streak += n
		d.bulk = d.streak >= bulkAfter
	case n < fullRead:
		d.small++
		if d.small == bulkEnds {
			d.bulk, d.streak, d.small = false, 0, 0
		}
	default:
		d.small = 0
	}
}

// deliver writes what was read.
func (d *direction) deliver() error {
	if d.left > 0 {
		return d.drainPipe()
	}
	err := d.write(d.buf.bytes[:d.got])
	d.buf.giveBack()
	d.buf = nil
	return err
}

// write writes b to dst and counts what it took.
func (d *direction) write(b []byte) error {
	if len(b) == 0 {
		return nil
	}
	n, err := d.dst.conn.Write(b)
	d.dst.taken.Add(int64(n))
	return err
}
