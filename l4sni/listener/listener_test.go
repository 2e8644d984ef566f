package listener

import (
	"errors"
	"io"
	"net"
	"testing"

	"github.com/mholt/caddy-l4/layer4"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/caddy-sluice/sluice/internal/testkit/conns"
	"github.com/caddy-sluice/sluice/modules/session"
)

// open listens with a wrapper whose handler is given, and closes the listener when the test ends.
func open(t *testing.T, base net.Listener, handler layer4.HandlerFunc) (*listener, *observer.ObservedLogs) {
	t.Helper()
	core, logs := observer.New(zap.DebugLevel)
	l := listen(base, &Wrapper{handler: handler, keepAlive: defaultKeepAlive, logger: zap.New(core)})
	t.Cleanup(func() { _ = l.Close() })
	return l, logs
}

// dial connects to a listener and sends some bytes.
func dial(t *testing.T, l net.Listener, data string) net.Conn {
	t.Helper()
	conn, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	if _, err := conn.Write([]byte(data)); err != nil {
		t.Fatal(err)
	}
	return conn
}

// accept takes a connection as the HTTP server does, and checks what the client has sent.
func accept(t *testing.T, l net.Listener, want string) net.Conn {
	t.Helper()
	conn, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	got := make([]byte, len(want))
	if _, err := io.ReadFull(conn, got); err != nil || string(got) != want {
		t.Fatalf("got %q, %v, want %q", got, err, want)
	}
	return conn
}

// TestHandOver checks the way of a connection that no route takes, and what its session says.
func TestHandOver(t *testing.T) {
	sessions := make(chan *session.Session, 1)
	l, logs := open(t, conns.Listen(t, "127.0.0.1:0"), func(cx *layer4.Connection) error {
		sess := session.Of(cx)
		if !sess.HandsOver {
			t.Error("got a session that does not know where to go")
		}
		err := handOver(cx)
		sessions <- sess
		return err
	})
	client := dial(t, l, "request")
	conn := accept(t, l, "request")
	if got, want := conn.RemoteAddr().String(), client.LocalAddr().String(); got != want {
		t.Errorf("got client %v, want %v", got, want)
	}
	if got := (<-sessions).CloseReason(); got != session.HandedOver {
		t.Errorf("got %v, want %v", got, session.HandedOver)
	}
	if _, err := conn.Write([]byte("answer")); err != nil {
		t.Fatal(err)
	}
	_ = conn.Close()
	if got, err := io.ReadAll(client); string(got) != "answer" || err != nil {
		t.Errorf("got %q, %v, want the answer", got, err)
	}
	if logs.Len() != 0 {
		t.Errorf("got log entries %v, want none", logs.All())
	}
}

// TestHandled checks that a connection which does not go on is closed, and what is said about it.
func TestHandled(t *testing.T) {
	for _, tc := range []struct {
		name    string
		handler layer4.HandlerFunc
		message string
	}{
		{"taken", func(*layer4.Connection) error { return nil }, ""},
		{"error", func(*layer4.Connection) error { return errors.New("failure") }, "handling connection"},
		{"panic", func(*layer4.Connection) error { panic("fault") }, "recovered from a panic while handling a connection"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			l, logs := open(t, conns.Listen(t, "127.0.0.1:0"), func(cx *layer4.Connection) error {
				_, _ = io.ReadFull(cx, make([]byte, len("request")))
				return tc.handler(cx)
			})
			client := dial(t, l, "request")
			if got, err := io.ReadAll(client); len(got) > 0 || err != nil {
				t.Errorf("got %q, %v, want the end", got, err)
			}
			entries := logs.All()
			if tc.message == "" && len(entries) > 0 {
				t.Errorf("got log entries %v, want none", entries)
			}
			if tc.message != "" && (len(entries) != 1 || entries[0].Message != tc.message || entries[0].Level != zap.ErrorLevel) {
				t.Errorf("got log entries %v, want one error %q", entries, tc.message)
			}
		})
	}
}

// TestReplace opens a second listener on the address of the first, as a reload does: connections go to the first until
// that leaves, then to the second, also those that were accepted before. The address stays open throughout.
func TestReplace(t *testing.T) {
	base := conns.Listen(t, "127.0.0.1:0")
	waiting, proceed := make(chan struct{}), make(chan struct{})
	old, _ := open(t, base, func(cx *layer4.Connection) error {
		close(waiting)
		<-proceed
		return handOver(cx)
	})
	dial(t, old, "early")
	<-waiting
	latest, _ := open(t, conns.Listen(t, base.Addr().String()), handOver)
	old.leave()
	dial(t, latest, "between")
	accept(t, latest, "between")
	if err := old.Close(); err != nil {
		t.Error(err)
	}
	if err := old.Close(); err != nil {
		t.Errorf("got %v from the second close, want none", err)
	}
	close(proceed)
	accept(t, latest, "early")
	dial(t, latest, "late")
	accept(t, latest, "late")
	if _, err := old.Accept(); !errors.Is(err, net.ErrClosed) {
		t.Errorf("got %v from the old listener, want %v", err, net.ErrClosed)
	}
}

// TestClose checks that the last listener takes the hub and its socket with it.
func TestClose(t *testing.T) {
	l, _ := open(t, conns.Listen(t, "127.0.0.1:0"), handOver)
	key, addr := l.hubKey, l.Addr().String()
	if refs, ok := hubs.References(key); !ok || refs != 1 {
		t.Errorf("got %d users of the hub, want 1", refs)
	}
	_ = l.Close()
	if refs, ok := hubs.References(key); ok {
		t.Errorf("got %d users of the hub, want none", refs)
	}
	if conn, err := net.Dial("tcp", addr); err == nil {
		_ = conn.Close()
		t.Error("got a connection to an address that nobody listens on")
	}
}
