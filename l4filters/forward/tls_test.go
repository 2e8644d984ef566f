package forward

import (
	"bufio"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/mholt/caddy-l4/layer4"
	"github.com/pires/go-proxyproto"
	"go.uber.org/zap"

	"github.com/caddy-sluice/sluice/internal/replay"
	"github.com/caddy-sluice/sluice/internal/testkit/certs"
	"github.com/caddy-sluice/sluice/modules/session"
)

// secureEcho is an upstream with TLS that sends back what it gets. It tells the name and the protocol of each
// connection, and the name in the client's certificate.
type secureEcho struct {
	address string
	file    string
	config  *tls.Config
	seen    chan string
}

func newSecureEcho(t *testing.T, change func(*tls.Config)) *secureEcho {
	t.Helper()
	cert, file := certs.New(t, "backend.example.test")
	ln := listen(t)
	e := &secureEcho{ln.Addr().String(), file, &tls.Config{Certificates: []tls.Certificate{cert}}, make(chan string, 100)}
	if change != nil {
		change(e.config)
	}
	go func() {
		for {
			conn, err := ln.Accept()
			if err != nil {
				return
			}
			go e.serve(conn)
		}
	}()
	return e
}

func (e *secureEcho) serve(conn net.Conn) {
	defer conn.Close()
	secured := tls.Server(conn, e.config)
	if secured.Handshake() != nil {
		return
	}
	state := secured.ConnectionState()
	e.seen <- state.ServerName + " " + state.NegotiatedProtocol
	_, _ = io.Copy(secured, secured)
	_ = secured.CloseWrite()
}

// handler provisions a handler for the upstream, with these settings of its TLS.
func (e *secureEcho) handler(t *testing.T, settings, more string) *Handler {
	t.Helper()
	if settings != "" {
		settings = "," + settings
	}
	h, _, err := load(t, `{"upstream":"`+e.address+`","tls":{"ca":{"provider":"file","pem_files":["`+e.file+`"]}`+settings+`}`+more+`}`)
	if err != nil {
		t.Fatal(err)
	}
	return h
}

// exchange sends a line through the handler, from a connection that has been wrapped, and returns why it ended.
func exchange(t *testing.T, h *Handler, wrap func(net.Conn) net.Conn) session.CloseReason {
	t.Helper()
	client, server := newPair(t)
	cx := layer4.WrapConnection(wrap(server), nil, zap.NewNop())
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = h.Handle(cx, behind(t))
		_ = server.Close()
	}()
	_, _ = client.Write([]byte("a line"))
	_ = client.CloseWrite()
	got, _ := io.ReadAll(client)
	<-done
	reason := session.Of(cx).CloseReason()
	if reason == session.Completed && string(got) != "a line" {
		t.Errorf("got %q, want the line", got)
	}
	return reason
}

// plain leaves a connection as it is.
func plain(conn net.Conn) net.Conn { return conn }

// ended is a connection whose TLS somebody has ended, with this protocol.
type ended struct {
	net.Conn
	protocol string
}

func (e *ended) ConnectionState() tls.ConnectionState {
	return tls.ConnectionState{NegotiatedProtocol: e.protocol}
}
func (e *ended) NetConn() net.Conn { return e.Conn }
func (e *ended) CloseWrite() error { return e.Conn.(*net.TCPConn).CloseWrite() }

// agreed makes connections of a client that has agreed on a protocol, which a preread has read from since.
func agreed(protocol string) func(net.Conn) net.Conn {
	return func(conn net.Conn) net.Conn { return replay.New(&ended{conn, protocol}, nil) }
}

