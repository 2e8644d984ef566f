package integration

import (
	"cmp"
	"fmt"
	"net"
	"testing"
	"time"

	"github.com/pires/go-proxyproto"

	"github.com/caddy-sluice/sluice/internal/testkit/hellos"
)

// client4 and client6 are the clients that the headers of these tests name.
var (
	client4 = &net.TCPAddr{IP: net.IPv4(192, 0, 2, 7), Port: 4321}
	client6 = &net.TCPAddr{IP: net.ParseIP("2001:db8::7"), Port: 4321}
	front4  = &net.TCPAddr{IP: net.IPv4(198, 51, 100, 1), Port: 443}
	front6  = &net.TCPAddr{IP: net.ParseIP("2001:db8::1"), Port: 443}
)

// header writes a PROXY header with a parser's own writer, another one than ours.
func header(t testing.TB, version byte, from, to net.Addr, tlvs ...proxyproto.TLV) []byte {
	t.Helper()
	h := proxyproto.HeaderProxyFromAddrs(version, from, to)
	if len(tlvs) > 0 {
		if err := h.SetTLVs(tlvs); err != nil {
			t.Fatal(err)
		}
	}
	return format(t, h)
}

func format(t testing.TB, h *proxyproto.Header) []byte {
	t.Helper()
	b, err := h.Format()
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// startBehind runs a router that expects PROXY headers from these peers. The name known.test is routed by where the
// client is: the documentation ranges go to the digester "client", everybody else to "peer".
func startBehind(l *lab, from string) *proxy {
	l.Helper()
	return startBehindFor(l, from, time.Minute)
}

// startBehindFor is startBehind with a timeout of the preread.
func startBehindFor(l *lab, from string, timeout time.Duration) *proxy {
	l.Helper()
	return l.start(fmt.Sprintf(`
		sight
		preread {
			proxy_protocol from %s
			timeout %v
		}
		sight
		sni_router {
			route known.test {
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
		}`, from, timeout, l.digester("client"), l.digester("peer")))
}

func TestProxyHeaders(t *testing.T) {
	tlv := proxyproto.TLV{Type: proxyproto.PP2_TYPE_AUTHORITY, Value: pattern(300)}
	for _, tc := range []struct {
		name   string
		header []byte
		// client is empty where the peer's own address stays.
		client string
	}{
		{"v1_ipv4", header(t, 1, client4, front4), client4.String()},
		{"v1_ipv6", header(t, 1, client6, front6), client6.String()},
		{"v1_unknown", []byte("PROXY UNKNOWN\r\n"), ""},
		{"v1_unknown_with_addresses", []byte("PROXY UNKNOWN 192.0.2.7 198.51.100.1 4321 443\r\n"), ""},
		{"v2_ipv4", header(t, 2, client4, front4), client4.String()},
		{"v2_ipv6", header(t, 2, client6, front6), client6.String()},
		{"v2_tlvs", header(t, 2, client4, front4, tlv), client4.String()},
		{"v2_local", format(t, &proxyproto.Header{Version: 2, Command: proxyproto.LOCAL}), ""},
		{"v2_local_with_addresses", local(header(t, 2, client4, front4)), ""},
		{"v2_unspec", format(t, &proxyproto.Header{Version: 2, Command: proxyproto.PROXY}), ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			p := startBehind(newLab(t), "127.0.0.1 203.0.113.0/24")
			base := p.counts()
			tag := "client"
			if tc.client == "" {
				tag = "peer"
			}
			// E09, E12: the header doesn't reach the backend.
			hello := named("known.test")
			p.expectAnswer(digest(tag, hello), append(tc.header, hello...))
			p.settle(base, 1, counts{"routed_total": 1})
			inner, outer := p.sighting(), p.sighting()
			p.expectClient(inner, cmp.Or(tc.client, outer.Remote))
			p.quiet()
		})
	}
}

// expectClient checks every place in which a handler finds the address of the client.
func (p *proxy) expectClient(s sighting, want string) {
	p.Helper()
	if s.Remote != want {
		p.Errorf("remote address: got %s, want %s", s.Remote, want)
	}
	p.expectValues(s.Before, map[string]string{"sluice.client": want, "conn.remote_addr": want})
}

