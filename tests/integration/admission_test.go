package integration

import (
	"fmt"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"testing"
)

// gateCount is the series that counts a gate's refusals.
func gateCount(gate string) string {
	return `caddy_sluice_admission_rejected_total{gate="` + gate + `"}`
}

// admitted is the gauge of connections that were let in.
const admitted = "caddy_sluice_admission_connections"

// awaitMetric waits until a series has a value.
func (p *proxy) awaitMetric(series string, want float64) {
	p.Helper()
	p.eventually(fmt.Sprintf("%s is %v", series, want), func() (string, bool) {
		got := p.metric(series)
		return fmt.Sprint(got), got == want
	})
}

// dialed is a connection through the proxy to an echo, which has answered: it is being relayed.
func (p *proxy) dialed() *peer {
	p.Helper()
	c := p.dial()
	c.send([]byte("ping"))
	c.expect([]byte("ping"))
	return c
}

// leave ends a connection and waits for the other side.
func (c *peer) leave() {
	c.Helper()
	c.end()
	c.expectEnd(nil)
	c.Close()
}

// TestT33_OneAtATime checks that the second connection is refused without a byte, and that the place of the first is free
// again when it has left.
func TestT33_OneAtATime(t *testing.T) {
	l := newLab(t)
	p := l.start("admission {\nmax_connections 1\n}\nforward " + l.echo())
	base := p.metric(gateCount("listener"))
	for range 3 {
		first := p.dialed()
		p.dial().expectClosed()
		first.leave()
		p.awaitMetric(admitted, 0)
	}
	if got := p.metric(gateCount("listener")) - base; got != 3 {
		t.Errorf("refusals: got %v, want 3", got)
	}
	for _, r := range records.find(func(r logRecord) bool { return r.Logger == "sluice" && r.Level != "debug" }) {
		if r.Level != "warn" || r.Msg != "refusing connections" {
			t.Errorf("log: got %s", r.Line)
		}
	}
	if got := records.count("refusing connections"); got != 1 {
		t.Errorf("got %d warnings for three refusals, want 1", got)
	}
}

// TestZ116_Three checks that the fourth connection is refused while three are open.
func TestZ116_Three(t *testing.T) {
	l := newLab(t)
	p := l.start("admission {\nmax_connections 3\n}\nforward " + l.echo())
	open := []*peer{p.dialed(), p.dialed(), p.dialed()}
	p.dial().expectClosed()
	open[0].leave()
	p.awaitMetric(admitted, 2)
	p.dialed().leave()
	open[1].leave()
	open[2].leave()
	p.awaitMetric(admitted, 0)
}

// TestT35_ProcessLimit checks that two listeners share the limit of the process, also across a reload, and that a handler
// for admission is not needed for it.
func TestT35_ProcessLimit(t *testing.T) {
	l := newLab(t)
	echo, second := l.echo(), l.freeAddr()
	p := &proxy{lab: l, addr: l.freeAddr()}
	servers := fmt.Sprintf("layer4 {\n%s {\nroute {\nforward %s\n}\n}\n%s {\nroute {\nforward %s\n}\n}\n}\n", p.addr, echo, second, echo)
	limit := func(n int) string {
		return fmt.Sprintf("sluice {\nadmission {\nmax_connections %d\n}\n}\n", n) + servers
	}
	p.admin = l.run(limit(1), "").admin
	base := p.metric(gateCount("process"))
	first := p.dialed()
	p2 := &proxy{lab: l, addr: second, admin: p.admin}
	p2.dial().expectClosed()
	if err := p.load(limit(2), ""); err != nil {
		t.Fatal(err)
	}
	other := p2.dialed()
	p2.dial().expectClosed()
	first.leave()
	p.awaitMetric(admitted, 1)
	other.leave()
	p.awaitMetric(admitted, 0)
	if got := p.metric(gateCount("process")) - base; got != 2 {
		t.Errorf("refusals: got %v, want 2", got)
	}
}

// TestT36_NoMemory checks that a process over its limit of memory lets nobody in.
func TestT36_NoMemory(t *testing.T) {
	if _, err := os.Stat("/proc/self/stat"); err != nil {
		t.Log("memory can't be read here, and the limit is refused: see the tests of the app")
		return
	}
	l := newLab(t)
	addr := l.freeAddr()
	body := fmt.Sprintf("route {\naccess_log\nadmission\nforward %s\n}", l.echo())
	p := l.run("sluice {\nadmission {\nmemory_limit 16MiB\n}\n}\n"+server(addr, body), "")
	p.addr = addr
	base := p.metric(gateCount("memory"))
	for range 3 {
		p.dial().expectClosed()
	}
	for _, line := range p.accessLines(3) {
		p.expectLine(line, map[string]any{"reason": "admission_memory", "bytes_in": 0, "bytes_out": 0})
	}
	if got := p.metric(gateCount("memory")) - base; got != 3 {
		t.Errorf("refusals: got %v, want 3", got)
	}
}

