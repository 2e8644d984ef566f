package integration

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/caddy-sluice/sluice/internal/testkit/hellos"
)

// onePort is a Caddy that shares one port between a passthrough and its own site.
type onePort struct {
	*proxy
	options, sites string
}

// startOnePort runs a Caddy with a TLS site www.site.test behind the wrapper. route is the block of the wrapper's
// only route; site is the body of the site.
func startOnePort(l *lab, route, site string) *onePort {
	l.Helper()
	return startOnePortWith(l, "", route, site)
}

// startOnePortWith is startOnePort with an option of the wrapper.
func startOnePortWith(l *lab, option, route, site string) *onePort {
	l.Helper()
	addr := l.freeAddr()
	_, port, _ := net.SplitHostPort(addr)
	cert, key := l.certificateFiles("www.site.test")
	options := fmt.Sprintf(`auto_https disable_redirects
	servers %s {
		protocols h1 h2
		listener_wrappers {
			sluice {
				%s
				route {
					%s
				}
			}
			tls
		}
	}`, addr, option, route)
	sites := fmt.Sprintf("https://www.site.test:%s {\nbind 127.0.0.1\ntls %s %s\n%s\n}\n", port, cert, key, site)
	p := l.run(options, sites)
	p.addr = addr
	return &onePort{p, options, sites}
}

// reload loads the config again, as something that Caddy takes for a new one.
func (p *onePort) reload() error { return p.load(p.options, p.sites) }

// certificateFiles writes a certificate and its key for Caddy.
func (l *lab) certificateFiles(name string) (certFile, keyFile string) {
	l.Helper()
	cert := l.certificate(name)
	key, err := x509.MarshalPKCS8PrivateKey(cert.PrivateKey)
	if err != nil {
		l.Fatal(err)
	}
	certFile, keyFile = filepath.Join(l.dir, name+".crt"), filepath.Join(l.dir, name+".key")
	for file, block := range map[string]*pem.Block{
		certFile: {Type: "CERTIFICATE", Bytes: cert.Certificate[0]},
		keyFile:  {Type: "PRIVATE KEY", Bytes: key},
	} {
		if err := os.WriteFile(file, pem.EncodeToMemory(block), 0o600); err != nil {
			l.Fatal(err)
		}
	}
	return certFile, keyFile
}

// passthrough routes pass.test to an upstream.
func passthrough(upstream string) string {
	return fmt.Sprintf("sni_router {\nroute pass.test {\nforward %s\n}\n}", upstream)
}

// whoAmI answers with what the HTTP app knows about the client.
const whoAmI = `respond "{remote_host}:{remote_port} {http.request.proto} {http.request.uri}"`

// client is an HTTP client for the site, with a connection for each request. It reports the local address of the
// last connection through local.
func (p *onePort) client(h2 bool, local *atomic.Pointer[string]) *http.Client {
	protocols := new(http.Protocols)
	protocols.SetHTTP1(!h2)
	protocols.SetHTTP2(h2)
	dial := func(ctx context.Context, _, _ string) (net.Conn, error) {
		c, err := new(net.Dialer).DialContext(ctx, "tcp", p.addr)
		if err == nil {
			addr := c.LocalAddr().String()
			local.Store(&addr)
		}
		return c, err
	}
	return &http.Client{Timeout: patience, Transport: &http.Transport{
		DisableKeepAlives: true, Protocols: protocols, DialContext: dial,
		TLSClientConfig: &tls.Config{RootCAs: p.authority().pool},
	}}
}

