package integration

import (
	"bytes"
	"fmt"
	"testing"
	"time"

	"github.com/pires/go-proxyproto"
)

// forwarding runs a router for known.test behind a preread that expects PROXY headers, with these options of forward.
func forwarding(l *lab, upstream, options string) *proxy {
	l.Helper()
	return l.start(fmt.Sprintf(`
		sight
		preread {
			proxy_protocol from 127.0.0.1
		}
		sni_router {
			route known.test {
				forward %s {
					%s
				}
			}
		}`, upstream, options))
}

// TestHeadersToUpstreams checks through a whole Caddy what a backend gets before the hello.
func TestHeadersToUpstreams(t *testing.T) {
	inbound := header(t, 2, client4, front4, proxyproto.TLV{Type: proxyproto.PP2_TYPE_AUTHORITY, Value: []byte("name.test")})
	for _, tc := range []struct {
		name, options string
		inbound, want []byte
	}{
		{"E10_send_v2", "proxy_protocol v2", header(t, 1, client4, front4), header(t, 2, client4, front4)},
		{"E11_relay", "proxy_protocol relay", inbound, inbound},
		{"E11_relay_local", "proxy_protocol relay", local(bytes.Clone(inbound)), local(bytes.Clone(inbound))},
		{"E12_none", "", inbound, nil},
		{"E13_send_v1", "proxy_protocol v1", inbound, header(t, 1, client4, front4)},
	} {
		t.Run(tc.name, func(t *testing.T) {
			l := newLab(t)
			b := l.backend()
			p := forwarding(l, b.addr, tc.options)
			c, hello := p.dial(), named("known.test")
			c.send(tc.inbound, hello)
			up := b.accept()
			up.expect(append(bytes.Clone(tc.want), hello...))
			up.send([]byte("answer"))
			c.expect([]byte("answer"))
			c.end()
			up.expectEnd(nil)
			up.Close()
			c.expectEnd(nil)
			p.expectEnding("completed", len(hello), len("answer"))
			p.quiet()
		})
	}
}

// TestForwardLimit counts the clients that PROXY headers name, and checks that one too many is nowhere left over.
func TestForwardLimit(t *testing.T) {
	l := newLab(t)
	b := l.backend()
	p := forwarding(l, b.addr, "max_connections_per_ip 1")
	base, hello := p.counts(), named("known.test")
	first := p.dial()
	first.send(header(t, 2, client4, front4), hello)
	up := b.accept()
	up.expect(hello)

	const series = "caddy_sluice_forward_limited_total"
	limited := p.metric(series + `{upstream="` + b.addr + `"}`)
	second := p.dial()
	second.send(header(t, 2, client4, front4), hello, []byte("and more"))
	second.expectEnd(nil)
	second.Close()
	if got := p.metric(series+`{upstream="`+b.addr+`"}`) - limited; got != 1 {
		t.Errorf("got %v counted, want 1", got)
	}

	other := p.dial()
	other.send(header(t, 2, client6, front6), hello)
	otherUp := b.accept()
	otherUp.expect(hello)
	for _, c := range []*peer{first, up, other, otherUp} {
		c.Close()
	}
	p.settle(base, 3, counts{"routed_total": 3}) // S13: none is under way any more
	p.quiet()
}

// TestForwardTimers checks two timers through a whole Caddy: what is idle ends as a stream does, what is cut is reset.
func TestForwardTimers(t *testing.T) {
	for _, tc := range []struct {
		name, option string
		reason       string
		end          func(*peer)
	}{
		{"idle", "idle_timeout 1s", "idle_timeout", func(c *peer) { c.expectEnd(nil) }},
		{"T39_max_duration", "max_duration 1s", "max_duration", (*peer).expectReset},
	} {
		t.Run(tc.name, func(t *testing.T) {
			l := newLab(t)
			b := l.backend()
			p := l.start("sight\n forward " + b.addr + " {\n" + tc.option + "\n}")
			begin := time.Now()
			c := p.dial()
			c.send([]byte("hello"))
			up := b.accept()
			up.expect([]byte("hello"))
			tc.end(c)
			tc.end(up)
			p.between(time.Since(begin), 900*time.Millisecond, soon)
			p.expectEnding(tc.reason, 5, 0)
			p.quiet()
		})
	}
}
