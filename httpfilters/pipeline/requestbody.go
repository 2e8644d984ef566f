package pipeline

import (
	"errors"
	"io"
	"net/http"
	"sync"
	"time"

	"github.com/caddy-sluice/sluice/internal/bodypipe"
)

const (
	// smallBuffer is what a body is read into at first: as much as Go's server has read of it. A client that sends slowly
	// costs no more.
	smallBuffer = 4 << 10
	// largeBuffer is what it is read into once a read has filled the small one.
	largeBuffer = 32 << 10
)

var (
	smallBuffers = sync.Pool{New: func() any { return newBuffer(smallBuffer) }}
	largeBuffers = sync.Pool{New: func() any { return newBuffer(largeBuffer) }}
)

func newBuffer(size int) *[]byte {
	b := make([]byte, size)
	return &b
}

// errBodyClosed is what a reader gets when the request is over.
var errBodyClosed = errors.New("the request is over")

// digestHeaders are what a header, or a trailer, says of the bytes of a body.
var digestHeaders = []string{"Content-Md5", "Content-Digest", "Repr-Digest", "Digest"}

// requestBody is the body of a request, as the filters leave it. It is read by one goroutine at a time, which may still
// wait for the client when the request is over.
type requestBody struct {
	// x is good as long as closed is false; its mutex always is.
	x   *Exchange
	src io.ReadCloser
	// declared is the length that the client declared, -1 for none.
	declared int64
	// outer is the body of a pipeline in front, if that is what src is.
	outer *requestBody
	// gate keeps hooks from reading the body.
	gate gate
	// timeout is how long to wait for the client's next byte, 0 if that is for the server to say; latest is how long the
	// server waits for all of it, zero if it has no limit.
	timeout time.Duration
	latest  time.Time
	// closing says that the connection ends with the answer.
	closing bool
	// spent says that all of it has gone on, and that nothing is held any more. Like answered, x.mu guards it.
	spent bool
	// answered says that the client has the answer's header, and may take its time.
	answered bool

	// reading is held while the body is read. It guards buf, in and eof.
	reading sync.Mutex
	buf     *[]byte
	// in is what the pipe hasn't taken, eof says that the client's body ends with it.
	in  []byte
	eof bool

	// What follows, x.mu guards.

	pipe bodypipe.Pipe
	// out is what goes on, complete says that it is all of the body.
	out      []byte
	complete bool
	// whole is all of it, if complete.
	whole []byte
	// over says that the client's body was read to its end, closed that the request is over, shut that its handler has
	// closed the body.
	over, closed, shut bool
	// until is the deadline for reading while somebody waits for the client, zero otherwise. With a pipeline in front it is
	// only known there, and until says that somebody waits.
	until time.Time
	// within is how long a pipeline behind this one waits for the client's next byte, 0 if that is for this one to say.
	within time.Duration
	err    error
}

// openBody begins to look at the body, if a filter that takes part wants to, and reads what is held back.
func (x *Exchange) openBody() error {
	outer := outerBodies(x.r)
	if x.h.plans.requestIdle && outer == nil {
		return nil
	}
	skip, err := x.bodySkip(outer)
	if err != nil {
		return err
	}
	if x.h.plans.request.Terms(skip).Idle() || isTunnel(x.r) {
		return nil
	}
	if x.r.Method == http.MethodConnect {
		return errConnect
	}
	b := newRequestBody(x)
	x.body = b
	if outer != nil {
		outer.passed = true
	}
	x.lookUp() // later it is another goroutine that calls the hooks
	x.out.watch()
	b.pipe.Start(bodypipe.Setup{Plan: x.h.plans.request, Host: (*requestHost)(x), Budget: x.h.budget, Skip: skip})
	if err := b.admit(); err != nil {
		return err
	}
	if err := b.askHeads(); err != nil {
		return err
	}
	if err := b.hold(); err != nil {
		return err
	}
	x.publishBodies(skip, outer)
	return nil
}

// newRequestBody returns the body of the request that x is for.
func newRequestBody(x *Exchange) *requestBody {
	b := &requestBody{x: x, src: x.r.Body, declared: x.r.ContentLength, timeout: time.Duration(x.h.BodyTimeout)}
	if b.src == nil {
		b.src = http.NoBody
	}
	if b.outer = outerBody(b.src); b.outer != nil {
		b.gate.before = &b.outer.gate
	}
	b.setTimeouts()
	return b
}

// bodySkip returns the filters that have no part in the body of the request. Their conditions are looked at now.
func (x *Exchange) bodySkip(outer *Bodies) (skip bodypipe.Set, err error) {
	upstream := outer != nil
	for i := range x.h.entries {
		if !x.h.plans.early.Has(i) {
			continue
		}
		part, err := x.takesPart(i)
		if err != nil {
			return 0, err
		}
		e := &x.h.entries[i]
		if !part {
			skip = skip.With(i)
			continue
		}
		upstream = upstream || e.bound != nil || e.selected != nil
	}
	if !upstream {
		skip = skip.With(x.h.upstreamPlace())
	}
	return skip, nil
}

