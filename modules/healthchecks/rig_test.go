package healthchecks

import (
	"context"
	"io"
	"net"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/caddy-sluice/sluice/internal/testkit/modules"
	"github.com/caddy-sluice/sluice/internal/testkit/ports"
)

// patience is how long a check may take that has no reason to fail for the time it takes.
const patience = 10 * time.Second

// load provisions a check from its JSON.
func load(t testing.TB, name, settings string) Checker {
	t.Helper()
	module, err := modules.Load(t, Namespace+"."+name, settings)
	if err != nil {
		t.Fatal(err)
	}
	return module.(Checker)
}

// silent reads all that it gets, and says nothing.
func silent(conn net.Conn) { _, _ = io.Copy(io.Discard, conn) }

// says answers whatever comes first with a text, and reads the rest.
func says(text string) func(net.Conn) {
	return func(conn net.Conn) {
		_, _ = conn.Read(make([]byte, 4096))
		_, _ = io.WriteString(conn, text)
		silent(conn)
	}
}

// refused returns an address at which nobody listens.
func refused(t *testing.T) net.Addr {
	t.Helper()
	return net.TCPAddrFromAddrPort(netip.MustParseAddrPort(ports.Dead(t)))
}

// portAt returns the port of an address.
func portAt(addr net.Addr) uint16 { return netip.MustParseAddrPort(addr.String()).Port() }

// endpoint is a target whose connections are kept in mind.
type endpoint struct {
	Target
	conns []*conn
}

// conn is a connection that says whether it was closed.
type conn struct {
	net.Conn
	closed atomic.Bool
}

func (c *conn) Close() error {
	c.closed.Store(true)
	return c.Conn.Close()
}

// at returns the endpoint at an address.
func at(addr net.Addr) *endpoint {
	e := &endpoint{Target: Target{Host: "127.0.0.1", Port: portAt(addr)}}
	e.Dial = func(ctx context.Context, host string, port uint16) (net.Conn, error) {
		var d net.Dialer
		made, err := d.DialContext(ctx, "tcp", netip.AddrPortFrom(netip.MustParseAddr("127.0.0.1"), port).String())
		if err != nil {
			return nil, err
		}
		e.conns = append(e.conns, &conn{Conn: made})
		return e.conns[len(e.conns)-1], nil
	}
	return e
}

// ask makes one check, and sees to it that nothing is left open and the target is as it was.
func ask(t *testing.T, c Checker, e *endpoint) error {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	host, port, with, header := e.Host, e.Port, e.TLS, e.ProxyProtocol
	err := c.Check(ctx, &e.Target)
	if e.Host != host || e.Port != port || e.TLS != with || e.ProxyProtocol != header {
		t.Errorf("got another target: %+v", e.Target)
	}
	for i, conn := range e.conns {
		if !conn.closed.Load() {
			t.Errorf("connection %d was not closed", i)
		}
	}
	return err
}

// expect checks the error of a check: none if want is empty, else one with this text.
func expect(t *testing.T, err error, want string) {
	t.Helper()
	switch {
	case want == "" && err != nil:
		t.Errorf("got error %v, want none", err)
	case want != "" && (err == nil || !strings.Contains(err.Error(), want)):
		t.Errorf("got error %v, want one with %q", err, want)
	}
}
