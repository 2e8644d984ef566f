package clusterproxy

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// late is a connection on which what the endpoint sends last is noticed late: when the next request is under way.
type late struct {
	net.Conn
	// hold says that the next that arrives is the last. arrived, sent and closed are closed when it has, when something
	// was sent after that, and when the connection is closed.
	hold                  atomic.Bool
	arrived, sent, closed chan struct{}
	release, once         sync.Once
}

// Read reads. The last of it waits until something was sent.
func (l *late) Read(p []byte) (int, error) {
	n, err := l.Conn.Read(p)
	if l.hold.Swap(false) {
		close(l.arrived)
		<-l.sent
	}
	return n, err
}

// Write writes. What comes after the first that was sent too late waits until that was noticed.
func (l *late) Write(p []byte) (int, error) {
	select {
	case <-l.sent:
		<-l.closed
	default:
	}
	n, err := l.Conn.Write(p)
	select {
	case <-l.arrived:
		l.release.Do(func() { close(l.sent) })
	default:
	}
	return n, err
}

// SetWriteDeadline is what TLS begins to close a connection with.
func (l *late) SetWriteDeadline(at time.Time) error {
	l.once.Do(func() { close(l.closed) })
	return l.Conn.SetWriteDeadline(at)
}

// Close closes the connection.
func (l *late) Close() error {
	l.release.Do(func() { close(l.sent) })
	l.once.Do(func() { close(l.closed) })
	return l.Conn.Close()
}

// NetConn returns what it is around.
func (l *late) NetConn() net.Conn { return l.Conn }

// dialFunc is what makes connections for a transport.
type dialFunc = func(ctx context.Context, network, address string) (net.Conn, error)

// endsLate makes the pooled connections of a site late ones, below TLS if there is TLS. They are sent to the channel.
func (s *site) endsLate() <-chan *late {
	made := make(chan *late, 100)
	wrap := func(dial dialFunc) dialFunc {
		return func(ctx context.Context, network, address string) (net.Conn, error) {
			c, err := dial(ctx, network, address)
			if err != nil {
				return nil, err
			}
			own := counted(c)
			l := &late{Conn: own.Conn, arrived: make(chan struct{}), sent: make(chan struct{}), closed: make(chan struct{})}
			own.Conn = l
			made <- l
			return c, nil
		}
	}
	pooled := s.handler.(*Handler).only.pooled
	if pooled.DialContext = wrap(pooled.DialContext); pooled.DialTLSContext != nil {
		pooled.DialTLSContext = wrap(pooled.DialTLSContext)
	}
	return made
}

// TestStaleConnection checks that a pooled connection which the endpoint has closed costs nobody a request.
func TestStaleConnection(t *testing.T) {
	for _, tc := range []struct {
		name, method, body string
	}{
		{"Z81_get", "GET", ""},
		{"Z81_D102_post_with_a_kept_body", "POST", "hello"},
		{"Z81_Z83_post_without_a_body", "POST", ""},
	} {
		for _, secured := range []bool{false, true} {
			t.Run(tc.name+"_tls_"+strconv.FormatBool(secured), func(t *testing.T) {
				b, set := unstarted(echo), object{"passive": object{"fall": 5}}
				if secured {
					b.StartTLS()
					set["tls"] = object{"insecure_skip_verify": true}
				} else {
					b.Start()
				}
				s := newSite(t, web([]string{b.started(t).address}, set), nil)
				made := s.endsLate()
				for range 5 {
					s.do(t, tc.method, tc.body).want(t, http.StatusOK)
					l := <-made
					l.hold.Store(true)
					b.CloseClientConnections()
					<-l.arrived
					s.do(t, tc.method, tc.body).want(t, http.StatusOK)
					got := s.placeholder("replayed") + s.placeholder("attempts") + s.placeholder("retries")
					if want := "true20"; got != want {
						t.Errorf("got replayed, attempts and retries %s, want %s", got, want)
					}
				}
				if got := b.accepted.Load(); got != 10 {
					t.Errorf("Z83: got %d connections, want 10: a new one for each replay", got)
				}
				if got := failuresOf(t, b.address); got != 0 {
					t.Errorf("got a streak of %d failures, want 0", got)
				}
				s.idle(t)
			})
		}
	}
}