// admit refuses a body of which it is known that it is too long.
func (b *requestBody) admit() error {
	b.x.mu.Lock()
	defer b.x.mu.Unlock()
	if b.err == nil && !b.spent {
		b.err = b.pipe.Declare(max(b.declared, b.pipe.Read()))
	}
	return b.err
}

// resume is for when filters may have asked for a limit since, or to hold the body back.
func (b *requestBody) resume() error {
	if err := b.admit(); err != nil || !b.holding() {
		return err
	}
	if body := b.x.r.Body; body != io.ReadCloser(b) && body != http.NoBody {
		return errors.New("a branch has put another body in the place of one that is to be held back")
	}
	return b.hold()
}

// holding reports whether the body is held back. Somebody whom a branch has left may still read it.
func (b *requestBody) holding() bool {
	b.x.mu.Lock()
	defer b.x.mu.Unlock()
	return b.pipe.Holding()
}

// Read reads what the filters made of the body.
func (b *requestBody) Read(p []byte) (int, error) {
	if b.gate.refusesRead() {
		return 0, errInHook
	}
	b.reading.Lock()
	defer b.reading.Unlock()
	for {
		n, spent, err := b.take(p)
		if spent {
			b.putBuffer()
		}
		if n > 0 || err != nil || len(p) == 0 {
			return n, err
		}
		if err := b.step(); err != nil {
			return 0, err
		}
	}
}

// take takes from what goes on, and tells whether that was the rest of the body.
func (b *requestBody) take(p []byte) (n int, spent bool, err error) {
	b.x.mu.Lock()
	defer b.x.mu.Unlock()
	switch {
	case b.closed:
		return 0, false, errBodyClosed
	case b.err != nil:
		return 0, false, b.err
	case b.shut:
		return 0, false, http.ErrBodyReadAfterClose
	case b.x.bodies.unfiltered():
		b.err = errUnfiltered
		return 0, false, b.err
	case len(b.out) == 0 && b.pipe.Ended():
		return 0, b.spend(), io.EOF
	}
	n = copy(p, b.out)
	b.out = b.out[n:]
	return n, len(b.out) == 0 && b.spend(), nil
}

// Close ends the body: who reads on is wrong, not the client. What is still to come is the server's: its Close waits for it.
func (b *requestBody) Close() error {
	if b.gate.refusesClose() {
		return nil
	}
	b.x.mu.Lock()
	b.shut = true
	spent, over := b.spend(), b.over
	b.x.mu.Unlock()
	if spent {
		b.tryPutBuffer()
	}
	if over {
		return b.src.Close()
	}
	return nil
}

// spend gives back what the body holds, if all of it has passed the filters and nobody needs it any more: the answer may
// take long. Who calls it holds x.mu.
func (b *requestBody) spend() bool {
	if b.spent || b.x.bodies != nil || !b.pipe.Ended() {
		return false
	}
	b.spent = true
	b.free()
	return true
}

// free gives back what the filters hold of the body. Who calls it holds x.mu.
func (b *requestBody) free() {
	b.pipe.Close()
	b.out, b.whole = nil, nil
}

// tryPutBuffer gives back the buffer. Who still reads keeps it.
func (b *requestBody) tryPutBuffer() {
	if b.reading.TryLock() {
		defer b.reading.Unlock()
		b.putBuffer()
	}
}

// putBuffer gives back the buffer. Who calls it holds reading.
func (b *requestBody) putBuffer() {
	if b.buf == nil {
		return
	}
	pool := &smallBuffers
	if len(*b.buf) > smallBuffer {
		pool = &largeBuffers
	}
	pool.Put(b.buf)
	b.buf, b.in = nil, nil
}

// failedBy reports whether an error is that of this body. A nil body has none.
func (b *requestBody) failedBy(err error) bool {
	if b == nil {
		return false
	}
	b.x.mu.Lock()
	defer b.x.mu.Unlock()
	return b.err != nil && errors.Is(err, b.err)
}

// drained reports whether the client's body was read to its end, whatever has become of it.
func (b *requestBody) drained() bool {
	b.x.mu.Lock()
	defer b.x.mu.Unlock()
	return b.over
}

// ended reports whether the client's body has passed the filters to its end.
func (b *requestBody) ended() bool {
	b.x.mu.Lock()
	defer b.x.mu.Unlock()
	return b.pipe.Ended()
}

// end gives back what the body holds. Nothing of it is read any more, and no filter sees any of it.
func (b *requestBody) end() {
	b.x.mu.Lock()
	b.armRest()
	b.closed = true
	b.free()
	b.x.mu.Unlock()
	b.tryPutBuffer()
	b.strip(b.x)
}

// Interface guards
var (
	_ io.ReadCloser = (*requestBody)(nil)
)