// TestTLS checks what an upstream is asked for, and that nothing is relayed before it has answered right.
func TestTLS(t *testing.T) {
	offers := func(names ...string) func(*tls.Config) { return func(c *tls.Config) { c.NextProtos = names } }
	old := func(c *tls.Config) { c.MaxVersion = tls.VersionTLS11 }
	for _, tc := range []struct {
		name     string
		upstream func(*tls.Config)
		settings string
		client   func(net.Conn) net.Conn
		seen     string
		reason   session.CloseReason
	}{
		{"by_address", nil, ``, plain, " ", session.Completed},
		{"by_name", nil, `"server_name":"backend.example.test"`, plain, "backend.example.test ", session.Completed},
		{"another_name", nil, `"server_name":"other.example.test"`, plain, "", session.ConnectFailure},
		{"unverified", nil, `"server_name":"other.example.test","insecure_skip_verify":true`, plain, "other.example.test ", session.Completed},
		{"old_upstream", old, ``, plain, "", session.ConnectFailure},
		{"alpn", offers("mqtt"), `"alpn":["mqtt"]`, plain, " mqtt", session.Completed},
		{"alpn_not_there", offers("mqtt"), `"alpn":["xmpp"]`, plain, "", session.ConnectFailure},
		{"what_the_client_agreed_on", offers("http/1.1", "h2"), ``, agreed("h2"), " h2", session.Completed},
		{"not_what_the_client_agreed_on", offers("http/1.1"), ``, agreed("h2"), "", session.ConnectFailure},
		{"no_protocols_for_http2", nil, ``, agreed("h2"), "", session.ConnectFailure},
		{"no_protocols_for_another", nil, ``, agreed("mqtt"), " ", session.Completed},
		{"client_without_protocol", offers("h2"), ``, agreed(""), " ", session.Completed},
		{"alpn_before_the_client", offers("mqtt"), `"alpn":["mqtt"]`, agreed("h2"), " mqtt", session.Completed},
	} {
		t.Run(tc.name, func(t *testing.T) {
			e := newSecureEcho(t, tc.upstream)
			if got := exchange(t, e.handler(t, tc.settings, ""), tc.client); got != tc.reason {
				t.Fatalf("got %v, want %v", got, tc.reason)
			}
			if tc.reason != session.Completed {
				return
			}
			if got := <-e.seen; got != tc.seen {
				t.Errorf("got %q at the upstream, want %q", got, tc.seen)
			}
		})
	}
}

// TestClientCertificate checks what is shown to an upstream that asks for a certificate.
func TestClientCertificate(t *testing.T) {
	e := newSecureEcho(t, func(c *tls.Config) { c.ClientAuth = tls.RequireAnyClientCert })
	_, pair := certs.New(t, "proxy.example.test")
	if got := exchange(t, e.handler(t, `"client_certificate_file":"`+pair+`","client_certificate_key_file":"`+pair+`"`, ""), plain); got != session.Completed {
		t.Errorf("got %v, want %v", got, session.Completed)
	}
	if got := exchange(t, e.handler(t, ``, ""), plain); got == session.Completed {
		t.Error("got a complete connection without a certificate")
	}
}

// TestSharedConfig has clients with different protocols at the same time: none changes what another is offered.
func TestSharedConfig(t *testing.T) {
	e := newSecureEcho(t, func(c *tls.Config) { c.NextProtos = []string{"h2", "mqtt", "http/1.1"} })
	h := e.handler(t, ``, "")
	count := make(map[string]int)
	var wait sync.WaitGroup
	for i := range 24 {
		protocol := []string{"h2", "mqtt", "http/1.1", ""}[i%4]
		wait.Go(func() {
			if got := exchange(t, h, agreed(protocol)); got != session.Completed {
				t.Errorf("%s: got %v", protocol, got)
			}
		})
	}
	wait.Wait()
	for range 24 {
		count[strings.TrimSpace(<-e.seen)]++
	}
	for _, protocol := range []string{"h2", "mqtt", "http/1.1", ""} {
		if count[protocol] != 6 {
			t.Errorf("%q: got %d connections, want 6", protocol, count[protocol])
		}
	}
	if len(h.tls.Config.NextProtos) > 0 {
		t.Errorf("got %q in the handler's config, want it as it was", h.tls.Config.NextProtos)
	}
}

// TestDynamicServerName checks that the certificate of an upstream that depends on the connection must have its name.
func TestDynamicServerName(t *testing.T) {
	e := newSecureEcho(t, nil)
	_, port, _ := net.SplitHostPort(e.address)
	h, _, err := load(t, `{"upstream":"{l4.sluice.sni}:`+port+`","allow":[".example.test:`+port+`"],"allow_private":true,
		"tls":{"ca":{"provider":"file","pem_files":["`+e.file+`"]}}}`)
	if err != nil {
		t.Fatal(err)
	}
	h.resolve(t, map[string]string{"backend.example.test": "127.0.0.1", "other.example.test": "127.0.0.1"})
	for name, want := range map[string]session.CloseReason{
		"backend.example.test": session.Completed, "other.example.test": session.ConnectFailure,
	} {
		client, server := newPair(t)
		_ = client.CloseWrite()
		cx := layer4.WrapConnection(server, nil, zap.NewNop())
		sess := session.Of(cx)
		sess.Hello = &session.Hello{ServerName: name}
		_ = h.Handle(cx, behind(t))
		if got := sess.CloseReason(); got != want {
			t.Errorf("%s: got %v, want %v", name, got, want)
		}
	}
}