// local turns a header of version 2 into one with the command LOCAL.
func local(header []byte) []byte {
	header[12] = 0x20
	return header
}

func TestProxyHeaderCutAtEveryPosition(t *testing.T) {
	for _, tc := range []struct {
		name   string
		header []byte
	}{
		{"v1", header(t, 1, client6, front6)},
		{"v2", header(t, 2, client4, front4, proxyproto.TLV{Type: proxyproto.PP2_TYPE_NOOP, Value: make([]byte, 20)})},
	} {
		t.Run(tc.name, func(t *testing.T) {
			p := startBehind(newLab(t), "127.0.0.1")
			hello := named("known.test")
			wire := append(tc.header, hello...)
			flights := [][][]byte{{wire}}
			for i := 1; i < len(tc.header)+1; i++ {
				flights = append(flights, [][]byte{wire[:i], wire[i:]})
			}
			base := p.counts()
			askAll(p, 5*time.Millisecond, digest("client", hello), flights)
			p.settle(base, len(flights), counts{"routed_total": float64(len(flights))})
		})
	}
}

func TestProxyHeaderRefusals(t *testing.T) {
	v1, v2 := header(t, 1, client4, front4), header(t, 2, client4, front4)
	hello := named("known.test")
	with := func(parts ...[]byte) []byte {
		var all []byte
		for _, part := range parts {
			all = append(all, part...)
		}
		return all
	}
	for _, tc := range []struct {
		name   string
		from   string
		bytes  []byte
		reason string
	}{
		{"v1_from_untrusted", "203.0.113.0/24", with(v1, hello), "not_tls"},
		{"v2_from_untrusted", "203.0.113.0/24", with(v2, hello), "not_tls"},
		{"trusted_without_header", "127.0.0.1", hello, "proxy_header_invalid"},
		{"trusted_with_http", "private_ranges", []byte("GET / HTTP/1.1\r\n\r\n"), "proxy_header_invalid"},
		{"wrong_byte_in_signature", "127.0.0.1", with(v2[:11], []byte{'X'}), "proxy_header_invalid"},
		{"two_headers", "127.0.0.1", with(v2, v2, hello), "not_tls"},
		{"header_without_end", "127.0.0.1", v2[:20], "fragmented"},
		{"header_without_hello", "127.0.0.1", v2, "fragmented"},
		{"no_route_behind_header", "127.0.0.1", with(v2, hellos.New(hellos.Options{})), "no_sni"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			timeout := time.Minute
			if tc.reason == "fragmented" {
				timeout = 2 * time.Second
			}
			p := startBehindFor(newLab(t), tc.from, timeout)
			base := p.counts()
			c := p.dial()
			c.send(tc.bytes)
			c.expectClosed()
			p.settle(base, 1, counts{rejected(tc.reason): 1})
			p.quiet()
		})
	}
}

// TestForgedHeader has an untrusted client: no address that it claims is ever believed.
func TestForgedHeader(t *testing.T) {
	l := newLab(t)
	p := l.start(`sight
		preread {
			proxy_protocol from 203.0.113.0/24
		}
		sni_router {
			fallback not_tls {
				sight
				forward ` + l.digester("plain") + `
			}
		}`)
	claim := []byte("PROXY TCP4 9.9.9.9 198.51.100.1 4321 443\r\nGET / HTTP/1.1\r\n\r\n")
	p.expectAnswer(digest("plain", claim), claim)
	inner, outer := p.sighting(), p.sighting()
	p.expectClient(inner, outer.Remote)
}

// TestProxyHeaderWithoutPreread is a listener on which nobody sends headers.
func TestProxyHeaderWithoutPreread(t *testing.T) {
	l := newLab(t)
	p := l.start(routes(l.backend().addr, ""))
	base := p.counts()
	for _, version := range []byte{1, 2} {
		c := p.dial()
		c.send(append(header(t, version, client4, front4), named("known.test")...))
		c.expectClosed()
	}
	p.settle(base, 2, counts{rejected("not_tls"): 2})
}
