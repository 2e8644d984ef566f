package pipeline

import (
	"bufio"
	"errors"
	"io"
	"net"
	"net/http"
)

// sureOut is more than what Go's server keeps back of an answer, header and all, before the client gets any of it.
const sureOut = 8 << 10

// Write passes bytes of the body by the filters.
func (w *writer) Write(p []byte) (int, error) {
	if w.stage == fresh {
		w.WriteHeader(http.StatusOK)
	}
	switch {
	case w.stage >= failed:
		return 0, errRefused
	case w.muted:
		return len(p), nil
	case !w.piped:
		return w.deliver(p)
	case w.declared >= 0 && int64(len(p)) > w.declared-w.pipe.Read():
		return 0, http.ErrContentLength // as without filters
	}
	for rest := p; len(rest) > 0; {
		n, err := w.push(rest, false)
		if err != nil {
			return len(p) - len(rest), err
		}
		rest = rest[n:]
	}
	return len(p), nil
}

// push passes bytes by the filters, and sends what goes on.
func (w *writer) push(p []byte, end bool) (int, error) {
	n, b, err := w.filter(p, end)
	if err != nil {
		w.fail(err)
		return 0, errRefused
	}
	if w.stage == held && !w.pipe.Holding() {
		final := int64(-1)
		if w.pipe.Ended() {
			final = int64(len(b))
		}
		w.send(final)
	}
	if len(b) > 0 {
		_, err = w.deliver(b)
		w.broken = w.broken || err != nil
	}
	return n, err
}

// deliver writes to the client.
func (w *writer) deliver(p []byte) (int, error) {
	n, err := w.ResponseWriter.Write(p)
	if w.wrote += int64(n); w.wrote > sureOut {
		w.tell()
	}
	return n, err
}

// tell tells the body of the request that the client has the header of its answer.
func (w *writer) tell() {
	if !w.told && w.x.body != nil {
		w.x.body.answer()
	}
	w.told = true
}

// filter passes bytes by the filters.
func (w *writer) filter(p []byte, end bool) (int, []byte, error) {
	w.x.mu.Lock()
	defer w.x.mu.Unlock()
	return w.pipe.Push(p, end)
}

// ReadFrom copies to the body: past the filters by the fastest way there is, if they don't look at it.
func (w *writer) ReadFrom(r io.Reader) (int64, error) {
	if w.stage == fresh || w.owes() {
		return w.readFirst(r)
	}
	if w.stage < failed && !w.piped && !w.muted {
		return w.ResponseWriterWrapper.ReadFrom(r)
	}
	buf := largeBuffers.Get().(*[]byte)
	defer largeBuffers.Put(buf)
	return io.CopyBuffer(struct{ io.Writer }{w}, struct{ io.Reader }{r}, *buf)
}

// owes reports that somebody may still have to be told when the client has the header.
func (w *writer) owes() bool {
	return !w.told && w.stage < failed && !w.piped && !w.muted && w.x.body != nil && !w.x.body.ended()
}

// readFirst is ReadFrom before there is a header, and until it is sure to be out. It doesn't go out before there is
// something to write: what is read may be the body of the request, of which the client sends nothing any more once it has
// an answer.
func (w *writer) readFirst(r io.Reader) (total int64, err error) {
	buf := smallBuffers.Get().(*[]byte)
	defer smallBuffers.Put(buf)
	for {
		n, err := r.Read(*buf)
		if n > 0 {
			written, failed := w.Write((*buf)[:n])
			if total += int64(written); failed != nil {
				return total, failed
			}
		}
		switch {
		case errors.Is(err, io.EOF):
			return total, nil
		case err != nil:
			return total, err
		case n > 0 && !w.owes():
			rest, err := w.ReadFrom(r)
			return total + rest, err
		}
	}
}

// FlushError sends what may go out.
func (w *writer) FlushError() error {
	if w.stage == fresh {
		w.WriteHeader(http.StatusOK)
	}
	switch {
	case w.stage == held:
		return nil
	case w.stage >= failed:
		return errRefused
	}
	err := http.NewResponseController(w.ResponseWriter).Flush()
	if err == nil {
		w.tell()
	}
	return err
}

// Hijack hands over the connection. A response that is refused, or held back, isn't got round by it.
func (w *writer) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	if w.stage == held || w.stage >= failed {
		return nil, nil, errRefused
	}
	conn, buf, err := http.NewResponseController(w.ResponseWriter).Hijack()
	if err == nil {
		w.stage, w.headerOut = tunnel, true
		w.tell()
	}
	return conn, buf, err
}

// Interface guards
var (
	_ io.ReaderFrom                             = (*writer)(nil)
	_ http.Hijacker                             = (*writer)(nil)
	_ interface{ FlushError() error }           = (*writer)(nil)
	_ interface{ Unwrap() http.ResponseWriter } = (*writer)(nil)
)
