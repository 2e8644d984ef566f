package cluster

import (
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/caddy-sluice/sluice/internal/balance"
	"github.com/caddy-sluice/sluice/internal/health"
)

// TestZ14_PicksCountAtOnce checks that two picks of two endpoints go to one each: the first counts before anything is dialled.
func TestZ14_PicksCountAtOnce(t *testing.T) {
	c := running(t, settings{static: static(1, 1)})
	for range 1000 {
		_, one := lease(t, c)
		_, two := lease(t, c)
		if one.Endpoint() == two.Endpoint() {
			t.Fatal("got one endpoint twice")
		}
		one.Done(Outcome{})
		two.Done(Outcome{})
	}
}

// TestRefusedRetriesLeaveNoLoad checks that a pick that is given back, since the endpoint has as many retries as it may,
// leaves no load.
func TestRefusedRetriesLeaveNoLoad(t *testing.T) {
	set := settings{static: static(1), policy: health.Config{Retry: health.DefaultRetry()}}
	set.static[0].limits.Retries = 1
	c := running(t, set)
	var held, refused Lease
	for i, l := range []*Lease{&held, &refused} {
		r, first := lease(t, c)
		first.Fail(Failure{Outcome: Outcome{Kind: health.Connect}, Repeatable: true, Eligible: true})
		var why *Refused
		if err := r.Pick(l, Key{}); (err != nil) != (i == 1) || i == 1 && (!errors.As(err, &why) || why.Why != health.EndpointRetries) {
			t.Errorf("retry %d: got %v", i, err)
		}
	}
	if load := held.Endpoint().live.Load(); load != 1 {
		t.Errorf("got load %d, want 1", load)
	}
	held.Done(Outcome{})
}

// TestRetriesFullGoesElsewhere checks that a retry which has tried all goes to one that has room for it, whichever the
// balancer likes better.
func TestRetriesFullGoesElsewhere(t *testing.T) {
	set := settings{static: static(1, 1), balancer: by(balance.First), policy: retryingOn(health.Connect)}
	set.static[0].limits.Retries = 1
	c := running(t, set)
	for i, want := range []string{"192.0.2.1:1000", "192.0.2.1:1001"} {
		r, l := lease(t, c)
		for tries := 1; tries < 3; tries++ {
			if d := l.Fail(Failure{Outcome: Outcome{Kind: health.Connect}, Repeatable: true, Eligible: true}); d.Action != health.Again {
				t.Fatalf("request %d: got %+v", i, d)
			}
			if err := r.Pick(l, Key{}); err != nil {
				t.Fatalf("request %d, try %d: %v", i, tries+1, err)
			}
		}
		if got := l.Endpoint().Address(); got != want {
			t.Errorf("request %d: got %s at the third try, want %s", i, got, want)
		}
	}
}

// TestZ52_AllDownThenOneUp checks that a cluster of which all are down uses all, and only the one that comes back.
func TestZ52_AllDownThenOneUp(t *testing.T) {
	set := settings{static: static(1, 1, 1), policy: health.Config{Active: health.Thresholds{Rise: 1, Fall: 1}}}
	c := running(t, set)
	all := c.state.roster.Load().endpoints
	for _, e := range all {
		c.state.health.Check(e.health.Load(), false, time.Now())
	}
	used := make(map[*Endpoint]bool)
	for range 100 {
		used[settle(t, c, Outcome{})] = true
	}
	if len(used) != 3 {
		t.Errorf("used %d of 3 that are down", len(used))
	}
	c.state.health.Check(all[1].health.Load(), true, time.Now())
	for range 100 {
		if e := settle(t, c, Outcome{}); e != all[1] {
			t.Fatalf("got %s, which is down", e.Address())
		}
	}
}

// TestZ56_OneStateForAll checks that two configs with a cluster of the same name share what they learn.
func TestZ56_OneStateForAll(t *testing.T) {
	set := settings{static: static(1, 1), policy: health.Config{Outlier: health.Outlier{
		ConsecutiveFailures: 5, Time: time.Hour, MaxPercent: 50,
	}}, balancer: by(balance.First)}
	one := running(t, set)
	two := running(t, set)
	for range 5 {
		settle(t, one, Outcome{Kind: health.Connect})
	}
	if e := settle(t, two, Outcome{}); e != one.state.roster.Load().endpoints[1] {
		t.Errorf("got %s, which the other one has seen fail", e.Address())
	}
}

