package integration

import (
	"fmt"
	"testing"
	"time"

	"github.com/caddy-sluice/sluice/internal/testkit/hellos"
)

// routes is what the tests of refusals run: one name for any protocol, one for h2 alone.
func routes(upstream, more string) string {
	return fmt.Sprintf(`sni_router {
		route known.test {
			forward %[1]s
		}
		route h2.test {
			alpn h2
			forward %[1]s
		}
		%[2]s
	}`, upstream, more)
}

func named(name string, alpn ...string) []byte {
	return hellos.New(hellos.Options{ServerName: name, ALPN: alpn})
}

// alert is a fatal TLS alert in its record.
func alert(description byte) []byte { return []byte{21, 3, 3, 0, 2, 2, description} }

// refusal is a connection that is closed as soon as its bytes are there, and what is counted for it.
type refusal struct {
	name    string
	preread string
	bytes   []byte
	// end says what the client does after its bytes; nil: it waits.
	end    func(*peer)
	reason string
	alert  []byte
}

var refusals = []refusal{
	{name: "E04_plain_http", bytes: []byte("GET / HTTP/1.1\r\nHost: known.test\r\n\r\n"), reason: "not_tls"},
	{name: "one_byte", bytes: []byte("S"), reason: "not_tls"},
	{name: "record_too_long", bytes: []byte{22, 3, 1, 0x40, 1}, reason: "malformed_record"},
	{
		name: "record_interrupts_hello", bytes: append(hellos.Wrap(hellos.Message(hellos.Options{ServerName: "known.test"}), 20)[:25], 21, 3, 3, 0, 2),
		reason: "malformed_record",
	},
	{name: "server_hello", bytes: hellos.Wrap(hellos.Handshake(2, make([]byte, 40))), reason: "malformed_handshake"},
	{name: "E07_cap_of_16", preread: "max_bytes 16", bytes: named("known.test"), reason: "too_large"},
	{name: "default_cap", bytes: hellos.New(hellos.Options{ServerName: "known.test", Pad: 40000}), reason: "too_large"},
	{name: "E05_no_sni", bytes: hellos.New(hellos.Options{}), reason: "no_sni"},
	{name: "T13_ip_literal", bytes: named("192.0.2.1"), reason: "no_sni"},
	{name: "T15_not_a_name", bytes: named("known.test/a"), reason: "no_sni"},
	{name: "ech_without_name", bytes: hellos.New(hellos.Options{ECH: true}), reason: "ech_outer_absent"},
	{name: "E05_unknown_name", bytes: named("unknown.test"), reason: "sni_unmatched", alert: alert(112)},
	{name: "E05_unmatched_alpn", bytes: named("h2.test", "http/1.1"), reason: "alpn_unmatched", alert: alert(120)},
	{name: "no_alpn", bytes: named("h2.test"), reason: "alpn_unmatched", alert: alert(120)},
	{name: "no_proxy_header", preread: "proxy_protocol from 127.0.0.1", bytes: named("known.test"), reason: "proxy_header_invalid"},
	{name: "S07_one_byte_then_fin", bytes: []byte{22}, end: (*peer).end, reason: "front_closed"},
	{name: "T21_three_bytes_then_fin", bytes: []byte{22, 3, 1}, end: (*peer).end, reason: "front_closed"},
	{name: "half_a_hello_then_fin", bytes: named("known.test")[:40], end: (*peer).end, reason: "front_closed"},
}

func TestRefusals(t *testing.T) {
	for _, tc := range refusals {
		for _, setting := range []string{"on", "off"} {
			t.Run(tc.name+"/alert_"+setting, func(t *testing.T) {
				l := newLab(t)
				p := l.start("sight\n preread {\n timeout 1m \n" + tc.preread + "\n}\n" + routes(l.backend().addr, "alert "+setting))
				base := p.counts()
				p.refuse(tc, setting == "on")
				p.settle(base, 1, counts{rejected(tc.reason): 1})
				p.expectValues(p.sighting().After, map[string]string{
					"sluice.reason": tc.reason, "sluice.close_reason": "preread_" + tc.reason, "sluice.upstream": "",
				})
				p.quiet()
				if n := records.count("rejected connection"); n != 1 {
					t.Errorf("debug lines about the refusal: got %d, want 1", n)
				}
			})
		}
	}
}

// refuse makes the connection and checks how it is closed.
func (p *proxy) refuse(r refusal, alerts bool) {
	p.Helper()
	begin := time.Now()
	c := p.dial()
	c.send(r.bytes)
	if r.end != nil {
		r.end(c)
	}
	if r.alert != nil && alerts {
		c.expectEnd(r.alert)
	} else {
		c.expectClosed()
	}
	p.between(time.Since(begin), 0, soon)
	c.Close()
}

