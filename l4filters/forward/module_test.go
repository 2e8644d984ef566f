package forward

import (
	"context"
	"net"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/mholt/caddy-l4/layer4"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/caddy-sluice/sluice/internal/preread"
	"github.com/caddy-sluice/sluice/internal/replay"
	"github.com/caddy-sluice/sluice/internal/testkit/modules"
	"github.com/caddy-sluice/sluice/modules/session"
)

// load provisions a handler, with a logger whose entries can be looked at.
func load(t *testing.T, config string) (*Handler, *observer.ObservedLogs, error) {
	t.Helper()
	mod, err := modules.Load(t, "layer4.handlers.forward", config)
	if err != nil {
		return nil, nil, err
	}
	core, logs := observer.New(zap.DebugLevel)
	h := mod.(*Handler)
	h.logger = zap.New(core)
	return h, logs, nil
}

// newHandler provisions a handler for an upstream.
func newHandler(t *testing.T, upstream string) (*Handler, *observer.ObservedLogs) {
	t.Helper()
	h, logs, err := load(t, `{"upstream":"`+upstream+`","connect_timeout":"2s"}`)
	if err != nil {
		t.Fatal(err)
	}
	return h, logs
}

// listen returns a listener on loopback, which is closed when the test ends.
func listen(t testing.TB) *net.TCPListener {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = ln.Close() })
	return ln.(*net.TCPListener)
}

// newPair returns both ends of a TCP connection.
func newPair(t *testing.T) (client, server *net.TCPConn) {
	t.Helper()
	ln := listen(t)
	conn, err := net.Dial("tcp", ln.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	accepted, err := ln.Accept()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _, _ = conn.Close(), accepted.Close() })
	return conn.(*net.TCPConn), accepted.(*net.TCPConn)
}

// behind is a next handler that must not be reached.
func behind(t *testing.T) layer4.Handler {
	t.Helper()
	return layer4.HandlerFunc(func(*layer4.Connection) error {
		t.Error("got a call of next, want none: forward is the last handler")
		return nil
	})
}

func TestParseUpstream(t *testing.T) {
	t.Setenv("SLUICE_TEST_HOST", "backend.example.com")
	for _, tc := range []struct{ upstream, text, err string }{
		{"10.0.0.1:443", "10.0.0.1:443", ""},
		{"[2001:db8::1]:443", "[2001:db8::1]:443", ""},
		{"backend.example.com:443", "backend.example.com:443", ""},
		{"localhost:8443", "localhost:8443", ""},
		{"tcp/10.0.0.1:443", "10.0.0.1:443", ""},
		{"unix//run/backend.sock", "unix//run/backend.sock", ""},
		{"unix//run/backend.sock|0200", "unix//run/backend.sock", ""},
		{"{env.SLUICE_TEST_HOST}:443", "backend.example.com:443", ""},
		{"", "", "required"},
		{":443", "", "must be an address, host:port or unix/path"},
		{"backend.example.com", "", "must be an address"},
		{"backend.example.com:0", "", "must be an address"},
		{"10.0.0.1:443-445", "", "must have one port, not a range"},
		{"udp/10.0.0.1:443", "", "must be host:port or unix/path, not udp"},
		{"10.0.0.1:https", "", "10.0.0.1:https"},
		{"10.0.0.1:70000", "", "10.0.0.1:70000"},
		{"{env.SLUICE_TEST_NONESUCH}:443", "", "SLUICE_TEST_NONESUCH} is empty"},
		{"{none.such}:443", "", "unrecognized placeholder {none.such}"},
	} {
		t.Run(tc.upstream, func(t *testing.T) {
			address, dynamic, err := expandAtLoad(tc.upstream)
			var to *target
			if err == nil {
				to, err = parseUpstream(address)
			}
			if tc.err != "" {
				if err == nil || !strings.Contains(err.Error(), tc.err) {
					t.Errorf("got error %v, want one with %q", err, tc.err)
				}
				return
			}
			if err != nil || dynamic || to.text != tc.text || !to.trusted {
				t.Errorf("got %+v, dynamic %v, %v, want %q, trusted", to, dynamic, err, tc.text)
			}
		})
	}
}

// TestPeel checks what is left for the relay: the connection itself, and all that was read of it, in order.
func TestPeel(t *testing.T) {
	socket, _ := net.Pipe()
	defer socket.Close()
	for _, tc := range []struct {
		name string
		conn net.Conn
		buf  string
		want string
	}{
		{"nothing", socket, "", ""},
		{"matched", socket, "matched", "matched"},
		{"replay", replay.New(socket, []byte("preread")), "", "preread"},
		{"replay_of_nothing", replay.New(socket, nil), "", ""},
		{"both", replay.New(socket, []byte(" and preread")), "matched", "matched and preread"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			cx := layer4.WrapConnection(tc.conn, []byte(tc.buf), zap.NewNop())
			conn, prefix := peel(cx)
			if r, ok := conn.(*replay.Conn); ok {
				conn, _ = r.BareConn()
			}
			if conn != socket || string(prefix) != tc.want {
				t.Errorf("got %T and %q, want the socket and %q", conn, prefix, tc.want)
			}
			if r, ok := tc.conn.(*replay.Conn); ok && len(r.Take()) > 0 {
				t.Error("got bytes left in the connection: they would be sent twice")
			}
		})
	}
	other := &wrapped{socket}
	if conn, _ := peel(layer4.WrapConnection(other, nil, zap.NewNop())); conn != other {
		t.Errorf("got %T, want the connection that somebody has wrapped", conn)
	}
}

