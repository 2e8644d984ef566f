package cluster

import (
	"testing"

	"github.com/caddy-sluice/sluice/internal/balance"
	"github.com/caddy-sluice/sluice/internal/health"
)

// retryingOn is a policy that tries some failures again.
func retryingOn(kinds ...health.Kind) health.Config {
	return health.Config{Retry: health.Retry{Max: 2, On: health.KindSet(kinds...), Budget: health.Budget{Percent: 20, Min: 3}}}
}

// stale is the failure of a pooled connection.
var stale = Failure{Outcome: Outcome{Kind: health.Reset}, Repeatable: true, Eligible: true, Reused: true}

// TestRepickRefused checks that a request whose replay finds no room, or an endpoint that is out, goes to another one: as a
// retry if the policy covers it, else free of charge.
func TestRepickRefused(t *testing.T) {
	full := func(t *testing.T, c *Cluster) {
		if _, other := lease(t, c); other.Endpoint().Address() != "192.0.2.1:1000" {
			t.Fatalf("got %s, want the one that has room by now", other.Endpoint().Address())
		}
	}
	out := func(t *testing.T, c *Cluster) {
		if err := Override(c.name, "192.0.2.1:1000", Change{State: "drain"}); err != nil {
			t.Fatal(err)
		}
	}
	for _, tc := range []struct {
		name      string
		on        health.Kind
		before    bool
		between   func(*testing.T, *Cluster)
		action    health.Action
		retries   int
		endpoints uint32
		why       health.Why
	}{
		{"full_retried", health.Reset, false, full, health.Again, 1, 2, health.NoReason},
		{"full_moved", health.Connect, false, full, health.Move, 0, 2, health.NoReason},
		{"out_retried", health.Reset, false, out, health.Again, 1, 2, health.NoReason},
		{"out_moved", health.Connect, false, out, health.Move, 0, 2, health.NoReason},
		{"out_before_retried", health.Reset, true, out, health.Again, 1, 2, health.NoReason},
		{"out_before_moved", health.Connect, true, out, health.Move, 0, 2, health.NoReason},
		{"out_and_no_other", health.Connect, false, out, health.Stop, 0, 1, health.NoOther},
		{"in", health.Connect, false, func(*testing.T, *Cluster) {}, health.Replay, 0, 2, health.NoReason},
	} {
		t.Run(tc.name, func(t *testing.T) {
			weights := []uint32{1, 1}[:tc.endpoints]
			set := settings{static: static(weights...), balancer: by(balance.First), policy: retryingOn(tc.on)}
			set.static[0].limits = health.Limits{Requests: 1}
			c := running(t, set)
			r, l := lease(t, c)
			if tc.before {
				tc.between(t, c)
			}
			d := l.Fail(stale)
			if !tc.before {
				if d.Action != health.Replay {
					t.Fatalf("got %+v, want a replay", d)
				}
				tc.between(t, c)
				d = r.Repick(l, stale)
			}
			if d.Action != tc.action || d.Why != tc.why || r.Retries() != tc.retries {
				t.Errorf("got %+v and %d retries, want %v, %v and %d", d, r.Retries(), tc.action, tc.why, tc.retries)
			}
			if d.Action == health.Again || d.Action == health.Move {
				if err := r.Pick(l, Key{}); err != nil || l.Endpoint().Address() != "192.0.2.1:1001" {
					t.Errorf("got %v, %v, want the other endpoint", l.Endpoint().Address(), err)
				}
			}
			l.Done(Outcome{})
			if got := c.state.health.Stats().RetriesActive; got != 0 {
				t.Errorf("got %d retries at the end, want 0", got)
			}
		})
	}
}

// TestCrowdedCharge checks that a retry which moves on from an endpoint without room is one still: the budget holds.
func TestCrowdedCharge(t *testing.T) {
	set := settings{static: static(1, 1, 1), balancer: by(balance.First), policy: retryingOn(health.Connect)}
	set.policy.Retry.Budget = health.Budget{Percent: 20, Min: 1}
	c := running(t, set)
	for i, want := range []health.Action{health.Again, health.Stop} {
		r, l := lease(t, c)
		d := l.Fail(Failure{Outcome: Outcome{Kind: health.Connect}, Repeatable: true, Eligible: true})
		if d.Action != want {
			t.Fatalf("request %d: got %+v, want %v", i, d, want)
		}
		if d.Action != health.Again {
			continue
		}
		if err := r.Pick(l, Key{}); err != nil {
			t.Fatal(err)
		}
		l.Crowded()
		l.Crowded()
		if err := r.Pick(l, Key{}); err != nil || l.Endpoint().Address() != "192.0.2.1:1002" {
			t.Fatalf("got %v, %v, want the third endpoint", l.Endpoint().Address(), err)
		}
		if got := c.state.health.Stats().RetriesActive; got != 1 {
			t.Errorf("got %d retries, want 1", got)
		}
		defer func() {
			l.Done(Outcome{})
			if got := c.state.health.Stats().RetriesActive; got != 0 {
				t.Errorf("got %d retries at the end, want 0", got)
			}
		}()
	}
}
