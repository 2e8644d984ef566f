package listener

import (
	"bytes"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"strings"
	"testing"

	"github.com/mholt/caddy-l4/layer4"
	"go.uber.org/zap"

	"github.com/caddy-sluice/sluice/internal/replay"
	"github.com/caddy-sluice/sluice/modules/session"
)

// fake is a connection without a network.
type fake struct {
	net.Conn
	from   io.Reader
	to     bytes.Buffer
	closed int
}

func newFake(data string) *fake { return &fake{from: strings.NewReader(data)} }

func (f *fake) Read(p []byte) (int, error)  { return f.from.Read(p) }
func (f *fake) Write(p []byte) (int, error) { return f.to.Write(p) }
func (f *fake) RemoteAddr() net.Addr        { return &net.TCPAddr{Port: 1} }
func (f *fake) LocalAddr() net.Addr         { return &net.TCPAddr{Port: 2} }

func (f *fake) Close() error {
	f.closed++
	return nil
}

// newPlain returns a connection as it is handed over.
func newPlain(conn net.Conn) *plainConn { return &plainConn{Conn: conn, sess: new(session.Session)} }

// capable is a connection with ways of its own.
type capable struct {
	*fake
	bulk       int
	halfClosed int
}

func (c *capable) ReadFrom(r io.Reader) (int64, error) {
	c.bulk++
	return c.to.ReadFrom(r)
}

func (c *capable) CloseWrite() error {
	c.halfClosed++
	return nil
}

// secure is a connection on which TLS has been terminated.
type secure struct{ *fake }

func (secure) ConnectionState() tls.ConnectionState {
	return tls.ConnectionState{NegotiatedProtocol: "h2"}
}

// TestNewHanded checks that the HTTP server gets all bytes, wherever they are, and only as a TLS connection what is one.
func TestNewHanded(t *testing.T) {
	states := []*tls.ConnectionState{{NegotiatedProtocol: "outer"}, {NegotiatedProtocol: "inner"}}
	for _, tc := range []struct {
		name   string
		conn   net.Conn
		buf    string
		states []*tls.ConnectionState
		stream string
		proto  string // "-": not a TLS connection
	}{
		{"plain", newFake("rest"), "", nil, "rest", "-"},
		{"matched", newFake(" rest"), "matched", nil, "matched rest", "-"},
		{"preread", replay.New(newFake(" rest"), []byte("preread")), "", nil, "preread rest", "-"},
		{"both", replay.New(newFake(" rest"), []byte(" preread")), "matched", nil, "matched preread rest", "-"},
		{"tls", secure{newFake("rest")}, "", nil, "rest", "h2"},
		{"tls_matched", secure{newFake(" rest")}, "matched", nil, "matched rest", "h2"},
		{"tls_preread", replay.New(secure{newFake(" rest")}, []byte("preread")), "", nil, "preread rest", "h2"},
		{"tls_by_handler", newFake("rest"), "", states, "rest", "inner"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			buf := []byte(tc.buf)
			cx := layer4.WrapConnection(tc.conn, buf, zap.NewNop())
			cx.SetVar(layer4.TLSConnectionStatesVarName, tc.states)
			conn := newHanded(cx, session.Of(cx))
			clear(buf) // the buffer is somebody else's from now on
			if got, err := io.ReadAll(conn); string(got) != tc.stream || err != nil {
				t.Errorf("got %q, %v, want %q", got, err, tc.stream)
			}
			proto := "-"
			if c, ok := conn.(interface{ ConnectionState() tls.ConnectionState }); ok {
				proto = c.ConnectionState().NegotiatedProtocol
			}
			if proto != tc.proto {
				t.Errorf("got protocol %q, want %q", proto, tc.proto)
			}
		})
	}
}

// TestPlainConn checks what passes through to the connection inside.
func TestPlainConn(t *testing.T) {
	inner := &capable{fake: newFake("")}
	c := newPlain(inner)
	if n, err := c.ReadFrom(strings.NewReader("bulk")); n != 4 || err != nil || inner.bulk != 1 || inner.to.String() != "bulk" {
		t.Errorf("got %d, %v, %d calls, %q, want one call with bulk", n, err, inner.bulk, inner.to.String())
	}
	if err := c.CloseWrite(); err != nil || inner.halfClosed != 1 {
		t.Errorf("got %v, %d half-closes, want one", err, inner.halfClosed)
	}
	if err := c.Close(); err != nil || inner.closed != 1 { // in no set: nothing to forget
		t.Errorf("got %v, %d closes, want one", err, inner.closed)
	}

	simple := newFake("")
	c = newPlain(simple)
	if n, err := c.ReadFrom(strings.NewReader("bulk")); n != 4 || err != nil || simple.to.String() != "bulk" {
		t.Errorf("got %d, %v, %q, want bulk", n, err, simple.to.String())
	}
	if err := c.CloseWrite(); !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("got %v, want %v", err, errors.ErrUnsupported)
	}
}

// TestTrackedOf checks that our connection is found inside what the HTTP server has, and nothing in what is not ours.
func TestTrackedOf(t *testing.T) {
	plain := newPlain(newFake(""))
	terminated := &tlsConn{plainConn: plain}
	for _, tc := range []struct {
		name string
		conn net.Conn
		want *plainConn
	}{
		{"plain", plain, plain},
		{"terminated", terminated, plain},
		{"tls_around", tls.Server(plain, &tls.Config{}), plain},
		{"tls_twice", tls.Server(tls.Server(plain, &tls.Config{}), &tls.Config{}), plain},
		{"tls_around_terminated", tls.Server(terminated, &tls.Config{}), plain},
		{"foreign", newFake(""), nil},
		{"tls_around_foreign", tls.Server(newFake(""), &tls.Config{}), nil},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if got := trackedOf(tc.conn); got != tc.want {
				t.Errorf("got %p, want %p", got, tc.want)
			}
		})
	}
}
