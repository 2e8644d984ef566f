package pipeline

import (
	"errors"
	"io"
	"net/http"
	"strconv"

	"github.com/caddy-sluice/sluice/internal/bodypipe"
)

// hold reads the body as long as it is held back, and has the request go on with what comes of it. An empty body is read
// at once.
func (b *requestBody) hold() error {
	b.reading.Lock()
	defer b.reading.Unlock()
	x := b.x
	if err := b.readAhead(x.r.ContentLength == 0 && !b.complete); err != nil {
		return err
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	if b.complete = b.pipe.Ended(); b.complete {
		b.whole = b.out
	}
	b.frame(x.r)
	return nil
}

// readAhead reads the body as long as it is held back, and an empty one to its end.
func (b *requestBody) readAhead(empty bool) error {
	defer b.x.unshield(b.x.shield())
	for !b.ended() && (empty || b.holding()) {
		if err := b.step(); err != nil {
			return err
		}
	}
	return nil
}

// frame makes the request say of its body what is true after the filters. Who calls it holds x.mu.
func (b *requestBody) frame(r *http.Request) {
	m := bodypipe.Message{Declared: r.ContentLength, Change: changeOf(&b.pipe), Final: -1, Trailers: len(r.Trailer) > 0}
	if b.complete {
		m.Final = int64(len(b.out))
	}
	f := bodypipe.Frame(m)
	r.TransferEncoding = nil
	if b.eof || b.pipe.Read() > 0 {
		delete(r.Header, "Expect") // the client was told to go on
	}
	if !f.Intact {
		forgetDigests(r.Header)
	}
	switch {
	case f.Length < 0:
		delete(r.Header, "Content-Length")
	case f.Length != r.ContentLength || len(r.Header["Content-Length"]) == 0 && f.Length > 0:
		r.Header.Set("Content-Length", strconv.FormatInt(f.Length, 10))
	}
	r.ContentLength = f.Length
	r.Body = b
	if f.Length == 0 {
		r.Body = http.NoBody
	}
}

// step reads some of the body and passes it by the filters. Who calls it holds reading.
func (b *requestBody) step() error {
	if err := b.fill(); err != nil {
		return b.fail(err)
	}
	x := b.x
	x.mu.Lock()
	defer x.mu.Unlock()
	if b.closed {
		return errBodyClosed
	}
	b.gate.enter()
	n, out, err := b.pipe.Push(b.in, b.eof)
	b.gate.leave()
	if err != nil {
		b.err = err
		return err
	}
	b.in, b.out = b.in[n:], out
	if b.pipe.Ended() {
		b.cleanTrailers()
	}
	return nil
}

// cleanTrailers removes the trailers that nobody may send, and those that are no longer true.
func (b *requestBody) cleanTrailers() {
	for _, name := range b.x.h.owned {
		delete(b.x.r.Trailer, name)
	}
	if !b.pipe.Changed() {
		return
	}
	for _, name := range digestHeaders {
		delete(b.x.r.Trailer, name)
	}
}

// fill reads from the client, if the pipe has taken all that there was.
func (b *requestBody) fill() error {
	if len(b.in) > 0 || b.eof {
		return nil
	}
	if b.buf == nil {
		b.buf = smallBuffers.Get().(*[]byte)
	} else if cap(b.in) == 0 && len(*b.buf) == smallBuffer {
		smallBuffers.Put(b.buf)
		b.buf = largeBuffers.Get().(*[]byte)
	}
	if err := b.arm(true); err != nil {
		return err
	}
	n, err := b.src.Read(*b.buf)
	b.in, b.eof = (*b.buf)[:n], errors.Is(err, io.EOF)
	if err != nil && !b.eof {
		return err
	}
	// While nobody waits for the client there is no deadline: with HTTP/2 it would end the body of a client that waits
	// for us.
	return b.arm(false)
}

// fail keeps an error of the client's body, as the one with which the request is answered.
func (b *requestBody) fail(err error) error {
	b.x.mu.Lock()
	defer b.x.mu.Unlock()
	switch {
	case b.closed:
		return errBodyClosed
	case b.shut, errors.Is(err, http.ErrBodyReadAfterClose) && b.x.response.Status != 0:
		// Go's server reads the rest of a short body before the client gets the header, and closes it. So it isn't the client
		// who is wrong, and the answer goes on.
		return http.ErrBodyReadAfterClose
	case b.err == nil:
		b.err = clientError(err, b.x.r)
	}
	return b.err
}
