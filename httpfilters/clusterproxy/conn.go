package clusterproxy

import (
	"crypto/tls"
	"errors"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"syscall"

	"github.com/caddy-sluice/sluice/internal/sockopt"
	"github.com/caddy-sluice/sluice/modules/cluster"
)

// conn is a connection to an endpoint, below TLS, that the cluster counts while it serves requests. It knows what the
// endpoint can have seen of them.
type conn struct {
	net.Conn
	count cluster.Conn
	// written is how many bytes were sent, reading says that somebody waits for some. They are safe.
	written atomic.Int64
	reading atomic.Bool

	// gone is closed when the connection is.
	gone chan struct{}

	// mu guards what follows, and that the count is changed in the order of uses.
	mu sync.Mutex
	// users is how many requests the connection serves, idled says that it isn't counted since it is none.
	users int
	idled bool
	// cause is the first error of a read or a write.
	cause error
	// closed says that the connection is.
	closed bool
	// ended says that the endpoint has ended the stream, reset that it was reset instead, and broken that it has failed in
	// another way, maybe because of a reset that a reader is about to be told of: the kernel tells of it once.
	ended, reset, broken bool
	// last is what was acknowledged when that was noticed, or else when the connection was closed; noted says that it stays
	// so.
	last  acked
	noted bool
}

// acked is how many bytes the endpoint has acknowledged, if that is known.
type acked struct {
	bytes int64
	known bool
}

// mark is where a connection stood when a request got it.
type mark struct {
	written int64
	acked   acked
}

// use notes that a request got the connection.
func (c *conn) use() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.users++
	if c.idled {
		c.idled = false
		c.count.Reused()
	}
}

// leave notes that so many requests are done with the connection: none, if the one for which it was made is served by
// another.
func (c *conn) leave(requests int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.users -= requests
	if c.users == 0 && !c.idled {
		c.idled = true
		c.count.Idle()
	}
}

// mark returns where the connection stands. It asks the kernel.
func (c *conn) mark() mark { return mark{c.written.Load(), c.ask()} }

// ask asks the kernel what the endpoint has acknowledged.
func (c *conn) ask() (a acked) {
	a.bytes, a.known = sockopt.Acked(c.Conn)
	return a
}

// unseen says whether the endpoint has certainly got nothing of what was sent since a mark; err is what has become of it.
// That is so if nothing was sent, or if the endpoint has ended the stream, and has acknowledged nothing until then: the end
// of a stream says what its sender has got. A reset doesn't.
func (c *conn) unseen(since mark, err error) bool {
	if c.written.Load() == since.written {
		return true
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.note(false)
	// TLS has an end of its own, which comes first.
	ended := c.ended || errors.Is(err, io.EOF)
	return ended && !c.reset && since.acked.known && c.last.known && c.last.bytes <= since.acked.bytes
}

// note notes whether the stream has ended, and what the endpoint has acknowledged. It stays with that when the stream has
// ended, or if it can't be asked again. The caller holds mu.
func (c *conn) note(lastTime bool) {
	if c.noted {
		return
	}
	c.ended = c.ended || !c.reset && !c.broken && sockopt.Ended(c.Conn)
	c.last, c.noted = c.ask(), c.ended || lastTime
}

// failed notes why a read or a write has failed.
func (c *conn) failed(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.cause == nil {
		c.cause = err
	}
	switch {
	case errors.Is(err, io.EOF):
		c.ended = true
		c.note(true)
	case errors.Is(err, syscall.ECONNRESET):
		c.reset = true
	case c.reading.Load():
		c.broken = true
	}
}

// why returns the first error of the connection, if there was one.
func (c *conn) why() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.cause
}

// Read reads, and looks at how the stream ends.
func (c *conn) Read(p []byte) (int, error) {
	c.reading.Store(true)
	n, err := c.Conn.Read(p)
	if err != nil {
		c.failed(err)
	}
	c.reading.Store(false)
	return n, err
}

// Write writes, and counts.
func (c *conn) Write(p []byte) (int, error) {
	n, err := c.Conn.Write(p)
	c.written.Add(int64(n))
	if err != nil {
		c.failed(err)
	}
	return n, err
}

// Close closes the connection. After it, nobody can be asked.
func (c *conn) Close() error {
	c.mu.Lock()
	if c.users > 0 {
		c.note(true)
	}
	if !c.closed {
		c.closed = true
		close(c.gone)
	}
	c.mu.Unlock()
	c.count.Close()
	return c.Conn.Close()
}

// CloseWrite ends what is sent. An upgraded connection needs it.
func (c *conn) CloseWrite() error {
	if half, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return net.ErrClosed
}

// counted returns the connection under what the transport tells of; nil if it is none of ours.
func counted(c net.Conn) *conn {
	if secure, ok := c.(*tls.Conn); ok {
		c = secure.NetConn()
	}
	own, _ := c.(*conn)
	return own
}
