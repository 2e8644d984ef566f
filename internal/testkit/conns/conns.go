// Package conns makes layer-4 connections for tests of single handlers. Nothing is on their other end.
package conns

import (
	"net"
	"net/netip"
	"testing"

	"github.com/mholt/caddy-l4/layer4"
	"go.uber.org/zap"
)

// conn is a connection in memory, with addresses.
type conn struct {
	net.Conn
	local, remote net.Addr
}

func (c *conn) LocalAddr() net.Addr  { return c.local }
func (c *conn) RemoteAddr() net.Addr { return c.remote }

// New returns a connection from one address to another. An address is IP and port, or the path of a unix socket; "" is
// the nameless end of one.
func New(t testing.TB, remote, local string) *layer4.Connection {
	t.Helper()
	end, other := net.Pipe()
	t.Cleanup(func() { _, _ = end.Close(), other.Close() })
	return layer4.WrapConnection(&conn{end, Addr(local), Addr(remote)}, nil, zap.NewNop())
}

// Addr returns an address as a socket has it.
func Addr(text string) net.Addr {
	if at, err := netip.ParseAddrPort(text); err == nil {
		return net.TCPAddrFromAddrPort(at)
	}
	return &net.UnixAddr{Name: text, Net: "unix"}
}
