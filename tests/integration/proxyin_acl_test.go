package integration

import (
	"fmt"
	"testing"
)

// TestACLBehindProxyHeader has an ip_acl behind the preread, or in a route of the wrapper: it judges the client, and not
// the proxy in front.
func TestACLBehindProxyHeader(t *testing.T) {
	l := newLab(t)
	upstream := l.digester("in")
	hello := named("pass.test")
	allowed, refused := header(t, 2, client4, front4), header(t, 1, client6, front6)
	acl := "ip_acl {\nallow 192.0.2.0/24\n}\n" + passthrough(upstream)
	for name, start := range map[string]func() *proxy{
		"preread": func() *proxy { return l.start("preread {\nproxy_protocol from 127.0.0.1\n}\n" + acl) },
		"wrapper": func() *proxy { return startProxied(l, "127.0.0.1", acl, "respond site").proxy },
	} {
		t.Run(name, func(t *testing.T) {
			p := start()
			const series = `caddy_sluice_session_closed_total{reason="filter_rejection"}`
			before := p.metric(series)
			p.expectAnswer(digest("in", hello), append(allowed, hello...))
			c := p.dial()
			c.send(refused, hello)
			c.expectClosed()
			c.Close()
			p.eventually("refused", func() (string, bool) {
				got := p.metric(series) - before
				return fmt.Sprint(got), got == 1
			})
		})
	}
}
