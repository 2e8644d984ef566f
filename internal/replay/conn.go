// Package replay puts bytes that were read from a connection back in front of it.
package replay

import (
	"errors"
	"io"
	"net"
)

// Conn is a connection whose first bytes were read already. Reads give those bytes first, then what follows. The
// bytes belong to the Conn alone, for as long as it lives: they never go back to a pool.
type Conn struct {
	net.Conn
	pending       []byte
	remote, local net.Addr
}

// New returns conn with pending in front. It takes pending over.
func New(conn net.Conn, pending []byte) *Conn { return &Conn{Conn: conn, pending: pending} }

// SetAddrs makes the connection answer with these addresses, which a PROXY header gave. nil leaves an address as is.
func (c *Conn) SetAddrs(remote, local net.Addr) { c.remote, c.local = remote, local }

// Read reads the bytes in front first.
func (c *Conn) Read(p []byte) (int, error) {
	if len(c.pending) == 0 {
		return c.Conn.Read(p)
	}
	n := copy(p, c.pending)
	if c.pending = c.pending[n:]; len(c.pending) == 0 {
		c.pending = nil
	}
	return n, nil
}

// Take returns the bytes in front that nobody has read yet and removes them. After it, the inner connection may be
// used directly.
func (c *Conn) Take() []byte {
	b := c.pending
	c.pending = nil
	return b
}

// BareConn returns the inner connection, if there is nothing in front of it any more.
func (c *Conn) BareConn() (net.Conn, bool) { return c.Conn, len(c.pending) == 0 }

// ReadFrom hands bulk writes to the inner connection, which may have a faster way than copying (sendfile, splice).
func (c *Conn) ReadFrom(r io.Reader) (int64, error) {
	if rf, ok := c.Conn.(io.ReaderFrom); ok {
		return rf.ReadFrom(r)
	}
	return io.Copy(struct{ io.Writer }{c.Conn}, r)
}

// CloseWrite ends the writing half of the inner connection.
func (c *Conn) CloseWrite() error {
	if cw, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return cw.CloseWrite()
	}
	return errors.ErrUnsupported
}

// RemoteAddr returns the client's address.
func (c *Conn) RemoteAddr() net.Addr {
	if c.remote != nil {
		return c.remote
	}
	return c.Conn.RemoteAddr()
}

// LocalAddr returns the address that the client connected to.
func (c *Conn) LocalAddr() net.Addr {
	if c.local != nil {
		return c.local
	}
	return c.Conn.LocalAddr()
}
