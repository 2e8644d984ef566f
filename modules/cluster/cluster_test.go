package cluster

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/caddyserver/caddy/v2"
	"go.uber.org/zap"

	"github.com/caddy-sluice/sluice/internal/balance"
	"github.com/caddy-sluice/sluice/internal/health"
	"github.com/caddy-sluice/sluice/modules/balancers"
	"github.com/caddy-sluice/sluice/modules/hostport"
)

// policy is a balancer without a config around it.
type policy struct {
	balance.Config
	key balancers.Key
}

func (p policy) Prepare(endpoints []balancers.Endpoint, before balancers.Picker) (balancers.Picker, error) {
	set, _ := before.(*balancers.Set)
	return balance.New(p.Config, endpoints, set)
}

func (p policy) Traits() balancers.Traits {
	return balancers.Traits{Key: p.key, Ramps: p.Policy.Ramps()}
}

// by returns the balancer of a policy.
func by(p balance.Policy) policy { return policy{Config: balance.Config{Policy: p}} }

// static returns members at addresses of a test network, with these weights.
func static(weights ...uint32) []member {
	var list []member
	for i, w := range weights {
		list = append(list, member{Address: hostport.Address{Host: fmt.Sprintf("192.0.2.%d", i/250+1), Port: uint16(i%250 + 1000)}, weight: w, trusted: true})
	}
	return list
}

// emitted are the events that a cluster has emitted, by name and endpoint.
type emitted struct {
	mu   sync.Mutex
	list []string
}

func (e *emitted) Emit(_ caddy.Context, name string, data map[string]any) caddy.Event {
	e.mu.Lock()
	defer e.mu.Unlock()
	if endpoint, ok := data["endpoint"]; ok {
		name += fmt.Sprint(" ", endpoint)
	}
	e.list = append(e.list, name)
	return caddy.Event{}
}

// take returns the events since the last call.
func (e *emitted) take() []string {
	e.mu.Lock()
	defer e.mu.Unlock()
	list := e.list
	e.list = nil
	return list
}

// handle returns a config's hold on the cluster that is called like the test. It has not started, and ends with the test.
func handle(tb testing.TB, set settings) *Cluster {
	tb.Helper()
	if set.balancer == nil {
		set.balancer = policy{}
	}
	ctx, cancel := caddy.NewContext(caddy.Context{Context: context.Background()})
	c := &Cluster{
		name: tb.Name(), set: &set, ctx: ctx, events: new(emitted), logger: zap.NewNop(),
	}
	c.key = set.balancer.Traits().Key
	var err error
	if c.state, err = takeState(c.name); err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		c.stop()
		if err := c.Cleanup(); err != nil {
			tb.Error(err)
		}
		cancel()
	})
	return c
}

// running returns a cluster that has started, without its goroutines.
func running(tb testing.TB, set settings) *Cluster {
	tb.Helper()
	c := handle(tb, set)
	begin(tb, c)
	return c
}

// begin starts a cluster, but not its goroutines: they are not started when the config after it stops either.
func begin(tb testing.TB, c *Cluster) {
	tb.Helper()
	if err := c.start(nil); err != nil {
		tb.Fatal(err)
	}
	c.state.begin()
	for _, other := range c.state.running {
		other.cancel = func() {}
	}
}

// lease leases an endpoint, for a request of its own.
func lease(tb testing.TB, c *Cluster) (*Request, *Lease) {
	tb.Helper()
	r, l := admit(tb, c), new(Lease)
	if err := r.Pick(l, Key{}); err != nil {
		tb.Fatal(err)
	}
	return r, l
}

// settle makes one request with one attempt, and returns its endpoint.
func settle(tb testing.TB, c *Cluster, o Outcome) *Endpoint {
	tb.Helper()
	r, l := lease(tb, c)
	e := l.Endpoint()
	l.Done(o)
	r.Finish()
	return e
}

// reasons returns what is said of the endpoints of a cluster, in their order.
func reasons(c *Cluster) (list []string) {
	for _, e := range c.state.status().Endpoints {
		list = append(list, e.State)
	}
	return list
}

// admit begins a request.
func admit(tb testing.TB, c *Cluster) *Request {
	tb.Helper()
	r := new(Request)
	if err := c.Admit(r); err != nil {
		tb.Fatal(err)
	}
	return r
}

// TestPickAndSettle checks that a pick and its settlement leave nothing behind, and count once.
func TestPickAndSettle(t *testing.T) {
	c := running(t, settings{static: static(1, 1, 1)})
	r := admit(t, c)
	var l Lease
	if err := r.Pick(&l, Key{}); err != nil {
		t.Fatal(err)
	}
	if got := l.Endpoint().live.Load(); got != 1 {
		t.Errorf("got load %d, want 1", got)
	}
	e := l.Endpoint()
	if !l.Done(health.Answered(200)) || l.Done(health.Answered(200)) {
		t.Error("a lease must be settled once")
	}
	if !r.Finish() || r.Finish() {
		t.Error("a request must be finished once")
	}
	if load := e.live.Load(); load != 0 {
		t.Errorf("got load %d, want 0", load)
	}
	if n := e.outcomes[health.Answer].Load(); n != 1 {
		t.Errorf("got %d answers, want 1", n)
	}
	if s := c.state.health.Stats(); s.RequestsActive != 0 || s.Attempts != 1 {
		t.Errorf("got %+v", s)
	}
}

// BenchmarkPickAndSettle is one request: admitted, picked, settled, finished.
func BenchmarkPickAndSettle(b *testing.B) {
	for _, n := range []int{3, 1000} {
		for _, p := range []balance.Policy{
			balance.P2C, balance.Random, balance.Maglev, balance.RingHash, balance.LeastConnections, balance.RoundRobin,
		} {
			b.Run(fmt.Sprintf("%v/%d", p, n), func(b *testing.B) {
				weights := make([]uint32, n)
				for i := range weights {
					weights[i] = 1
				}
				c := running(b, settings{static: static(weights...), balancer: by(p)})
				key := HashKey("a key")
				b.ReportAllocs()
				var r Request
				var l Lease
				for b.Loop() {
					if c.Admit(&r) != nil || r.Pick(&l, key) != nil {
						b.Fatal("refused")
					}
					key.hash += 0x9e3779b97f4a7c15
					l.Done(health.Answered(200))
					r.Finish()
				}
			})
		}
	}
	b.Run("clock", func(b *testing.B) {
		for b.Loop() {
			_ = time.Now()
		}
	})
}
