package clusterproxy

import (
	"errors"
	"io"
	"net/http"
	"sync"
	"sync/atomic"

	"github.com/caddy-sluice/sluice/modules/reserved"
)

const (
	// firstKept is the size of the buffers that are kept for the next request, and maxPooled that of the largest of them.
	firstKept = 4 << 10
	maxPooled = 64 << 10
)

// buffers are for bodies that are kept.
var buffers = sync.Pool{New: func() any {
	b := make([]byte, 0, firstKept)
	return &b
}}

var (
	errBodyClosed = errors.New("the body was closed")
	errBodyLost   = errors.New("the body can't be sent again")
)

// bodyError is what was wrong with a client's body.
type bodyError struct{ err error }

// keeper keeps the body of a request while it is read for the first time, up to a limit, so that it can be sent again.
// Nothing is read before somebody sends it.
//
// A reader that was given up may still wait for the client's next bytes when the next one begins: what it gets is kept for
// the next, which waits for it.
type keeper struct {
	// mu guards the source and what is kept.
	mu  sync.Mutex
	src io.Reader
	buf *[]byte
	err error
	// over says that nothing more is kept, read how much was read.
	over bool
	read int64

	// trailer has what comes behind the body, once all of it was read; reserved are the names that don't go on.
	trailer  http.Header
	reserved reserved.Names

	// failed is the error of the client's body, if it had one. It is safe.
	failed atomic.Pointer[bodyError]

	limit, length int64
	// known says that the body isn't longer than the limit.
	known bool
	// lost says that not everything that was read is kept. It is set before a read that can't be kept. It is safe.
	lost atomic.Bool
}

// newKeeper returns the keeper of a body. length is -1 if it isn't known. Without a limit nothing is kept.
func newKeeper(src io.Reader, length, limit int64) *keeper {
	return &keeper{
		src: src, limit: limit, length: length, known: length >= 0 && length <= limit, over: limit <= 0 || length > limit,
	}
}

// repeatable says whether the whole body can be sent once more: none of it was read, or all that was is kept. It is safe.
func (k *keeper) repeatable() bool { return !k.lost.Load() }

// reader returns the body from its beginning.
func (k *keeper) reader() io.ReadCloser { return &bodyReader{keeper: k} }

// release gives back the buffer. A reader that still waits for the client keeps it.
func (k *keeper) release() {
	if !k.mu.TryLock() {
		return
	}
	defer k.mu.Unlock()
	k.over = true
	k.lost.Store(true)
	if k.buf == nil {
		return
	}
	if cap(*k.buf) <= maxPooled {
		*k.buf = (*k.buf)[:0]
		buffers.Put(k.buf)
	}
	k.buf = nil
}

// next reads from the source, and keeps it if there is room. The caller holds mu.
func (k *keeper) next(p []byte) (int, error) {
	if k.err != nil {
		return 0, k.err
	}
	room := k.limit - k.kept()
	if k.over || room <= 0 {
		return k.pass(p)
	}
	if int64(len(p)) > room {
		p = p[:room]
	}
	n, err := k.take(p)
	if k.buf == nil {
		k.buf = buffers.Get().(*[]byte)
	}
	*k.buf = append(*k.buf, p[:n]...)
	return n, err
}

// take reads from the source. The caller holds mu.
func (k *keeper) take(p []byte) (int, error) {
	n, err := k.src.Read(p)
	k.read += int64(n)
	k.err = err
	if err != nil {
		tidyTrailer(k.trailer, k.reserved)
	}
	switch {
	case err == nil:
	case !errors.Is(err, io.EOF):
		k.failed.Store(&bodyError{err})
	case k.read < k.length:
		k.failed.Store(&bodyError{io.ErrUnexpectedEOF})
	}
	return n, err
}

// pass reads from the source without keeping. If that is the end, nothing is lost.
func (k *keeper) pass(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	whole := k.read == k.kept()
	k.lost.Store(!k.known)
	n, err := k.take(p)
	if whole && n == 0 && errors.Is(err, io.EOF) {
		k.lost.Store(false)
		return n, err
	}
	k.over = true
	k.lost.Store(true)
	return n, err
}

// kept returns how much is kept. The caller holds mu.
func (k *keeper) kept() int64 {
	if k.buf == nil {
		return 0
	}
	return int64(len(*k.buf))
}

// bodyReader is the body for one attempt.
type bodyReader struct {
	keeper *keeper
	at     int64
	closed atomic.Bool
}

// Read reads what is kept, then what the client sends.
func (b *bodyReader) Read(p []byte) (int, error) {
	k := b.keeper
	k.mu.Lock()
	defer k.mu.Unlock()
	if b.closed.Load() {
		return 0, errBodyClosed
	}
	if kept := k.kept(); b.at < kept {
		n := copy(p, (*k.buf)[b.at:])
		b.at += int64(n)
		return n, nil
	}
	if b.at != k.read {
		return 0, errBodyLost
	}
	n, err := k.next(p)
	b.at = k.read
	return n, err
}

// Close ends the reader. The client's body is the server's to close.
func (b *bodyReader) Close() error {
	b.closed.Store(true)
	return nil
}

// keep begins to keep the body of a request, if it has one. One that goes on as a stream of another protocol isn't kept.
func (s *state) keep(r *http.Request) {
	if s.filtered != nil || s.bare || r.Body == nil || r.Body == http.NoBody {
		return
	}
	limit := s.link.cluster.BodyLimit()
	if r.Method == http.MethodConnect || len(r.Header[upgradeHeader]) > 0 {
		limit = 0
	}
	s.body = newKeeper(r.Body, r.ContentLength, limit)
	s.body.trailer, s.body.reserved = r.Trailer, reservedIn(r)
	tidyTrailer(r.Trailer, s.body.reserved) // it is complete if the body was read before
}