// TestE10_HeaderBeforeTLS has an upstream that wants the PROXY header in the clear and then its TLS.
func TestE10_HeaderBeforeTLS(t *testing.T) {
	cert, file := certs.New(t, "backend.example.test")
	var source string
	address, done := backend(t, func(conn *net.TCPConn) {
		reader := bufio.NewReader(conn)
		header, err := proxyproto.Read(reader)
		if err != nil {
			t.Error(err)
			return
		}
		source = header.SourceAddr.String()
		secured := tls.Server(&buffered{conn, reader}, &tls.Config{Certificates: []tls.Certificate{cert}})
		_, _ = io.Copy(secured, secured)
		_ = secured.CloseWrite()
	})
	e := &secureEcho{address: address, file: file}
	want := ""
	got := exchange(t, e.handler(t, ``, `,"proxy_protocol":"v1"`), func(conn net.Conn) net.Conn {
		want = conn.RemoteAddr().String()
		return conn
	})
	<-done
	if got != session.Completed || source != want {
		t.Errorf("got %v, source %s, want %v, %s", got, source, session.Completed, want)
	}
}

// buffered is a connection that was read from by a reader with a buffer.
type buffered struct {
	net.Conn
	reader io.Reader
}

func (b *buffered) Read(p []byte) (int, error) { return b.reader.Read(p) }

// TestHandshakeTimeouts has an upstream that accepts and then is silent.
func TestHandshakeTimeouts(t *testing.T) {
	for name, settings := range map[string]string{
		"T44_connect_timeout": `"connect_timeout":"300ms","tls":{}`,
		"handshake_timeout":   `"tls":{"handshake_timeout":"300ms"}`,
	} {
		t.Run(name, func(t *testing.T) {
			address, done := backend(t, func(conn *net.TCPConn) { _, _ = io.Copy(io.Discard, conn) })
			h, _, err := load(t, `{"upstream":"`+address+`",`+settings+`}`)
			if err != nil {
				t.Fatal(err)
			}
			start := time.Now()
			sess := h.run(t)
			if took := time.Since(start); took < 300*time.Millisecond || took > 5*time.Second {
				t.Errorf("got an end after %v, want 300ms", took)
			}
			if got := sess.CloseReason(); got != session.ConnectFailure {
				t.Errorf("got %v, want %v", got, session.ConnectFailure)
			}
			<-done // and the upstream sees the end
		})
	}
}

// TestStopWhileConnecting checks that a session which is stopped gives up its connect at once, for the reason that it
// was stopped for, and that one which was stopped before does not begin it.
func TestStopWhileConnecting(t *testing.T) {
	accepted := make(chan struct{})
	address, done := backend(t, func(conn *net.TCPConn) {
		close(accepted)
		_, _ = io.Copy(io.Discard, conn)
	})
	h, logs, err := load(t, `{"upstream":"`+address+`","connect_timeout":"5m","tls":{}}`)
	if err != nil {
		t.Fatal(err)
	}
	_, server := newPair(t)
	cx := layer4.WrapConnection(server, nil, zap.NewNop())
	sess := session.Of(cx)
	go func() {
		<-accepted
		sess.Stop(session.Killed)
	}()
	if err := h.Handle(cx, behind(t)); err != nil {
		t.Fatal(err)
	}
	<-done
	if got := sess.CloseReason(); got != session.Killed {
		t.Errorf("got %v, want %v", got, session.Killed)
	}
	for _, entry := range logs.All() {
		if entry.Level > zap.DebugLevel {
			t.Errorf("got log entry %v %q, want none above debug", entry.Level, entry.Message)
		}
	}
	_ = h.Handle(cx, behind(t)) // nobody accepts a second connection
	if sess.CloseReason() != session.Killed || errors.Is(err, io.EOF) {
		t.Errorf("got %v, want %v", sess.CloseReason(), session.Killed)
	}
}
