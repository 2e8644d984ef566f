package integration

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/caddy-sluice/sluice/internal/testkit/hellos"
)

// TestFallbackReasons gives each reason to a fallback of its own and checks that the bytes come through untouched.
func TestFallbackReasons(t *testing.T) {
	l := newLab(t)
	p := l.start("sight\n preread {\n max_bytes 4KiB \n timeout 2s \n}\n" + routes(l.digester("route"), fmt.Sprintf(`
		fallback not_tls malformed_record malformed_handshake {
			forward %s
		}
		fallback fragmented too_large {
			forward %s
		}
		fallback no_sni ech_outer_absent sni_unmatched alpn_unmatched {
			forward %s
		}`, l.digester("bytes"), l.digester("limits"), l.digester("names"))))
	data := pattern(100_000)
	partial := named("known.test")[:40]
	for _, tc := range []struct {
		reason, tag string
		first       []byte
	}{
		{"not_tls", "bytes", []byte("GET / HTTP/1.1\r\nHost: a\r\n\r\n")},
		{"malformed_record", "bytes", []byte{22, 3, 1, 0xff, 0xff}},
		{"malformed_handshake", "bytes", hellos.Wrap(hellos.Handshake(2, make([]byte, 40)))},
		{"too_large", "limits", hellos.New(hellos.Options{ServerName: "known.test", Pad: 16000})},
		{"no_sni", "names", hellos.New(hellos.Options{})},
		{"ech_outer_absent", "names", hellos.New(hellos.Options{ECH: true})},
		{"sni_unmatched", "names", named("unknown.test")},
		{"alpn_unmatched", "names", named("h2.test", "http/1.1")},
	} {
		t.Run(tc.reason, func(t *testing.T) {
			base := p.counts()
			begin := time.Now()
			p.expectAnswer(digest(tc.tag, tc.first, data), append(slices.Clip(tc.first), data...))
			p.between(time.Since(begin), 0, soon)
			p.settle(base, 1, counts{fallback(tc.reason): 1})
			p.expectValues(p.sighting().After, map[string]string{"sluice.reason": tc.reason, "sluice.close_reason": "completed"})
		})
	}
	t.Run("fragmented", func(t *testing.T) {
		base := p.counts()
		c := p.dial()
		c.send(partial)
		p.await(base, counts{fallback("fragmented"): 1, "duration_seconds_count": 1})
		c.send(data)
		c.end()
		c.expectEnd([]byte(digest("limits", partial, data)))
		p.settle(base, 1, counts{fallback("fragmented"): 1})
	})
	p.quiet()
}

// TestFallbackDecidesAtOnce leaves the client waiting for an answer: what can't be TLS must not wait for the deadline.
func TestFallbackDecidesAtOnce(t *testing.T) {
	l := newLab(t)
	p := l.start("preread {\n timeout 1m \n}\n" + routes(l.backend().addr, "fallback not_tls {\n forward "+l.echo()+"\n}"))
	begin := time.Now()
	c := p.dial()
	c.send([]byte("EHLO mail.test\r\n"))
	c.expect([]byte("EHLO mail.test\r\n"))
	p.between(time.Since(begin), 0, soon)
}

// TestServerSpeaksFirst has a client that waits for a banner, as with SMTP and MySQL.
func TestServerSpeaksFirst(t *testing.T) {
	banner := []byte("220 mail.test ESMTP\r\n")
	for _, tc := range []struct {
		name        string
		handlers    string
		least, most time.Duration
		want        counts
	}{
		{
			"through_fallback_at_the_deadline", "preread {\n timeout 300ms \n}\n sni_router {\n fallback fragmented {\n forward %s \n}\n}",
			290 * time.Millisecond, soon,
			counts{fallback("fragmented"): 1, "duration_seconds_count": 1},
		},
		{"T23_without_preread", "forward %s", 0, soon, counts{}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			l := newLab(t)
			b := l.backend()
			p := l.start(fmt.Sprintf(tc.handlers, b.addr))
			base := p.counts()
			begin := time.Now()
			c := p.dial()
			up := b.accept()
			up.send(banner)
			c.expect(banner)
			p.between(time.Since(begin), tc.least, tc.most)
			p.await(base, tc.want)
			c.send([]byte("QUIT\r\n"))
			up.expect([]byte("QUIT\r\n"))
		})
	}
}

// TestFallbackNeverTakesTheGone has clients that left, or aren't who they should be: no fallback takes them.
func TestFallbackNeverTakesTheGone(t *testing.T) {
	l := newLab(t)
	p := l.start("preread {\n proxy_protocol from 127.0.0.1 \n}\n" +
		"sni_router {\n fallback {\n forward " + l.backend().addr + "\n}\n}")
	base := p.counts()
	c := p.dial()
	c.send([]byte{'P'})
	c.end()
	c.expectClosed()
	c = p.dial()
	c.send(named("known.test"))
	c.expectClosed()
	p.dial().Close()
	p.settle(base, 3, counts{rejected("front_closed"): 1, rejected("proxy_header_invalid"): 1})
	p.quiet()
}

// TestNext hands connections on to what follows: the handler behind the router, and the route behind that.
func TestNext(t *testing.T) {
	l := newLab(t)
	following, second, route := l.digester("following"), l.digester("second"), l.digester("route")
	hello, unknown, plain := named("known.test"), named("unknown.test"), []byte("plain text")
	for _, tc := range []struct {
		name, server, tag string
	}{
		{"handler_behind", "route {\n" + routes(route, "fallback {\n next \n}") + "\n forward " + following + "\n}", "following"},
		{"route_behind", "route {\n" + routes(route, "fallback {\n next \n}") + "\n}\n route {\n forward " + second + "\n}", "second"},
		{"router_behind", "route {\n" + routes(route, "fallback {\n next \n}") + "\n sni_router {\n fallback not_tls sni_unmatched {\n forward " +
			following + "\n}\n}\n}", "following"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			l := newLab(t)
			p := l.startServer(tc.server)
			p.expectAnswer(digest("route", hello), hello)
			p.expectAnswer(digest(tc.tag, unknown), unknown)
			p.expectAnswer(digest(tc.tag, plain), plain)
			p.quiet()
		})
	}
}

// TestSecondRouter has two routers in one route: the second looks up the hello that the first has read.
func TestSecondRouter(t *testing.T) {
	l := newLab(t)
	p := l.start(routes(l.digester("first"), "fallback {\n next \n}") +
		"\n sni_router {\n route unknown.test {\n alpn h2 \n forward " + l.digester("second") + "\n}\n}")
	base := p.counts()
	hello := named("unknown.test", "h2")
	p.expectAnswer(digest("second", hello), hello)
	c := p.dial()
	c.send(named("unknown.test"))
	c.expectEnd(alert(120))
	c.Close()
	p.settle(base, 2, counts{"routed_total": 1, fallback("sni_unmatched"): 2, rejected("alpn_unmatched"): 1})
}
