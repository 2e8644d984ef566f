package listener

import (
	"bytes"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"sync"
	"sync/atomic"

	"github.com/mholt/caddy-l4/layer4"

	"github.com/caddy-sluice/sluice/internal/replay"
	"github.com/caddy-sluice/sluice/modules/session"
)

// handed is a connection that is given to the HTTP server.
type handed interface {
	net.Conn
	tracked() *plainConn
}

// plainConn is a connection as it came in, with the bytes that were read of it in front.
type plainConn struct {
	net.Conn
	// fresh is the set that it is in. The session may be stopped, and the connection closed by that, at any time.
	fresh atomic.Pointer[freshSet]
	sess  *session.Session
	// in and out count the bytes read and written.
	in, out atomic.Int64
	closing sync.Once
	// active is set once the HTTP server has read a request, until it writes.
	active atomic.Bool
}

// tlsConn is a connection whose TLS a handler has terminated. The HTTP server asks it for the protocol negotiated.
type tlsConn struct {
	*plainConn
	state func() tls.ConnectionState
}

// ConnectionState returns the state of the TLS connection.
func (c *tlsConn) ConnectionState() tls.ConnectionState { return c.state() }

// newHanded takes the connection out of cx, whose own buffer does not outlive its handlers.
func newHanded(cx *layer4.Connection, sess *session.Session) handed {
	conn := cx.Conn
	if pending := cx.MatchingBytes(); len(pending) > 0 {
		conn = replay.New(conn, bytes.Clone(pending))
	}
	plain := &plainConn{Conn: conn, sess: sess}
	// To close it beneath would leave it open for the session.
	sess.OnStop(func() { _ = plain.Close() })
	if state := tlsState(cx); state != nil {
		return &tlsConn{plain, state}
	}
	return plain
}

// tlsState returns how to ask for the state of the TLS that was terminated before this point; nil if none was.
func tlsState(cx *layer4.Connection) func() tls.ConnectionState {
	if states, _ := cx.GetVar(layer4.TLSConnectionStatesVarName).([]*tls.ConnectionState); len(states) > 0 {
		last := *states[len(states)-1]
		return func() tls.ConnectionState { return last }
	}
	conn := cx.Conn
	if r, ok := conn.(*replay.Conn); ok {
		conn = r.Conn
	}
	if c, ok := conn.(interface{ ConnectionState() tls.ConnectionState }); ok {
		return c.ConnectionState
	}
	return nil
}

func (c *plainConn) tracked() *plainConn { return c }

// forget takes the connection out of the set of fresh ones.
func (c *plainConn) forget() {
	if set := c.fresh.Load(); set != nil {
		set.remove(c)
	}
}

// Read reads from the connection.
func (c *plainConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	c.in.Add(int64(n))
	return n, err
}

// Write writes to the connection.
func (c *plainConn) Write(p []byte) (int, error) {
	c.answers()
	n, err := c.Conn.Write(p)
	c.out.Add(int64(n))
	return n, err
}

// answers is called before each write.
func (c *plainConn) answers() {
	if c.active.Load() && c.active.CompareAndSwap(true, false) {
		c.forget()
	}
}

// Close closes the connection, which is the end of its session.
func (c *plainConn) Close() error {
	c.forget()
	err := c.Conn.Close()
	c.closing.Do(func() { c.sess.Closed(c.in.Load(), c.out.Load()) })
	return err
}

// ReadFrom hands bulk writes to the connection, which may have a faster way than copying.
func (c *plainConn) ReadFrom(r io.Reader) (int64, error) {
	c.answers()
	n, err := c.readFrom(r)
	c.out.Add(n)
	return n, err
}

func (c *plainConn) readFrom(r io.Reader) (int64, error) {
	if rf, ok := c.Conn.(io.ReaderFrom); ok {
		return rf.ReadFrom(r)
	}
	return io.Copy(struct{ io.Writer }{c.Conn}, r)
}

// CloseWrite ends the writing half of the connection.
func (c *plainConn) CloseWrite() error {
	if cw, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return cw.CloseWrite()
	}
	return errors.ErrUnsupported
}