// fetch requests a path of the site.
func fetch(client *http.Client, path string) (string, error) {
	res, err := client.Get("https://www.site.test" + path)
	if err != nil {
		return "", err
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	return string(body), err
}

func TestOnePortSites(t *testing.T) {
	l := newLab(t)
	p := startOnePort(l, passthrough(l.digester("pass")), whoAmI)
	base := p.counts()
	for proto, h2 := range map[string]bool{"HTTP/1.1": false, "HTTP/2.0": true} {
		var local atomic.Pointer[string]
		got, err := fetch(p.client(h2, &local), "/a")
		if err != nil {
			t.Fatal(err)
		}
		if want := *local.Load() + " " + proto + " /a"; got != want {
			t.Errorf("%s: got %q, want %q", proto, got, want)
		}
	}
	hello := hellos.New(hellos.Options{ServerName: "pass.test", ALPN: []string{"h2"}})
	p.expectAnswer(digest("pass", hello), hello)
	p.await(base, counts{"routed_total": 1, "duration_seconds_count": 3})
}

func TestOnePortRejectedGoToTheSite(t *testing.T) {
	l := newLab(t)
	p := startOnePort(l, passthrough(l.digester("pass")), whoAmI)
	base := p.counts()
	// Caddy's own TLS answers a hello of another name with an alert of its own, not with ours.
	c := p.dial()
	c.send(named("unknown.test"))
	answer, err := io.ReadAll(c)
	if err != nil || len(answer) < 7 || answer[0] != 21 || answer[6] == 112 {
		t.Errorf("unknown name: got % x, %v, want an alert of the site", answer, err)
	}
	// So it does with bytes that are not TLS.
	c = p.dial()
	c.send([]byte("GET / HTTP/1.1\r\nHost: x\r\n\r\n"))
	text, _ := io.ReadAll(c)
	if !strings.Contains(string(text), "HTTP request to an HTTPS server") {
		t.Errorf("plain HTTP: got %q", text)
	}
	p.await(base, counts{"duration_seconds_count": 2})
}

func TestOnePortACME(t *testing.T) {
	l := newLab(t)
	p := startOnePort(l, passthrough(l.digester("pass")), whoAmI)
	raw, err := net.Dial("tcp", p.addr)
	if err != nil {
		t.Fatal(err)
	}
	c := tls.Client(raw, &tls.Config{ServerName: "www.site.test", NextProtos: []string{"acme-tls/1"}, RootCAs: l.authority().pool})
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(patience))
	if err := c.Handshake(); err == nil {
		t.Error("a challenge that nobody has asked for was answered")
	}
	l.eventually("the site's TLS has seen the challenge", func() (string, bool) {
		seen := records.find(func(r logRecord) bool { return strings.Contains(r.Line, "no information found to solve challenge") })
		return fmt.Sprint(len(seen)), len(seen) > 0
	})
}

func TestOnePortWebSocket(t *testing.T) {
	l := newLab(t)
	backend := l.backend()
	backend.serve(func(c stream) {
		r := bufio.NewReader(c)
		if req, err := http.ReadRequest(r); err != nil || req.Header.Get("Upgrade") != "websocket" {
			return
		}
		_, _ = io.WriteString(c, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n")
		_, _ = io.Copy(c, r)
	})
	p := startOnePort(l, passthrough(l.digester("pass")), "reverse_proxy "+backend.addr)
	raw, err := net.Dial("tcp", p.addr)
	if err != nil {
		t.Fatal(err)
	}
	c := tls.Client(raw, &tls.Config{ServerName: "www.site.test", RootCAs: l.authority().pool})
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(patience))
	_, _ = io.WriteString(c, "GET / HTTP/1.1\r\nHost: www.site.test\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"+
		"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n")
	r := bufio.NewReader(c)
	res, err := http.ReadResponse(r, nil)
	if err != nil || res.StatusCode != http.StatusSwitchingProtocols {
		t.Fatalf("upgrade: got %v, %v", res, err)
	}
	_, _ = io.WriteString(c, "ping")
	echo := make([]byte, 4)
	if _, err := io.ReadFull(r, echo); err != nil || string(echo) != "ping" {
		t.Errorf("echo: got %q, %v", echo, err)
	}
}