// wrapped is a connection that somebody else has put something around.
type wrapped struct{ net.Conn }

// TestRejectedIsClosed checks that a connection which the preread rejected reaches no upstream, unless a fallback has
// taken it.
func TestRejectedIsClosed(t *testing.T) {
	h, logs := newHandler(t, "unix/"+filepath.Join(t.TempDir(), "none.sock"))
	for reason := range preread.Reasons() {
		for _, routed := range []bool{false, true} {
			cx := layer4.WrapConnection(&wrapped{pipe(t)}, nil, zap.NewNop())
			sess := session.Of(cx)
			sess.Preread, sess.Reason, sess.Routed = true, reason, routed
			if err := h.Handle(cx, behind(t)); err != nil {
				t.Errorf("%v: got error %v, want none", reason, err)
			}
			want := session.ForPreread(reason)
			if routed {
				want = session.ConnectFailure
			}
			if got := sess.CloseReason(); got != want || (sess.Upstream != "") != routed {
				t.Errorf("%v, routed %v: got %v, upstream %q, want %v", reason, routed, got, sess.Upstream, want)
			}
		}
	}
	for _, entry := range logs.All() {
		if entry.Level > zap.DebugLevel && entry.Message != "connecting to upstream failed" {
			t.Errorf("got log entry %q for a client's mistake", entry.Message)
		}
	}
}

// pipe returns one end of a connection in memory.
func pipe(t *testing.T) net.Conn {
	t.Helper()
	a, b := net.Pipe()
	t.Cleanup(func() { _, _ = a.Close(), b.Close() })
	return a
}

// TestDialFailures checks how a failure to connect is classified and reported.
func TestDialFailures(t *testing.T) {
	closed := listen(t)
	_ = closed.Close()
	// No name server is asked: the resolver's connection to it fails at once.
	offline := &net.Resolver{PreferGo: true, Dial: func(context.Context, string, string) (net.Conn, error) {
		return nil, syscall.ENETUNREACH
	}}
	for _, tc := range []struct {
		name, upstream string
		want           session.CloseReason
	}{
		{"T43_refused", closed.Addr().String(), session.ConnectFailure},
		{"no_socket", "unix/" + filepath.Join(t.TempDir(), "none.sock"), session.ConnectFailure},
		{"no_such_name", "nonexistent.invalid:443", session.ResolveFailure},
	} {
		t.Run(tc.name, func(t *testing.T) {
			h, logs := newHandler(t, tc.upstream)
			h.dialer.Resolver = offline
			cx := layer4.WrapConnection(pipe(t), nil, zap.NewNop())
			sess := session.Of(cx)
			if err := h.Handle(cx, behind(t)); err != nil {
				t.Errorf("got error %v, want none", err)
			}
			if got := sess.CloseReason(); got != tc.want || sess.Upstream != tc.upstream || sess.ConnectTime <= 0 {
				t.Errorf("got %v, upstream %q after %v, want %v, %q", got, sess.Upstream, sess.ConnectTime, tc.want, tc.upstream)
			}
			if logs.Len() != 1 {
				t.Fatalf("got %d log entries, want 1", logs.Len())
			}
			entry := logs.All()[0]
			fields := entry.ContextMap()
			if entry.Level != zap.WarnLevel || fields["reason"] != tc.want.String() || fields["upstream"] != tc.upstream || fields["error"] == nil {
				t.Errorf("got %v %v, want a warning with reason, upstream and error", entry.Level, fields)
			}
		})
	}
}

// TestConnectTimeout checks that the timeout covers the resolving of a name, too.
func TestConnectTimeout(t *testing.T) {
	h, _, err := load(t, `{"upstream":"nonexistent.invalid:443","connect_timeout":"10ms"}`)
	if err != nil {
		t.Fatal(err)
	}
	h.dialer.Resolver = &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
		<-ctx.Done()
		return nil, ctx.Err()
	}}
	cx := layer4.WrapConnection(pipe(t), nil, zap.NewNop())
	if err := h.Handle(cx, behind(t)); err != nil {
		t.Fatal(err)
	}
	if got := session.Of(cx).CloseReason(); got != session.ResolveFailure {
		t.Errorf("got %v, want %v", got, session.ResolveFailure)
	}
}
