package integration

import (
	"bytes"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"
)

// pair runs a router in front of a backend and returns both ends of a connection that was routed. The hello has been
// sent and received.
func pair(p *proxy, b *backend) (client, upstream *peer) {
	p.Helper()
	hello := named("known.test")
	client = p.dial()
	client.send(hello)
	upstream = b.accept()
	upstream.expect(hello)
	return client, upstream
}

// startWatched runs a router with a `sight` handler in front.
func startWatched(l *lab, upstream string) *proxy {
	l.Helper()
	return l.start("sight\n" + routes(upstream, ""))
}

// expectEnding checks how a connection ended and what was moved.
func (p *proxy) expectEnding(reason string, in, out int) {
	p.Helper()
	p.expectValues(p.sighting().After, map[string]string{
		"sluice.close_reason": reason, "sluice.bytes_in": fmt.Sprint(in), "sluice.bytes_out": fmt.Sprint(out),
	})
}

// TestClosingAtOnce is E15: all of what a client sends with its hello arrives, although it is gone by then.
func TestClosingAtOnce(t *testing.T) {
	l := newLab(t)
	b := l.backend()
	p := startWatched(l, b.addr)
	base := p.counts()
	flight := append(named("known.test"), pattern(1<<20)...)
	c := p.dial()
	var wait sync.WaitGroup
	c.push(&wait, flight, c.Close)
	up := b.accept()
	up.expectEnd(flight)
	wait.Wait()
	up.Close()
	p.settle(base, 1, counts{"routed_total": 1})
	p.expectEnding("completed", len(flight), 0)
	p.quiet()
}

// TestBulk moves data both ways at once, also after one side has ended.
func TestBulk(t *testing.T) {
	for _, tc := range []struct {
		name     string
		upstream func(*lab) *backend
	}{{"tcp", (*lab).backend}, {"unix_socket", (*lab).unixBackend}} {
		t.Run(tc.name, func(t *testing.T) {
			l := newLab(t)
			b := tc.upstream(l)
			p := startWatched(l, b.addr)
			c, up := pair(p, b)
			exchange(c, up)
			p.expectEnding("completed", len(named("known.test"))+1<<20, 4<<20)
			p.quiet()
		})
	}
}

// exchange moves 1 MiB from the client and 4 MiB to it.
func exchange(c, up *peer) {
	c.Helper()
	up1, down1, down2 := pattern(1<<20), pattern(3<<20), pattern(1<<20)
	var wait sync.WaitGroup
	c.push(&wait, up1, c.end)
	up.push(&wait, down1, nil)
	c.expect(down1)
	up.expectEnd(up1)
	wait.Wait()
	// E16: the client has ended its stream, the download goes on.
	up.push(&wait, down2, up.end)
	c.expectEnd(down2)
	wait.Wait()
}

// TestBackendEndsFirst is E17: what the client still sends arrives.
func TestBackendEndsFirst(t *testing.T) {
	l := newLab(t)
	b := l.backend()
	p := startWatched(l, b.addr)
	c, up := pair(p, b)
	up.send([]byte("bye"))
	up.end()
	c.expectEnd([]byte("bye"))
	data := pattern(1 << 20)
	var wait sync.WaitGroup
	c.push(&wait, data, c.end)
	up.expectEnd(data)
	wait.Wait()
	p.expectEnding("completed", len(named("known.test"))+len(data), 3)
}

func TestResets(t *testing.T) {
	for _, tc := range []struct {
		name   string
		abort  func(client, upstream *peer) (aborting, other *peer)
		reason string
	}{
		{"of_the_client", func(c, up *peer) (*peer, *peer) { return c, up }, "client_gone"},
		{"of_the_backend", func(c, up *peer) (*peer, *peer) { return up, c }, "error"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			l := newLab(t)
			b := l.backend()
			p := startWatched(l, b.addr)
			c, up := pair(p, b)
			up.send([]byte("hi"))
			c.expect([]byte("hi"))
			aborting, other := tc.abort(c, up)
			aborting.abort()
			other.expectReset()
			p.expectEnding(tc.reason, len(named("known.test")), 2)
			p.quiet()
		})
	}
}

// TestResetBehindData checks that data sent before the reset of the backend are not lost.
func TestResetBehindData(t *testing.T) {
	l := newLab(t)
	b := l.backend()
	p := startWatched(l, b.addr)
	c, up := pair(p, b)
	data := pattern(100_000)
	up.send(data)
	c.expect(data)
	up.abort()
	c.expectReset()
}

