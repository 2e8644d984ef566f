package clusterproxy

import (
	"errors"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/caddy-sluice/sluice/modules/reserved"
)

const (
	// firstKept is the size of the buffers that are kept for the next request, and maxPooled that of the largest of them.
	firstKept = 4 << 10
	maxPooled = 64 << 10
	// maxPassed is how much is read at once if it isn't kept.
	maxPassed = 32 << 10
)

// buffers are for bodies that are kept.
var buffers = sync.Pool{New: func() any {
	b := make([]byte, 0, firstKept)
	return &b
}}

var (
	errBodyClosed = errors.New("the body was closed")
	errBodyLost   = errors.New("the body can't be sent again")
	// errConnGone is what the transport gets that waits for the client's body, and puts in the place of what it knows.
	errConnGone = errors.New("the connection was closed while the client's body was awaited")
)

// passing are for what is sent and not kept.
var passing = sync.Pool{New: func() any {
	b := make([]byte, maxPassed)
	return &b
}}

// bodyError is what was wrong with a client's body.
type bodyError struct{ err error }

// keeper keeps the body of a request while it is read for the first time, up to a limit, so that it can be sent again.
// Nothing is read before somebody sends it.
//
// A reader may be given up while it waits for the client's next bytes, so that it doesn't read them itself: a goroutine does,
// one for each read, and what it gets is for whoever comes next. release waits for it.
type keeper struct {
	// mu guards what follows.
	mu  sync.Mutex
	src io.Reader
	buf *[]byte
	err error
	// over says that nothing more is kept, read how much was read.
	over bool
	read int64
	// tail has the last of what was read, if it isn't kept, until it is sent. It lies in pass.
	tail []byte
	pass *[]byte
	// arrival is closed when what is being read has arrived; nil while nothing is.
	arrival chan struct{}

	// trailer has what comes behind the body, once all of it was read, which may write to it. announced is what was known of
	// that at first, reserved are the names that don't go on.
	trailer, announced http.Header
	reserved           reserved.Names

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

// whole says whether the body was read to its end.
func (k *keeper) whole() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.err != nil
}

// reader returns the body from its beginning, for an attempt; nil is none.
func (k *keeper) reader(t *try) *bodyReader {
	k.mu.Lock()
	defer k.mu.Unlock()
	trailer := k.announced
	if k.err != nil {
		trailer = k.trailer
	}
	return &bodyReader{keeper: k, try: t, trailer: maps.Clone(trailer), done: make(chan struct{})}
}

// release ends the body, and gives back the buffers. If the client is waited for, interrupt must end that.
func (k *keeper) release(interrupt func()) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if arrival := k.arrival; arrival != nil {
		k.mu.Unlock()
		interrupt()
		<-arrival
		k.mu.Lock()
	}
	if k.err == nil {
		k.err = errBodyLost // for a reader that nobody has closed
	}
	k.over = true
	k.lost.Store(true)
	if k.buf != nil && cap(*k.buf) <= maxPooled {
		*k.buf = (*k.buf)[:0]
		buffers.Put(k.buf)
	}
	if k.pass != nil {
		passing.Put(k.pass)
	}
	k.buf, k.tail, k.pass = nil, nil, nil
}

// await has the next bytes read, so many at most, and returns what is closed when they are there. The caller holds mu.
func (k *keeper) await(most int) <-chan struct{} {
	if k.arrival == nil {
		k.arrival = make(chan struct{})
		go k.fetch(k.room(most))
	}
	return k.arrival
}

// room returns where to read to: so many bytes at most, and behind what is kept, if they are kept too. The caller holds mu.
func (k *keeper) room(most int) (p []byte, kept bool) {
	if room := k.limit - k.kept(); !k.over && room > 0 {
		if k.buf == nil {
			k.buf = buffers.Get().(*[]byte)
		}
		b := slices.Grow(*k.buf, 1)
		*k.buf = b
		free := int64(cap(b) - len(b))
		return b[len(b) : len(b)+int(min(int64(most), room, free))], true
	}
	if k.pass == nil {
		k.pass = passing.Get().(*[]byte)
	}
	k.lost.Store(k.read != k.kept() || !k.known)
	return (*k.pass)[:min(most, len(*k.pass))], false
}

