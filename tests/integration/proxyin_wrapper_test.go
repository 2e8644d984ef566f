package integration

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/pires/go-proxyproto"
)

// whoIsClient answers with all that the HTTP app knows about the client's address.
const whoIsClient = "log\nrespond \"{remote_host} {remote_port} {client_ip} {http.request.proto}\""

// startProxied runs a Caddy whose wrapper expects PROXY headers from these peers.
func startProxied(l *lab, from, route, site string) *onePort {
	l.Helper()
	return startOnePortWith(l, "proxy_protocol from "+from, route, site)
}

// fetchBehind requests the site with a connection that begins with a header.
func (p *onePort) fetchBehind(header []byte, h2 bool) (string, error) {
	protocols := new(http.Protocols)
	protocols.SetHTTP1(!h2)
	protocols.SetHTTP2(h2)
	dial := func(ctx context.Context, _, _ string) (net.Conn, error) {
		c, err := new(net.Dialer).DialContext(ctx, "tcp", p.addr)
		if err == nil {
			_, err = c.Write(header)
		}
		return c, err
	}
	return fetch(&http.Client{Timeout: patience, Transport: &http.Transport{
		DisableKeepAlives: true, Protocols: protocols, DialContext: dial,
		TLSClientConfig: &tls.Config{RootCAs: p.authority().pool},
	}}, "/")
}

// byClient passes pass.test through: the documentation ranges to the digester "client", everybody else to "peer".
func byClient(l *lab) string {
	return fmt.Sprintf(`sight
		sni_router {
			route pass.test {
				subroute {
					@client remote_ip 192.0.2.0/24 2001:db8::/32
					route @client {
						forward %s
					}
					route {
						forward %s
					}
				}
			}
		}`, l.digester("client"), l.digester("peer"))
}

// TestWrapperProxyHeader checks that behind the wrapper everything sees the client: placeholders, matchers, Caddy's own
// sites with HTTP/1.1 and HTTP/2, and their access log.
func TestWrapperProxyHeader(t *testing.T) {
	tlv := proxyproto.TLV{Type: proxyproto.PP2_TYPE_AUTHORITY, Value: pattern(300)}
	l := newLab(t)
	p := startProxied(l, "127.0.0.0/8", byClient(l), whoIsClient)
	for _, tc := range []struct {
		name   string
		header []byte
		client *net.TCPAddr // nil where the peer's own address stays
	}{
		{"v1_ipv4", header(t, 1, client4, front4), client4},
		{"v1_ipv6", header(t, 1, client6, front6), client6},
		{"v1_unknown", []byte("PROXY UNKNOWN\r\n"), nil},
		{"v2_ipv4", header(t, 2, client4, front4), client4},
		{"v2_ipv6", header(t, 2, client6, front6), client6},
		{"D36_v2_tlvs", header(t, 2, client4, front4, tlv), client4},
		{"v2_local", format(t, &proxyproto.Header{Version: 2, Command: proxyproto.LOCAL}), nil},
		{"v2_unspec", format(t, &proxyproto.Header{Version: 2, Command: proxyproto.PROXY}), nil},
	} {
		t.Run(tc.name, func(t *testing.T) {
			for proto, h2 := range map[string]bool{"HTTP/1.1": false, "HTTP/2.0": true} {
				p.expectSite(tc.header, tc.client, h2, proto)
			}
			// E09, E12: the header doesn't reach the backend.
			tag := "peer"
			if tc.client != nil {
				tag = "client"
			}
			hello := named("pass.test")
			p.expectAnswer(digest(tag, hello), append(tc.header, hello...))
			s := p.sighting()
			for s.After["l4.sluice.sni"] != "pass.test" { // those of the site come when they like
				s = p.sighting()
			}
			if tc.client != nil {
				p.expectClient(s, tc.client.String())
			} else if !strings.HasPrefix(s.Remote, "127.0.0.1:") {
				p.Errorf("got remote address %s, want the peer's", s.Remote)
			}
		})
	}
	if got := p.metric(`caddy_sluice_preread_active`); got != 0 {
		t.Errorf("got %v connections under way, want none", got)
	}
}