// TestRefusalWithoutPreread has no preread in front: the router reads by itself.
func TestRefusalWithoutPreread(t *testing.T) {
	l := newLab(t)
	p := l.start(routes(l.backend().addr, ""))
	base := p.counts()
	for _, hello := range [][]byte{named("unknown.test"), named("h2.test", "h3")} {
		c := p.dial()
		c.send(hello)
		c.expect([]byte{21, 3, 3, 0, 2, 2})
		c.Close()
	}
	p.settle(base, 2, counts{rejected("sni_unmatched"): 1, rejected("alpn_unmatched"): 1})
	p.quiet()
}

// TestAlertSurvivesUnreadBytes sends a lot behind the hello: a close with unread bytes would be a reset, and could
// destroy the alert on its way.
func TestAlertSurvivesUnreadBytes(t *testing.T) {
	l := newLab(t)
	p := l.start(routes(l.backend().addr, ""))
	c := p.dial()
	c.send(append(named("unknown.test"), pattern(16<<10)...))
	c.expectEnd(alert(112))
	// Linux hides a reset behind the end of the stream from those who read, but not from those who write. This ends well
	// before the proxy stops reading.
	for begin := time.Now(); time.Since(begin) < 30*time.Millisecond; time.Sleep(5 * time.Millisecond) {
		c.send([]byte("more"))
	}
}

// TestAlertWaitsForNobody has a client that never closes: after the drain its connection is closed anyway.
func TestAlertWaitsForNobody(t *testing.T) {
	l := newLab(t)
	p := l.start(routes(l.backend().addr, ""))
	base := p.counts()
	c := p.dial()
	c.send(named("unknown.test"))
	c.expectEnd(alert(112))
	p.settle(base, 1, counts{rejected("sni_unmatched"): 1})
}

// TestPrereadAlone has no router: forward closes what the preread has rejected.
func TestPrereadAlone(t *testing.T) {
	l := newLab(t)
	p := l.start("sight\n preread\n forward " + l.digester("upstream"))
	hello := named("any.test")
	base := p.counts()
	p.expectAnswer(digest("upstream", hello), hello)
	p.expectValues(p.sighting().After, map[string]string{"sluice.sni": "any.test", "sluice.close_reason": "completed"})
	c := p.dial()
	c.send([]byte("not TLS"))
	c.expectClosed()
	p.expectValues(p.sighting().After, map[string]string{"sluice.reason": "not_tls", "sluice.close_reason": "preread_not_tls"})
	p.settle(base, 2, counts{rejected("not_tls"): 1})
	p.quiet()
}

// TestPrereadAndRouterInOneRoute checks that the router uses what the preread has read, and counts once.
func TestPrereadAndRouterInOneRoute(t *testing.T) {
	l := newLab(t)
	p := l.start("sight\n preread {\n max_bytes 64KiB \n}\n sight\n" + fmt.Sprintf(`sni_router {
		route *.wild.test {
			alpn h2 http/1.1
			tags team blue tier "a b"
			forward %s
		}
	}`, l.digester("upstream")))
	hello := hellos.New(hellos.Options{ServerName: "X1.Wild.Test.", ALPN: []string{"a,b\x01", "http/1.1"}, Pad: 40000})
	base := p.counts()
	p.expectAnswer(digest("upstream", hello), hello)
	p.settle(base, 1, counts{"routed_total": 1})
	inner, outer := p.sighting(), p.sighting()
	p.expectValues(outer.Before, map[string]string{"sluice.sni": "", "sluice.reason": ""})
	p.expectValues(inner.Before, map[string]string{
		"sluice.sni": "x1.wild.test", "sluice.alpn": `a\x2cb\x01,http/1.1`, "sluice.ech": "false", "sluice.reason": "",
		"sluice.hello_size": "40000", "sluice.hello_records": "3", "sluice.pattern": "", "sluice.tags.team": "",
	})
	p.expectValues(outer.After, map[string]string{
		"sluice.pattern": "*.wild.test", "sluice.tags.team": "blue", "sluice.tags.tier": "a b",
		"sluice.close_reason": "completed", "sluice.bytes_in": fmt.Sprint(len(hello)),
		"sluice.bytes_out": fmt.Sprint(len(digest("upstream", hello))),
	})
}

// TestHelloHistograms reads the sizes of hellos from the metrics.
func TestHelloHistograms(t *testing.T) {
	l := newLab(t)
	p := l.start(routes(l.digester("upstream"), ""))
	const size, recs = metricPrefix + "hello_size_bytes_", metricPrefix + "hello_records_"
	before := p.metrics()
	base := p.counts()
	p.expectAnswer(digest("upstream", named("known.test")), named("known.test"))
	long := hellos.Wrap(hellos.Message(hellos.Options{ServerName: "known.test", Pad: 3000}), 1000)
	p.expectAnswer(digest("upstream", long), long)
	p.settle(base, 2, counts{"routed_total": 2})
	after := p.metrics()
	short := float64(len(named("known.test")) - 5)
	for series, want := range map[string]float64{
		size + "count": 2, size + "sum": short + 3000, recs + "count": 2, recs + "sum": 1 + 3,
	} {
		if got := after[series] - before[series]; got != want {
			t.Errorf("%s: got %v, want %v", series, got, want)
		}
	}
}