func TestOnePortProxyProtocol(t *testing.T) {
	l := newLab(t)
	p := startOnePort(l, "preread {\nproxy_protocol from 127.0.0.1/32\n}\n"+passthrough(l.digester("pass")), whoAmI)
	if got, want := p.askBehind("PROXY TCP4 203.0.113.9 203.0.113.1 4711 443\r\n"), "203.0.113.9:4711 HTTP/1.1 /p"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

// TestOnePortPlain has the wrapper in front of a site without TLS, on which nobody but us has read before.
func TestOnePortPlain(t *testing.T) {
	l := newLab(t)
	addr := l.freeAddr()
	options := fmt.Sprintf("auto_https off\nservers %s {\nlistener_wrappers {\nsluice {\nroute {\n%s\n}\n}\n}\n}\n",
		addr, passthrough(l.digester("pass")))
	p := l.run(options, "http://"+addr+" {\nbind 127.0.0.1\nrequest_body {\nmax_size 8MB\n}\nrespond \"{http.request.body}\"\n}\n")
	p.addr = addr
	body := pattern(3 << 20)
	for i := range body {
		body[i] = 'a' + body[i]%26 // the answer is text
	}
	client := &http.Client{Timeout: patience, Transport: &http.Transport{DisableKeepAlives: true}}
	res, err := client.Post("http://"+addr+"/", "text/plain", bytes.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	got, err := io.ReadAll(res.Body)
	if err != nil || !bytes.Equal(got, body) {
		t.Errorf("got %d bytes, %v, common %d, want the %d sent", len(got), err, common(got, body), len(body))
	}
	hello := named("pass.test")
	p.expectAnswer(digest("pass", hello), hello)
}

// TestOnePortReloadInTheMiddle holds a connection with half a hello over a reload: it must get the new config's answer.
func TestOnePortReloadInTheMiddle(t *testing.T) {
	l := newLab(t)
	p := startOnePort(l, "preread {\ntimeout 1m\n}\n"+passthrough(l.digester("pass")), `respond "old"`)
	raw, err := net.Dial("tcp", p.addr)
	if err != nil {
		t.Fatal(err)
	}
	gate := &gatedConn{Conn: raw, open: make(chan struct{})}
	c := tls.Client(gate, &tls.Config{ServerName: "www.site.test", RootCAs: l.authority().pool})
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(patience))
	done := make(chan string, 1)
	go func() {
		_, _ = io.WriteString(c, "GET / HTTP/1.1\r\nHost: www.site.test\r\nConnection: close\r\n\r\n")
		answer, _ := io.ReadAll(c)
		done <- string(answer)
	}()
	l.eventually("the preread has begun", func() (string, bool) {
		active := p.metric(metricPrefix + "active")
		return fmt.Sprint(active), active == 1
	})
	p.sites = strings.ReplaceAll(p.sites, `"old"`, `"new"`)
	if err := p.reload(); err != nil {
		t.Fatal(err)
	}
	close(gate.open)
	if got := <-done; !strings.HasSuffix(got, "new") {
		t.Errorf("got %q, want the answer of the new config", got)
	}
}

// gatedConn lets the first byte through at once and the rest when the gate is open.
type gatedConn struct {
	net.Conn
	once sync.Once
	open chan struct{}
}

func (c *gatedConn) Write(p []byte) (n int, err error) {
	c.once.Do(func() { n, err = c.Conn.Write(p[:1]) })
	if err != nil {
		return n, err
	}
	<-c.open
	m, err := c.Conn.Write(p[n:])
	return n + m, err
}

// TestOnePortSessionSurvivesReload keeps a passthrough running while the config changes under it, and the wrapper goes.
func TestOnePortSessionSurvivesReload(t *testing.T) {
	l := newLab(t)
	p := startOnePort(l, passthrough(l.echo()), whoAmI)
	c := p.dial()
	hello := named("pass.test")
	c.send(hello)
	c.expect(hello)
	if err := p.reload(); err != nil {
		t.Fatal(err)
	}
	c.send([]byte("after the reload"))
	c.expect([]byte("after the reload"))
	if err := p.load("", ""); err != nil {
		t.Fatal(err)
	}
	c.send([]byte("without the wrapper"))
	c.expect([]byte("without the wrapper"))
	c.end()
	c.expectEnd(nil)
}

// TestOnePortBehindAnotherWrapper puts a wrapper in front of ours by a reload, and takes it away again: no connection
// may come in past it, or by a socket that is still its.
func TestOnePortBehindAnotherWrapper(t *testing.T) {
	l := newLab(t)
	p := startOnePort(l, passthrough(l.digester("pass")), whoAmI)
	bare := p.options
	const header = "PROXY TCP4 203.0.113.9 203.0.113.1 4711 443\r\n"
	for _, step := range []struct{ options, header, want string }{
		{bare, "", "127.0.0.1:"},
		{strings.Replace(bare, "sluice {", "proxy_protocol {\nallow 127.0.0.0/8\n}\nsluice {", 1), header, "203.0.113.9:4711 "},
		{bare, "", "127.0.0.1:"},
	} {
		p.options = step.options
		if err := p.reload(); err != nil {
			t.Fatal(err)
		}
		for range 20 {
			if got := p.askBehind(step.header); !strings.HasPrefix(got, step.want) {
				t.Fatalf("with %q in front: got %q, want %q…", step.header, got, step.want)
			}
		}
	}
}

// askBehind requests the site on a connection that begins with a header, and returns the body. It asks again if the
// connection is reset: where another wrapper is, or was, the kernel does that to those in the queue of a socket that goes.
func (p *onePort) askBehind(header string) string {
	p.Helper()
	for deadline := time.Now().Add(patience); ; {
		body, err := p.tryBehind(header)
		if err == nil {
			return body
		}
		if !dropped(err) || time.Now().After(deadline) {
			p.Fatal(err)
		}
	}
}

func (p *onePort) tryBehind(header string) (string, error) {
	raw, err := net.Dial("tcp", p.addr)
	if err != nil {
		return "", err
	}
	c := tls.Client(raw, &tls.Config{ServerName: "www.site.test", RootCAs: p.authority().pool})
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(patience))
	if _, err := io.WriteString(raw, header); err != nil {
		return "", err
	}
	if _, err := io.WriteString(c, "GET /p HTTP/1.1\r\nHost: www.site.test\r\nConnection: close\r\n\r\n"); err != nil {
		return "", err
	}
	answer, err := io.ReadAll(c)
	_, body, _ := bytes.Cut(answer, []byte("\r\n\r\n"))
	return string(body), err
}
