package integration

import (
	"fmt"
	"net"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/caddy-sluice/sluice/internal/testkit/hellos"
)

// timed runs a router behind a preread with this timeout.
func timed(l *lab, timeout time.Duration, upstream string) *proxy {
	l.Helper()
	return l.start(fmt.Sprintf("sight\n preread {\n timeout %v \n}\n", timeout) + routes(upstream, ""))
}

// between checks how long something took. The upper bound is for busy machines.
func (l *lab) between(took, least, most time.Duration) {
	l.Helper()
	if took < least || took > most {
		l.Errorf("it took %v, want %v to %v", took, least, most)
	}
}

func TestSilentClients(t *testing.T) {
	for _, tc := range []struct {
		name   string
		client func(*peer)
	}{
		{"S05_connect_then_fin", (*peer).Close},
		{"half_close", func(c *peer) { c.end(); c.expectClosed() }},
		{"S06_connect_then_rst", (*peer).abort},
	} {
		t.Run(tc.name, func(t *testing.T) {
			l := newLab(t)
			p := timed(l, time.Minute, l.backend().addr)
			base := p.counts()
			for range 3 {
				tc.client(p.dial())
			}
			p.settle(base, 3, nil)
			p.quiet()
		})
	}
}

func TestResetInsideHello(t *testing.T) {
	l := newLab(t)
	p := timed(l, time.Minute, l.backend().addr)
	base := p.counts()
	c := p.dial()
	c.send(hellos.New(hellos.Options{ServerName: "known.test", Pad: 3000})[:1024])
	// A reset takes unread bytes with it: it must come after the proxy has read them. Its first window is full then, and grows.
	p.awaitMetric(metricPrefix+"memory_bytes", 3*1024)
	c.abort()
	p.settle(base, 1, counts{rejected("front_closed"): 1})
	p.quiet()
}

func TestDeadline(t *testing.T) {
	const timeout, long = 2 * time.Second, 10 * time.Second
	hello := named("known.test")
	for _, tc := range []struct {
		name          string
		send          func(*peer)
		timeout, most time.Duration
	}{
		{"S08_silence", func(*peer) {}, timeout, timeout + soon},
		{"E06_ten_bytes_then_silence", func(c *peer) { c.send(hello[:10]) }, timeout, timeout + soon},
		{"S09_drip", func(c *peer) { drip(c.stream, hello, timeout/20) }, timeout, timeout + soon},
		// If each byte set the deadline anew, it would end after 19 seconds.
		{"drip_then_silence", func(c *peer) { drip(c.stream, hello[:10], long/10) }, long, long + soon/2},
	} {
		t.Run(tc.name, func(t *testing.T) {
			l := newLab(t)
			p := timed(l, tc.timeout, l.backend().addr)
			base := p.counts()
			begin := time.Now()
			c := p.dial()
			tc.send(c)
			c.expectClosed()
			p.between(time.Since(begin), tc.timeout-10*time.Millisecond, tc.most)
			p.settle(base, 1, counts{rejected("fragmented"): 1})
			p.expectValues(p.sighting().After, map[string]string{"sluice.close_reason": "preread_fragmented"})
			p.quiet()
		})
	}
}

// drip sends a byte each pause until the other side has closed.
func drip(c net.Conn, data []byte, pause time.Duration) {
	for _, b := range data {
		if _, err := c.Write([]byte{b}); err != nil {
			return
		}
		time.Sleep(pause)
	}
}

func TestSmallestTimeout(t *testing.T) {
	l := newLab(t)
	p := timed(l, 10*time.Millisecond, l.backend().addr)
	base := p.counts()
	p.dial().expectClosed()
	p.settle(base, 1, counts{rejected("fragmented"): 1})
}

// TestNoDeadlineIsLeft keeps a routed connection silent for longer than the preread may take, with our own relay behind
// and with a handler that knows nothing of deadlines.
func TestNoDeadlineIsLeft(t *testing.T) {
	for _, handler := range []string{"forward", "proxy"} {
		t.Run(handler, func(t *testing.T) {
			l := newLab(t)
			p := l.start("sight\n preread {\n timeout 1s \n}\n sni_router {\n route known.test {\n" + handler + " " + l.echo() + "\n}\n}")
			c := p.dial()
			hello := named("known.test")
			c.send(hello)
			c.expect(hello)
			time.Sleep(1500 * time.Millisecond)
			c.send([]byte("still there"))
			c.expect([]byte("still there"))
			c.end()
			c.expectEnd(nil)
			p.sighting()
		})
	}
}

// TestGauge follows the number of connections under way.
func TestGauge(t *testing.T) {
	l := newLab(t)
	b := l.backend()
	p := timed(l, time.Minute, b.addr)
	base := p.counts()
	c := p.dial()
	p.await(base, counts{"active": 1})
	half, rest := named("known.test")[:20], named("known.test")[20:]
	c.send(half)
	other := p.dial()
	p.await(base, counts{"active": 2})
	c.send(rest)
	up := b.accept()
	up.expect(named("known.test"))
	p.await(base, counts{"active": 1, "routed_total": 1, "duration_seconds_count": 1})
	other.send([]byte("no TLS"))
	other.expectClosed()
	up.Close()
	c.Close()
	p.settle(base, 2, counts{"routed_total": 1, rejected("not_tls"): 1})
}

// TestManyDrips is E27, smaller: what many slow clients can hold is bounded, and so is for how long.
func TestManyDrips(t *testing.T) {
	const clients, timeout = 500, 8 * time.Second // all must have connected before the first is over
	// perClient covers both ends of the connection, which are in this process, the first window, and Caddy's own state.
	// There is no room in it for a window of the size that it may grow to.
	const perClient = 40 << 10
	l := newLab(t)
	p := timed(l, timeout, l.backend().addr)
	base := p.counts()
	conns := make([]*peer, clients)
	var wait sync.WaitGroup
	before := heap()
	begin := time.Now()
	for i := range conns {
		conns[i] = p.dial()
		wait.Go(func() { drip(conns[i].stream, named("known.test"), timeout/20) })
	}
	p.await(base, counts{"active": clients})
	if got := (heap() - before) / clients; got > perClient {
		t.Errorf("memory: got %d bytes per client, want at most %d", got, perClient)
	}
	wait.Wait()
	for _, c := range conns {
		c.expectClosed()
		c.Close()
	}
	p.between(time.Since(begin), timeout, timeout+soon)
	p.settle(base, clients, counts{rejected("fragmented"): clients})
	p.quiet()
}

// heap returns the bytes in use after a collection, stacks included.
func heap() int {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int(m.HeapAlloc + m.StackInuse)
}
