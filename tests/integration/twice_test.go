package integration

import (
	"testing"
)

// TestTwoPrereads has two prereads in one route: a connection is counted once all the same.
func TestTwoPrereads(t *testing.T) {
	l := newLab(t)
	p := l.start("preread\n preread\n" + routes(l.digester("route"), ""))
	base := p.counts()
	hello := named("known.test")
	p.expectAnswer(digest("route", hello), hello)
	c := p.dial()
	c.send(named("unknown.test"))
	c.expectEnd(alert(112))
	c.Close()
	p.settle(base, 2, counts{"routed_total": 1, rejected("sni_unmatched"): 1})
}

// TestPrereadBehindRouter has a preread in the route that a router hands on to.
func TestPrereadBehindRouter(t *testing.T) {
	l := newLab(t)
	p := l.startServer("route {\n" + routes(l.digester("first"), "fallback {\n next \n}") + "\n}\n" +
		"route {\n preread\n sni_router {\n fallback {\n forward " + l.digester("second") + "\n}\n}\n}")
	base := p.counts()
	hello := named("unknown.test")
	p.expectAnswer(digest("second", hello), hello)
	p.settle(base, 1, counts{fallback("sni_unmatched"): 2})
}

// TestDatagrams has a listener for datagrams, which have no stream to preread.
func TestDatagrams(t *testing.T) {
	newLab(t)
	for _, handler := range []string{`{"handler":"preread"}`, oneRoute(`"names":["a.test"]`), to} {
		err := validateApps(t, `"layer4":{"servers":{"l4":{"listen":["udp/127.0.0.1:8443"],"routes":[{"handle":[`+handler+`]}]}}}`)
		checkError(t, err, "udp")
	}
}

// TestPrereadInAnotherRoute has the handler that rejects in a later route than the preread: it is counted all the same.
func TestPrereadInAnotherRoute(t *testing.T) {
	l := newLab(t)
	p := l.startServer("route {\n preread\n}\nroute {\n" + routes(l.digester("route"), "") + "\n}")
	base := p.counts()
	c := p.dial()
	c.send(named("unknown.test"))
	c.expectEnd(alert(112))
	c.Close()
	c = p.dial()
	c.send([]byte("GET /"))
	c.expectClosed()
	p.settle(base, 2, counts{rejected("sni_unmatched"): 1, rejected("not_tls"): 1})
}