// TestZ58_RequestsAtOnce checks that of forty requests at a time ten are let in, never more, and that all pass later.
func TestZ58_RequestsAtOnce(t *testing.T) {
	c := running(t, settings{static: static(1, 1), policy: health.Config{Limits: health.Limits{Requests: 10}}})
	var admitted, refused atomic.Int64
	var all sync.WaitGroup
	requests := make([]Request, 40)
	for i := range requests {
		all.Go(func() {
			if c.Admit(&requests[i]) == nil {
				admitted.Add(1)
			} else {
				refused.Add(1)
			}
		})
	}
	all.Wait()
	if admitted.Load() != 10 || refused.Load() != 30 {
		t.Errorf("got %d admitted, %d refused, want 10 and 30", admitted.Load(), refused.Load())
	}
	for i := range requests {
		requests[i].Finish()
	}
	for range 40 {
		settle(t, c, Outcome{})
	}
	// A refusal is no failure of an endpoint.
	if got := reasons(c); slices.ContainsFunc(got, func(s string) bool { return s != "healthy" }) {
		t.Errorf("got %v", got)
	}
}

// TestZ61_ConnectionsAtOnce checks that an open connection stands in the way of a new one, and one out of the pool passes.
func TestZ61_ConnectionsAtOnce(t *testing.T) {
	c := running(t, settings{static: static(1), policy: health.Config{Limits: health.Limits{Connections: 3}}})
	e := c.state.roster.Load().endpoints[0]
	conns := make([]Conn, 4)
	for i := range conns[:3] {
		if err := c.Count(&conns[i], e); err != nil {
			t.Fatal(err)
		}
		conns[i].Connected()
	}
	if c.Count(&conns[3], e) == nil {
		t.Error("got a fourth connection")
	}
	conns[0].Idle()
	if err := c.Count(&conns[3], e); err != nil {
		t.Errorf("got %v beside an idle connection", err)
	}
	conns[0].Reused()
	for i := range conns {
		conns[i].Close()
	}
	if n := c.state.health.Stats().ConnectionsActive; n != 0 {
		t.Errorf("got %d connections at the end", n)
	}
}

// TestEjectedAgainAfterAsMany checks that an endpoint that is back takes as many failures to be ejected as the first time.
func TestEjectedAgainAfterAsMany(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := running(t, settings{static: static(1, 1), balancer: by(balance.First), policy: health.Config{
			Outlier: health.Outlier{ConsecutiveFailures: 3, Time: time.Minute, MaxPercent: 50},
		}})
		for round := range 5 {
			for n := range 3 {
				if got := reasons(c)[0]; got != "healthy" {
					t.Fatalf("round %d: got %s after %d failures", round, got, n)
				}
				settle(t, c, Outcome{Kind: health.Reset})
			}
			if got := reasons(c)[0]; got != "ejected" {
				t.Fatalf("round %d: got %s after 3 failures", round, got)
			}
			time.Sleep(time.Minute) // virtual time
		}
	})
}

// TestHashKeysComeBack checks that an endpoint that is back has its keys again, and that the others kept theirs.
func TestHashKeysComeBack(t *testing.T) {
	c := running(t, settings{static: static(1, 1, 1, 1, 1), balancer: by(balance.Maglev)})
	homes := func() (list []*Endpoint) {
		for i := range 500 {
			var l Lease
			r := admit(t, c)
			if err := r.Pick(&l, Key{hash: uint64(i) * 0x9e3779b97f4a7c15, set: true}); err != nil {
				t.Fatal(err)
			}
			list = append(list, l.Endpoint())
			l.Done(Outcome{})
			r.Finish()
		}
		return list
	}
	before, out := homes(), c.state.roster.Load().endpoints[2]
	orderAt(t, out, Change{State: "drain"})
	for i, e := range homes() {
		if e == out || before[i] != out && e != before[i] {
			t.Fatalf("key %d: got %s, before %s", i, e.Address(), before[i].Address())
		}
	}
	restore(t, out)
	if !slices.Equal(homes(), before) {
		t.Error("keys have other homes after the endpoint is back")
	}
}