// TestE18_PerClient checks the limit for one client, and that refusals before take nothing.
func TestE18_PerClient(t *testing.T) {
	for _, tc := range []struct {
		name  string
		limit int
	}{{"E18_limit_1", 1}, {"E19_limit_2", 2}} {
		t.Run(tc.name, func(t *testing.T) {
			l := newLab(t)
			p := l.start(fmt.Sprintf("admission {\nmax_connections_per_ip %d\n}\nforward %s", tc.limit, l.echo()))
			var open []*peer
			for range tc.limit {
				open = append(open, p.dialed())
			}
			for range 5 {
				p.dial().expectClosed()
			}
			open[0].leave()
			p.awaitMetric(admitted, float64(tc.limit-1))
			open[0] = p.dialed()
			for _, c := range open {
				c.leave()
			}
			p.awaitMetric(admitted, 0)
		})
	}
}

// TestE20_PerClientBehindBalancer checks that clients behind one load balancer count apart, and that the load balancer
// counts for itself.
func TestE20_PerClientBehindBalancer(t *testing.T) {
	l := newLab(t)
	p := l.start(`preread {
			proxy_protocol from 127.0.0.1
		}
		admission {
			max_connections_per_ip 1
		}
		forward ` + l.echo())
	hello := named("a.example.com")
	local := "\r\n\r\n\x00\r\nQUIT\n\x20\x00\x00\x00"
	text := func(client string) string { return "PROXY TCP4 " + client + " 192.0.2.1 1234 443\r\n" }
	var open []*peer
	for _, header := range []string{text("203.0.113.1"), text("203.0.113.2"), local} {
		c := p.dial()
		c.send([]byte(header), hello)
		c.expect(hello)
		open = append(open, c)
		again := p.dial()
		again.send([]byte(header), hello)
		again.expectClosed()
	}
	for _, c := range open {
		c.leave()
	}
	p.awaitMetric(admitted, 0)
}

// TestT49_EveryWayOut checks that the gauge is back to 0 however a connection ends.
func TestT49_EveryWayOut(t *testing.T) {
	l := newLab(t)
	const filters = "access_log\nadmission {\nmax_connections 10\nmax_connections_per_ip 10\n}\n"
	p := l.start(filters + "forward " + l.freeAddr())
	p.dial().expectClosed() // nobody listens there
	const timed = "preread {\ntimeout 10ms\n}\nforward 127.0.0.1:9"
	for _, handlers := range []string{
		"fault", "ip_acl {\ndeny 127.0.0.1\n}\nforward 127.0.0.1:9", "preread {\ntimeout 1m\n}\nforward 127.0.0.1:9", timed, "echo",
	} {
		if err := p.route(filters + handlers); err != nil {
			t.Fatal(err)
		}
		c := p.dial()
		if handlers != timed {
			c.end()
		}
		c.expectClosed()
	}
	p.accessLines(5) // the client of the longer preread left without a byte
	p.awaitMetric(admitted, 0)
}

// TestZ115_Thousand checks that nothing is left of a thousand connections.
func TestZ115_Thousand(t *testing.T) {
	l := newLab(t)
	p := l.start("access_log\nadmission {\nmax_connections 100\nmax_connections_per_ip 100\n}\nforward " + l.digester("a"))
	var wg sync.WaitGroup
	for range 10 {
		wg.Go(func() {
			for range 100 {
				if answer, err := p.ask(0, []byte("x")); err != nil || answer != digest("a", []byte("x")) {
					t.Errorf("got %q, %v", answer, err)
				}
			}
		})
	}
	wg.Wait()
	p.accessLines(1000)
	p.awaitMetric(admitted, 0)
	p.awaitMetric("caddy_sluice_session_active", 0)
}

// TestReloadKeepsCounts checks that connections which began under a config without a handler of ours in between still count.
func TestReloadKeepsCounts(t *testing.T) {
	l := newLab(t)
	echo := l.echo()
	limited := "admission {\nmax_connections 1\n}\nforward " + echo
	p := l.start(limited)
	first := p.dialed()
	for _, handlers := range []string{limited, "echo", limited} {
		if err := p.route(handlers); err != nil {
			t.Fatal(err)
		}
	}
	p.dial().expectClosed()
	first.send([]byte("more"))
	first.expect([]byte("more"))
	first.leave()
	p.eventually("there is a place again", func() (string, bool) {
		c, err := net.Dial("tcp", p.addr)
		if err != nil {
			return err.Error(), false
		}
		defer c.Close()
		_, _ = c.Write([]byte("x"))
		n, err := c.Read(make([]byte, 1))
		return fmt.Sprint(n, err), n == 1
	})
}

// TestAdmissionRefusesConfigs checks that a config with a limit of 0 is refused and the running one goes on.
func TestAdmissionRefusesConfigs(t *testing.T) {
	l := newLab(t)
	echo := l.echo()
	p := l.start("admission\nforward " + echo)
	raw := `{"apps":{"layer4":{"servers":{"a":{"listen":["` + p.addr + `"],"routes":[{"handle":[{"handler":"admission","max_connections":-1}]}]}}}}}`
	res, err := p.admin.Post("http://caddy/load", "application/json", strings.NewReader(raw))
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusBadRequest {
		t.Errorf("got status %d, want 400", res.StatusCode)
	}
	p.dialed().leave()
}