// fetch reads from the source.
func (k *keeper) fetch(p []byte, kept bool) {
	n, err := k.src.Read(p)
	k.mu.Lock()
	defer k.mu.Unlock()
	switch whole := k.read == k.kept(); {
	case kept:
		*k.buf = (*k.buf)[:len(*k.buf)+n]
	case whole && n == 0 && errors.Is(err, io.EOF):
		k.lost.Store(false) // since that is the end
	default:
		k.over, k.tail = true, p[:n]
		k.lost.Store(true)
	}
	k.read += int64(n)
	if err != nil {
		k.ended(err)
	}
	close(k.arrival)
	k.arrival = nil
}

// ended notes how the body has ended. The caller holds mu.
func (k *keeper) ended(err error) {
	k.err = err
	tidyTrailer(k.trailer, k.reserved)
	switch {
	case !errors.Is(err, io.EOF):
		k.failed.Store(&bodyError{err})
	case k.read < k.length:
		k.failed.Store(&bodyError{io.ErrUnexpectedEOF})
	}
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
	try    *try
	at     int64
	// trailer is the attempt's own: another one may have it before the body is read.
	trailer http.Header
	// done is closed when nobody wants the rest.
	done chan struct{}
	once sync.Once
}

// Read reads what is kept, then what the client sends. It waits for the client for as long as the attempt has a connection
// to send it over: over HTTP/1, the transport doesn't give up an attempt before that.
func (b *bodyReader) Read(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	for {
		n, arrival, err := b.next(p)
		if arrival == nil {
			return n, err
		}
		select {
		case <-arrival:
		case <-b.done:
		case <-b.try.cut():
			return 0, errConnGone
		}
	}
}

// next reads what is there. If that is nothing, it returns what to wait for.
func (b *bodyReader) next(p []byte) (n int, arrival <-chan struct{}, err error) {
	k := b.keeper
	k.mu.Lock()
	defer k.mu.Unlock()
	select {
	case <-b.done:
		return 0, nil, errBodyClosed
	default:
	}
	switch kept := k.kept(); {
	case b.at < kept:
		n = copy(p, (*k.buf)[b.at:])
	case len(k.tail) > 0 && b.at == k.read-int64(len(k.tail)):
		n = copy(p, k.tail)
		k.tail = k.tail[n:]
	case b.at != k.read:
		return 0, nil, errBodyLost
	case k.err == nil:
		return 0, k.await(len(p)), nil
	}
	if b.at += int64(n); b.at == k.read && k.err != nil {
		err = k.err
		clear(b.trailer)
		maps.Copy(b.trailer, k.trailer)
		b.try.loaded()
	}
	return n, nil, err
}

// Close ends the reader, and wakes who waits in Read. The client's body is the server's to close.
func (b *bodyReader) Close() error {
	b.keeper.mu.Lock() // after it, nothing here tells the attempt anything
	defer b.keeper.mu.Unlock()
	b.once.Do(func() { close(b.done) })
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
	s.body.announced = maps.Clone(r.Trailer)
}

// interrupt ends a read of the client's body, which waits for the client, so that no one reads any more when the handler is
// done. The client can't be asked for the rest after that: over HTTP/1 its connection must end with the answer, or what is
// left of the body would be taken for the next request.
func interrupt(w http.ResponseWriter) {
	_ = http.NewResponseController(w).SetReadDeadline(time.Unix(1, 0))
	for more := true; more; {
		// This tells the server, even if the header of the answer is gone. It knows only its own writer.
		tooLarge := http.MaxBytesReader(w, io.NopCloser(strings.NewReader("x")), 0)
		_, _ = tooLarge.Read(make([]byte, 1))
		var outer interface{ Unwrap() http.ResponseWriter }
		if outer, more = w.(interface{ Unwrap() http.ResponseWriter }); more {
			w = outer.Unwrap()
		}
	}
}
