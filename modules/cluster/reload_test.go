package cluster

import (
	"context"
	"errors"
	"reflect"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/caddy-sluice/sluice/internal/balance"
	"github.com/caddy-sluice/sluice/internal/health"
	"github.com/caddy-sluice/sluice/modules/discovery"
	"github.com/caddy-sluice/sluice/modules/healthchecks"
)

// ejecting is a policy that ejects an endpoint at its first failure, for an hour.
var ejecting = health.Config{Outlier: health.Outlier{ConsecutiveFailures: 1, Time: time.Hour, MaxPercent: 50}}

// TestZ97_RefusedConfigLeavesNoTrace checks that a config whose cluster can't start changes nothing: not the endpoints,
// not what is known about them, not what was found.
func TestZ97_RefusedConfigLeavesNoTrace(t *testing.T) {
	before := running(t, settings{static: static(1, 1), policy: ejecting, sources: []discovery.Source{source("x")}})
	before.take(source("x"), []discovery.Endpoint{{Host: "192.0.2.77", Port: 80, Weight: 1}}, nil)
	settle(t, before, Outcome{Kind: health.Connect})
	roster, shown := before.state.roster.Load(), before.state.status()
	after := handle(t, settings{static: static(1, 1, 1, 1), balancer: refusing{}})
	if err := StartAll([]*Cluster{after}); !errors.Is(err, errRefused) {
		t.Fatalf("got %v, want %v", err, errRefused)
	}
	if got := before.state.status(); !reflect.DeepEqual(got, shown) || before.state.roster.Load() != roster || before.state.ruler() != before {
		t.Errorf("got %+v, want %+v", got, shown)
	}
	if n, _ := states.References(t.Name()); n != 2 {
		t.Errorf("got %d holds, want 2", n)
	}
	if _, known := before.state.found["x"]; !known || len(before.state.endpoints) != 3 {
		t.Errorf("got %v and %d endpoints", before.state.found, len(before.state.endpoints))
	}
}

// TestZ97_StartThatFailsLater checks that the config before goes on where it was if another part of the new one fails: its
// endpoints, the found ones included, its ejections, its checks.
func TestZ97_StartThatFailsLater(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		asked := new(counting)
		set := settings{
			static: static(1, 1), policy: ejecting, sources: []discovery.Source{source("x")}, checker: asked, interval: time.Second,
			timeout: time.Second,
		}
		set.policy.Active = health.Thresholds{Rise: 1, Fall: 1}
		before := handle(t, set)
		if err := StartAll([]*Cluster{before}); err != nil {
			t.Fatal(err)
		}
		before.take(source("x"), []discovery.Endpoint{{Host: "192.0.2.77", Port: 80, Weight: 1}}, nil)
		out := settle(t, before, Outcome{Kind: health.Connect})
		after := handle(t, settings{static: static(1), policy: ejecting})
		if err := StartAll([]*Cluster{after}); err != nil {
			t.Fatal(err)
		}
		StopAll([]*Cluster{after})
		if n := len(before.state.roster.Load().endpoints); n != 3 || before.state.ruler() != before {
			t.Errorf("got %d endpoints, want 3", n)
		}
		if got := before.state.health.Stats().EjectedNow; got != 1 {
			t.Errorf("got %d ejected, want %s", got, out.Address())
		}
		n := asked.n.Load()
		time.Sleep(5 * time.Second) // virtual time
		if got := asked.n.Load() - n; got < 12 {
			t.Errorf("got %d checks in five rounds of three", got)
		}
		StopAll([]*Cluster{before})
	})
}

// counting is a checker that passes, and counts.
type counting struct {
	answering
	n atomic.Int64
}

func (c *counting) Check(ctx context.Context, target *healthchecks.Target) error {
	c.n.Add(1)
	return c.answering.Check(ctx, target)
}

// TestZ96_ReloadsUnderLoad checks that fifty reloads lose nothing while requests go on: no count, no ejection, no goroutine.
func TestZ96_ReloadsUnderLoad(t *testing.T) {
	goroutines := runtime.NumGoroutine()
	set := settings{static: static(1, 1, 1), policy: ejecting, checker: new(answering), interval: time.Hour, timeout: time.Second}
	set.policy.Active = health.Thresholds{Rise: 1, Fall: 1}
	current := new(atomic.Pointer[Cluster])
	first := handle(t, set)
	if err := StartAll([]*Cluster{first}); err != nil {
		t.Fatal(err)
	}
	out := settle(t, first, Outcome{Kind: health.Reset})
	current.Store(first)
	var users sync.WaitGroup
	done, made := make(chan struct{}), new(atomic.Uint64)
	for range 4 {
		users.Go(func() { use(t, current, out, done, made) })
	}
	last := uint64(0)
	for range 50 {
		for floor := made.Load() + 20; made.Load() < floor; {
			runtime.Gosched()
		}
		next := handle(t, set)
		if err := StartAll([]*Cluster{next}); err != nil {
			t.Fatal(err)
		}
		StopAll([]*Cluster{current.Swap(next)})
		if n := outcomesOf(first.state); n < last {
			t.Errorf("got %d outcomes after %d", n, last)
		} else {
			last = n
		}
	}
	close(done)
	users.Wait()
	StopAll([]*Cluster{current.Load()})
	stats := first.state.health.Stats()
	if stats.EjectedNow != 1 || stats.RequestsActive != 0 || outcomesOf(first.state) != made.Load()+1 || stats.Attempts != made.Load()+1 {
		t.Errorf("got %+v after %d requests", stats, made.Load())
	}
	for deadline := time.Now().Add(5 * time.Second); runtime.NumGoroutine() > goroutines && time.Now().Before(deadline); {
		time.Sleep(time.Millisecond)
	}
	if n := runtime.NumGoroutine(); n > goroutines {
		t.Errorf("got %d goroutines, want %d", n, goroutines)
	}
}

