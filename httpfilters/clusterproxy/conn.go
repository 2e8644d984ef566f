package clusterproxy

import (
	"crypto/tls"
	"net"
	"sync"

	"github.com/caddy-sluice/sluice/modules/cluster"
)

// conn is a connection to an endpoint that the cluster counts. What the pool says of it comes late: it may be in use
// again before the request that it served before tells that it went into the pool. So uses are numbered.
type conn struct {
	net.Conn
	count cluster.Conn
	// mu guards uses and idled, and that the count is changed in the order of uses.
	mu   sync.Mutex
	uses uint64
	// idled says that it isn't counted while it is in the pool.
	idled bool
}

// use notes that a request got the connection, and returns the number of the use.
func (c *conn) use() uint64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.uses++
	if c.idled {
		c.idled = false
		c.count.Reused()
	}
	return c.uses
}

// idle notes that the connection went into the pool after a use; the use 0 is none at all: the request for which the
// connection was made was served by another one.
func (c *conn) idle(use uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.uses == use && !c.idled {
		c.idled = true
		c.count.Idle()
	}
}

// Close closes the connection.
func (c *conn) Close() error {
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
