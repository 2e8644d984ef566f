package cluster

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/caddy-sluice/sluice/internal/balance"
	"github.com/caddy-sluice/sluice/internal/health"
	"github.com/caddy-sluice/sluice/modules/balancers"
)

// slowly is a balancer that takes its time when it is told to: Prepare tells that it has begun, and waits for the end.
type slowly struct {
	policy
	slow       atomic.Bool
	began, end chan struct{}
}

func newSlowly(p balance.Policy) *slowly {
	return &slowly{policy: by(p), began: make(chan struct{}), end: make(chan struct{})}
}

func (s *slowly) Prepare(endpoints []balancers.Endpoint, before balancers.Picker) (balancers.Picker, error) {
	if s.slow.Swap(false) {
		s.began <- struct{}{}
		<-s.end
	}
	return s.policy.Prepare(endpoints, before)
}

// during calls f, which has the balancer prepare something, and g meanwhile. g must not have to wait for it. finish lets the
// balancer come to its end, and waits for f.
func (s *slowly) during(t *testing.T, f, g func()) (finish func()) {
	t.Helper()
	s.slow.Store(true)
	built, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(built)
		f()
	}()
	<-s.began
	go func() {
		defer close(done)
		g()
	}()
	select {
	case <-done:
	case <-time.After(10 * time.Second):
		t.Error("has to wait until the new roster is there")
	}
	return func() {
		close(s.end)
		<-built
		<-done
	}
}

// TestNobodyWaitsForATable checks that while a roster is made the one before serves, a change of health and a drain count at
// once, what is known can be asked for, and nothing of that is lost when the new roster is there.
func TestNobodyWaitsForATable(t *testing.T) {
	slow := newSlowly(balance.Maglev)
	c := running(t, settings{static: static(1, 1, 1), balancer: slow, policy: health.Config{
		Outlier: health.Outlier{ConsecutiveFailures: 1, Time: time.Hour, MaxPercent: 100},
	}})
	all, weight := c.state.roster.Load().endpoints, uint32(50)
	finish := slow.during(t, func() { orderAt(t, all[0], Change{Weight: &weight}) }, func() {
		ejected := settle(t, c, Outcome{Kind: health.Connect})
		for range 100 {
			if e := settle(t, c, Outcome{}); e == ejected {
				t.Error("an endpoint was picked that is ejected since a table is made")
				return
			}
		}
		drained := settle(t, c, Outcome{})
		orderAt(t, drained, Change{State: "drain"})
		for range 100 {
			if e := settle(t, c, Outcome{}); e == drained {
				t.Error("an endpoint was picked that is drained since a table is made")
				return
			}
		}
		restore(t, drained)
		orderAt(t, all[1], Change{State: "drain"})
		if got := c.state.status().Endpoints[0]; got.Override != nil || got.Weight != 1 {
			t.Errorf("got weight %d before it counts", got.Weight)
		}
	})
	finish()
	got := c.state.status().Endpoints
	if got[0].Weight != 50 || got[1].State != "drained" {
		t.Errorf("got weight %d and state %s, want 50 and drained", got[0].Weight, got[1].State)
	}
	if weights := c.state.roster.Load().weights; weights[0] != 50 {
		t.Errorf("the picker has weights %v, want 50 first", weights)
	}
}

// TestOrdersWhileATableIsMade checks that weights which are ordered, and endpoints which are found, while a roster is made
// count when all is made, whoever comes first.
func TestOrdersWhileATableIsMade(t *testing.T) {
	slow := newSlowly(balance.RoundRobin)
	from := &scripted{found: foundAt(1, 2)}
	set := finding(from)
	set.static, set.balancer = static(1, 1), slow
	c := running(t, set)
	all, weights := c.state.roster.Load().endpoints, []uint32{5, 7}
	ordered := make(chan error, 2)
	finish := slow.during(t, func() {
		if err := c.take(from, foundAt(1, 2, 3), nil); err != nil {
			t.Error(err)
		}
	}, func() {
		for i, e := range all[:2] {
			go func() { ordered <- Override(t.Name(), e.Address(), Change{Weight: &weights[i], State: "up"}) }()
		}
		// One that is taken back before it counts.
		orderAt(t, all[0], Change{State: "drain"})
		restore(t, all[0])
	})
	finish()
	for range 2 {
		if err := <-ordered; err != nil {
			t.Error(err)
		}
	}
	got := c.state.roster.Load()
	if len(got.endpoints) != 5 || got.weights[0] != 5 || got.weights[1] != 7 {
		t.Errorf("got %d endpoints, weights %v, want 5, and 5 and 7 first", len(got.endpoints), got.weights)
	}
	for i, s := range c.state.status().Endpoints[:2] {
		if s.Override == nil || s.Override.State != "up" || s.Weight != weights[i] {
			t.Errorf("%s: got weight %d, %+v", s.Address, s.Weight, s.Override)
		}
	}
}

// TestStopWhileATableIsMade checks that a cluster that stops while a roster is made of what it has found leaves the one before
// it in charge.
func TestStopWhileATableIsMade(t *testing.T) {
	slow := newSlowly(balance.P2C)
	before := running(t, settings{static: static(1)})
	from := &scripted{}
	set := finding(from)
	set.balancer = slow
	after, stopped := running(t, set), make(chan struct{})
	finish := slow.during(t, func() { _ = after.take(from, foundAt(1, 2), nil) }, func() {
		go func() {
			defer close(stopped)
			after.stop()
		}()
	})
	finish()
	<-stopped
	if got := before.state.keys(); len(got) != 1 || got[0] != before.set.static[0].String() {
		t.Errorf("got %v, want the endpoint of the config before", got)
	}
	if len(before.state.found) > 0 {
		t.Errorf("got %v that was found, want nothing", before.state.found)
	}
}