// expectSite requests the site behind a header and checks what it, and its log, say about the client.
func (p *onePort) expectSite(header []byte, client *net.TCPAddr, h2 bool, proto string) {
	p.Helper()
	got, err := p.fetchBehind(header, h2)
	if err != nil {
		p.Fatal(err)
	}
	ip := "127.0.0.1"
	if client != nil {
		ip = client.IP.String()
	}
	words := strings.Fields(got)
	if len(words) != 4 || words[0] != ip || words[2] != ip || words[3] != proto || client != nil && words[1] != fmt.Sprint(client.Port) {
		p.Errorf("got %q from the site, want %s twice with its port, and %s", got, ip, proto)
		return
	}
	want := fmt.Sprintf(`"remote_ip":%q,"remote_port":%q,"client_ip":%q`, ip, words[1], ip)
	p.eventually("access log with "+want, func() (string, bool) {
		found := records.find(func(r logRecord) bool {
			return strings.HasPrefix(r.Logger, "http.log.access") && strings.Contains(r.Line, want)
		})
		return fmt.Sprint(len(found)), len(found) > 0
	})
}

// TestWrapperProxyHeaderPlain has the wrapper in front of a site without TLS, and the request in the packet of the header.
func TestWrapperProxyHeaderPlain(t *testing.T) {
	l := newLab(t)
	addr := l.freeAddr()
	options := fmt.Sprintf("auto_https off\nservers %s {\nlistener_wrappers {\nsluice {\nproxy_protocol from 127.0.0.1\nroute {\n%s\n}\n}\n}\n}\n",
		addr, byClient(l))
	p := l.run(options, "http://"+addr+" {\nbind 127.0.0.1\nrespond \"{remote_host}:{remote_port} {http.request.uri}\"\n}\n")
	p.addr = addr
	first := "GET /1 HTTP/1.1\r\nHost: " + addr + "\r\n\r\n"
	last := "GET /2 HTTP/1.1\r\nHost: " + addr + "\r\nConnection: close\r\n\r\n"
	got, err := p.ask(5*time.Millisecond, append(header(t, 2, client4, front4), first...), []byte(last))
	if err != nil || !strings.Contains(got, "192.0.2.7:4321 /1") || !strings.Contains(got, "192.0.2.7:4321 /2") {
		t.Errorf("got %q, %v, want two answers with the client's address", got, err)
	}
}

// TestWrapperProxyHeaderCut cuts a header at each byte.
func TestWrapperProxyHeaderCut(t *testing.T) {
	l := newLab(t)
	p := startProxied(l, "127.0.0.1", byClient(l), whoIsClient)
	hello := named("pass.test")
	for version, h := range map[string][]byte{"v1": header(t, 1, client6, front6), "v2": header(t, 2, client4, front4)} {
		t.Run(version, func(t *testing.T) {
			wire := append(h, hello...)
			var flights [][][]byte
			for i := 1; i <= len(h); i++ {
				flights = append(flights, [][]byte{wire[:i], wire[i:]})
			}
			askAll(p.proxy, 5*time.Millisecond, digest("client", hello), flights)
		})
	}
}

// TestWrapperTrust checks who may say who it is: a peer in the list must, and no other's word counts.
func TestWrapperTrust(t *testing.T) {
	l := newLab(t)
	p := startProxied(l, "203.0.113.0/24", byClient(l), whoIsClient)
	t.Run("D34_forged", func(t *testing.T) {
		if got := p.rawBehind("PROXY TCP4 9.9.9.9 198.51.100.1 4321 443\r\n"); strings.Contains(got, "9.9.9.9") {
			t.Errorf("got %q, want no answer with a forged address", got)
		}
	})
	t.Run("none_sent", func(t *testing.T) {
		if got := p.askBehind(""); !strings.HasPrefix(got, "127.0.0.1 ") {
			t.Errorf("got %q, want the peer's address", got)
		}
		hello := named("pass.test")
		p.expectAnswer(digest("peer", hello), hello)
	})
}