func TestConnectFailure(t *testing.T) {
	for _, tc := range []struct {
		name     string
		upstream func(*lab) string
		reason   string
	}{
		{"closed_port", (*lab).freeAddr, "connect_failure"},
		{"no_such_socket", func(l *lab) string { return "unix/" + l.dir + "/none" }, "connect_failure"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			l := newLab(t)
			addr := tc.upstream(l)
			p := startWatched(l, addr)
			base := p.counts()
			begin := time.Now()
			c := p.dial()
			c.send(named("known.test"))
			c.expectClosed()
			p.between(time.Since(begin), 0, soon)
			p.settle(base, 1, counts{"routed_total": 1})
			p.expectEnding(tc.reason, 0, 0)
			loud := p.loud()
			if len(loud) != 1 || loud[0].Level != "warn" || !strings.Contains(loud[0].Line, addr) {
				t.Errorf("log: got %v, want one warning that names %s", loud, addr)
			}
		})
	}
}

// TestRoutesByNameAndProtocol is the rules of the table, seen from outside: each connection must reach its backend.
func TestRoutesByNameAndProtocol(t *testing.T) {
	l := newLab(t)
	var config strings.Builder
	for _, route := range []struct{ tag, names, alpn string }{
		{"exact", "a.example.test", ""},
		{"one", "*.example.test", ""},
		{"deep", "**.example.test", ""},
		{"longer", "*.sub.example.test", ""},
		{"tree", ".tree.test", ""},
		{"several", "one.test Two.TEST bücher.test", ""},
		{"h2", "mixed.test", "alpn h2"},
		{"web", "mixed.test", "alpn http/1.1"},
		{"acme", "mixed.test", "alpn acme-tls/1 xmpp-client"},
		{"rest", "mixed.test", ""},
	} {
		fmt.Fprintf(&config, "route %s {\n %s\n forward %s\n}\n", route.names, route.alpn, l.digester(route.tag))
	}
	fmt.Fprintf(&config, "fallback {\n forward %s\n}\n", l.digester("nobody"))
	p := l.start("sni_router {\n" + config.String() + "}")
	for _, tc := range []struct {
		name string
		alpn []string
		want string
	}{
		{"a.example.test", nil, "exact"},
		{"A.EXAMPLE.test.", nil, "exact"},
		{"b.example.test", nil, "one"},
		{"c.b.example.test", nil, "deep"},
		{"c.sub.example.test", nil, "longer"},
		{"d.c.sub.example.test", nil, "deep"},
		{"example.test", nil, "nobody"},
		{"tree.test", nil, "tree"},
		{"a.b.tree.test", nil, "tree"},
		{"one.test", nil, "several"},
		{"two.test", nil, "several"},
		{"xn--bcher-kva.test", nil, "several"},
		{"mixed.test", []string{"h2", "http/1.1"}, "h2"},
		{"mixed.test", []string{"http/1.1", "h2"}, "web"},
		{"mixed.test", []string{"acme-tls/1"}, "acme"},
		{"mixed.test", []string{"spdy/1", "xmpp-client"}, "acme"},
		{"mixed.test", []string{"H2"}, "rest"},
		{"mixed.test", nil, "rest"},
		{"bücher.test", nil, "nobody"},
		{"192.0.2.1", nil, "nobody"},
	} {
		hello := named(tc.name, tc.alpn...)
		p.expectAnswer(digest(tc.want, hello), hello)
	}
}

// TestStreamIsUntouched compares all bytes both ways, and where they end, with the hello in a write of its own or not.
func TestStreamIsUntouched(t *testing.T) {
	l := newLab(t)
	b := l.backend()
	p := startWatched(l, b.addr)
	hello := named("known.test", "h2")
	for _, size := range []int{0, 1, 1023, 1024, 1025, 16384, 70000} {
		tail := pattern(size)
		c := p.dial()
		c.send(append(bytes.Clone(hello), tail...))
		c.end()
		up := b.accept()
		up.expectEnd(append(bytes.Clone(hello), tail...))
		up.send(tail)
		up.end()
		c.expectEnd(tail)
		p.expectEnding("completed", len(hello)+size, size)
	}
}