// TestUnseen checks what a connection tells about a request that was sent over it, after one that was answered.
func TestUnseen(t *testing.T) {
	takes := func(c net.Conn) { _, _ = io.ReadFull(c, make([]byte, 7)) }
	closes := func(c net.Conn) { _ = c.Close() }
	resets := func(c net.Conn) {
		if secured, ok := c.(*tls.Conn); ok {
			c = secured.NetConn()
		}
		_ = c.(*net.TCPConn).SetLinger(0)
		_ = c.Close()
	}
	for _, tc := range []struct {
		name          string
		silent        bool
		before, after func(net.Conn)
		want          bool
	}{
		{name: "closed_while_idle", before: closes, want: true},
		{name: "closed_after_reading", after: func(c net.Conn) { takes(c); closes(c) }},
		{name: "reset_after_reading", after: func(c net.Conn) { takes(c); resets(c) }},
		{name: "reset_while_idle", silent: true, after: resets, want: true},
	} {
		for _, secured := range []bool{false, true} {
			t.Run(tc.name+"_tls_"+strconv.FormatBool(secured), func(t *testing.T) {
				client, server := connected(t, secured)
				own := counted(client)
				at := own.mark()
				if tc.before != nil {
					tc.before(server)
				}
				if !tc.silent {
					_, _ = client.Write([]byte("request"))
				}
				if tc.after != nil {
					tc.after(server)
				}
				_, err := client.Read(make([]byte, 1))
				// net/http may close it before it is asked about, or after.
				closed := own.unseen(at, err)
				_ = client.Close()
				if got := own.unseen(at, err); got != tc.want || closed != tc.want {
					t.Errorf("got %v, then %v, want %v (%v)", closed, got, tc.want, err)
				}
			})
		}
	}
}

// TestUnseenUnix checks the same of a unix socket, whose kernel doesn't say what was acknowledged.
func TestUnseenUnix(t *testing.T) {
	ln, err := net.Listen("unix", filepath.Join(t.TempDir(), "s"))
	if err != nil {
		t.Fatal(err)
	}
	for _, idle := range []bool{false, true} {
		client, server := accepted(t, ln)
		c := &conn{Conn: client, gone: make(chan struct{})}
		at := c.mark()
		if idle {
			_ = server.Close()
		}
		_, _ = c.Write([]byte("request"))
		_ = server.Close()
		_, err := c.Read(make([]byte, 1))
		if got := c.unseen(at, err); got != idle {
			t.Errorf("closed while idle %v: got unseen %v (%v)", idle, got, err)
		}
	}
}

// accepted returns both ends of a connection.
func accepted(t *testing.T, ln net.Listener) (client, server net.Conn) {
	t.Helper()
	t.Cleanup(func() { _ = ln.Close() })
	client, err := net.Dial(ln.Addr().Network(), ln.Addr().String())
	if err == nil {
		server, err = ln.Accept()
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = client.Close()
		_ = server.Close()
	})
	return client, server
}

// connected returns both ends of a connection to an endpoint, with TLS or without, over which a request was answered. It
// serves another one.
func connected(t *testing.T, secured bool) (client, server net.Conn) {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	dialed, server := accepted(t, ln)
	own := &conn{Conn: dialed, users: 1, gone: make(chan struct{})}
	client = own
	if secured {
		client = tls.Client(own, &tls.Config{InsecureSkipVerify: true})
		server = tls.Server(server, &tls.Config{Certificates: secure(t, false, echo).TLS.Certificates})
	}
	for _, hop := range [][2]net.Conn{{client, server}, {server, client}} {
		sent := make(chan error, 1)
		go func() {
			_, err := hop[0].Write([]byte("ping"))
			sent <- err
		}()
		_, err := io.ReadFull(hop[1], make([]byte, 4))
		if err = errors.Join(err, <-sent); err != nil {
			t.Fatal(err)
		}
	}
	return client, server
}