// rawBehind is what a request comes to whose header the site takes for something else; empty if nothing came.
func (p *onePort) rawBehind(header string) string {
	p.Helper()
	body, _ := p.tryBehind(header)
	return body
}

// TestWrapperRefusals checks connections of a peer that must send a header and sends something else: they are counted
// with their reason, and neither a route nor a site sees them.
func TestWrapperRefusals(t *testing.T) {
	v2 := header(t, 2, client4, front4)
	for _, tc := range []struct {
		name   string
		bytes  []byte
		leaves bool
		reason string
	}{
		{"hello", named("pass.test"), false, "proxy_header_invalid"},
		{"http", []byte("GET / HTTP/1.1\r\n\r\n"), false, "proxy_header_invalid"},
		{"half_a_header", v2[:20], false, "fragmented"},
		{"leaves", v2[:20], true, "front_closed"},
		{"too_long", append([]byte("\r\n\r\n\x00\r\nQUIT\n\x21\x11\xff\xff"), make([]byte, 40000)...), false, "too_large"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			l := newLab(t)
			p := startProxied(l, "127.0.0.1", byClient(l), whoIsClient)
			base := p.counts()
			closed := fmt.Sprintf("caddy_sluice_session_closed_total{reason=%q}", "preread_"+tc.reason)
			before := p.metric(closed)
			c := p.dial()
			_, _ = c.stream.Write(tc.bytes)
			if tc.leaves {
				c.Close()
			} else {
				c.expectClosed()
			}
			p.await(base, counts{rejected(tc.reason): 1, "duration_seconds_count": 1})
			p.eventually("close reason", func() (string, bool) {
				got := p.metric(closed) - before
				return fmt.Sprint(got), got == 1
			})
			if n := len(records.find(func(r logRecord) bool { return r.Msg == "rejected connection" })); n != 1 {
				t.Errorf("got %d lines about it, want 1", n)
			}
			select {
			case s := <-sightings:
				t.Errorf("got a connection in the routes: %v", s)
			default:
			}
			p.quiet()
		})
	}
}

// TestWrapperProxyHeaderReload changes the list of peers while a header is under way: that connection keeps the list it
// began with, and the next has the new one.
func TestWrapperProxyHeaderReload(t *testing.T) {
	l := newLab(t)
	p := startProxied(l, "127.0.0.1", byClient(l), whoIsClient)
	head, hello := header(t, 2, client4, front4), named("pass.test")
	c := p.dial()
	c.send(head[:10])
	p.eventually("the header is being read", func() (string, bool) {
		n := p.metric("caddy_sluice_preread_active")
		return fmt.Sprint(n), n == 1
	})
	with := p.options
	p.options = strings.Replace(with, "proxy_protocol from 127.0.0.1", "", 1)
	if err := p.reload(); err != nil {
		t.Fatal(err)
	}
	p.expectAnswer(digest("peer", hello), hello)
	if got := p.askBehind(""); !strings.HasPrefix(got, "127.0.0.1 ") {
		t.Errorf("got %q, want the peer's address", got)
	}
	c.send(head[10:], hello)
	c.end()
	got, err := io.ReadAll(c)
	if want := digest("client", hello); err != nil || string(got) != want {
		t.Errorf("got %q, %v, want %q", got, err, want)
	}
	p.options = with
	if err := p.reload(); err != nil {
		t.Fatal(err)
	}
	p.expectAnswer(digest("client", hello), append(head, hello...))
	if got := p.askBehind(string(head)); !strings.HasPrefix(got, client4.IP.String()+" ") {
		t.Errorf("got %q, want the client's address", got)
	}
}