// use makes requests at the current cluster, which must never get to the endpoint that is out.
func use(t *testing.T, current *atomic.Pointer[Cluster], out *Endpoint, done chan struct{}, made *atomic.Uint64) {
	for {
		select {
		case <-done:
			return
		default:
		}
		var r Request
		var l Lease
		c := current.Load()
		if err := errors.Join(c.Admit(&r), r.Pick(&l, Key{})); err != nil {
			t.Error(err)
			return
		}
		if l.Endpoint() == out {
			t.Errorf("got %s, which is ejected", out.Address())
		}
		l.Done(Outcome{})
		r.Finish()
		made.Add(1)
	}
}

// outcomesOf counts what was settled in a cluster.
func outcomesOf(s *state) (n uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, e := range s.endpoints {
		for kind := range e.outcomes {
			n += e.outcomes[kind].Load()
		}
	}
	return n
}

// TestZ98_HoldsAndState checks that the state lives as long as a config holds it, and not longer.
func TestZ98_HoldsAndState(t *testing.T) {
	first, err := takeState(t.Name())
	if err != nil {
		t.Fatal(err)
	}
	second, err := takeState(t.Name())
	if err != nil || first != second {
		t.Errorf("got %p and %p, %v, want one state for both", first, second, err)
	}
	for range 2 {
		if err := releaseState(t.Name()); err != nil {
			t.Error(err)
		}
	}
	third, err := takeState(t.Name())
	if err != nil || third == first {
		t.Errorf("got the old state, %v, want another one", err)
	}
	if err := releaseState(t.Name()); err != nil {
		t.Error(err)
	}
}

// TestReloadWithoutChecks checks that a config without checks, or without passive health, has no unhealthy endpoints left
// over from the one before; and that one with the same checks has.
func TestReloadWithoutChecks(t *testing.T) {
	down := Outcome{Kind: health.Connect}
	passive := health.Config{Passive: health.Passive{Thresholds: health.Thresholds{Rise: 1, Fall: 1}, RetryAfter: time.Hour}}
	active := health.Config{Active: health.Thresholds{Rise: 1, Fall: 1}}
	for _, row := range []struct {
		name          string
		before, after health.Config
		want          string
	}{
		{"passive stays", passive, passive, "unhealthy_passive"},
		{"passive goes", passive, health.Config{}, "healthy"},
		{"active stays", active, active, "unhealthy_active"},
		{"active goes", active, health.Config{}, "healthy"},
		{"outlier stays", ejecting, ejecting, "ejected"},
		{"outlier goes", ejecting, health.Config{}, "healthy"},
	} {
		t.Run(row.name, func(t *testing.T) {
			before := running(t, settings{static: static(1, 1), policy: row.before, balancer: by(balance.First)})
			e := settle(t, before, down)
			if row.before.Active.Fall > 0 {
				before.state.health.Check(e.health.Load(), false, time.Now())
			}
			running(t, settings{static: static(1, 1), policy: row.after})
			before.stop()
			if got := reasons(before); got[0] != row.want {
				t.Errorf("got %v, want %v", got[0], row.want)
			}
		})
	}
}

// TestReloadRaisesLimit checks that an endpoint that is full takes more at once when its limit has gone up, though
// nothing there has ended.
func TestReloadRaisesLimit(t *testing.T) {
	set := settings{static: static(1)}
	set.static[0].limits.Requests = 1
	before := running(t, set)
	_, held := lease(t, before)
	var refused *Refused
	if err := admit(t, before).Pick(new(Lease), Key{}); !errors.As(err, &refused) || refused.Why != health.EndpointRequests {
		t.Fatalf("got %v, want a refusal by the limit", err)
	}
	// The second refusal is by the bar, and not another one.
	if err := admit(t, before).Pick(new(Lease), Key{}); !errors.As(err, &refused) || refused.Why != health.EndpointRequests {
		t.Fatalf("got %v, want a refusal by the limit", err)
	}
	set.static = static(1)
	set.static[0].limits.Requests = 2
	after := running(t, set)
	before.stop()
	if err := admit(t, after).Pick(new(Lease), Key{}); err != nil {
		t.Errorf("got %v after the limit went up", err)
	}
	held.Done(Outcome{})
}
