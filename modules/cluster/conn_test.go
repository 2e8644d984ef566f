package cluster

import (
	"testing"

	"github.com/caddy-sluice/sluice/internal/balance"
	"github.com/caddy-sluice/sluice/internal/health"
)

// crowd is a cluster of two endpoints, the first of which may have one connection, or one that is being made.
func crowd(t *testing.T, limits health.Limits) *Cluster {
	t.Helper()
	set := settings{static: static(1, 1), balancer: by(balance.First)}
	set.static[0].limits = limits
	return running(t, set)
}

// dials has a request with an endpoint want a connection to it.
func dials(t *testing.T, c *Cluster, k *Conn) (*Request, *Lease, error) {
	t.Helper()
	r, l := lease(t, c)
	return r, l, c.Count(k, l.Endpoint())
}

// wantFirst checks whether the first endpoint is the one that is picked.
func wantFirst(t *testing.T, c *Cluster, want bool) {
	t.Helper()
	if got := settle(t, c, Outcome{}) == c.state.roster.Load().endpoints[0]; got != want {
		t.Errorf("got the first endpoint: %v, want %v", got, want)
	}
}

// TestCrowded checks that an endpoint without room for a connection isn't picked until there may be some.
func TestCrowded(t *testing.T) {
	for _, tc := range []struct {
		name   string
		limits health.Limits
		// before is done to the connection that is in the way, room makes some.
		before, room func(*Conn)
	}{
		{"idle", health.Limits{Connections: 1}, (*Conn).Connected, (*Conn).Idle},
		{"closed", health.Limits{Connections: 1}, (*Conn).Connected, (*Conn).Close},
		{"not_made", health.Limits{Connections: 1}, func(*Conn) {}, (*Conn).Close},
		{"connected", health.Limits{Pending: 1}, func(*Conn) {}, (*Conn).Connected},
	} {
		t.Run(tc.name, func(t *testing.T) {
			c := crowd(t, tc.limits)
			var held, other Conn
			holder, hold, err := dials(t, c, &held)
			if err != nil {
				t.Fatal(err)
			}
			tc.before(&held)
			r, l, err := dials(t, c, &other)
			if err == nil {
				t.Fatal("got a connection above the limit")
			}
			first := l.Endpoint()
			l.Crowded()
			if !r.Tried(first) {
				t.Error("got an endpoint that the request would try again")
			}
			wantFirst(t, c, false)
			tc.room(&held)
			wantFirst(t, c, true)
			held.Close()
			hold.Done(Outcome{})
			holder.Finish()
			r.Finish()
			if s := c.state.health.Stats(); s.ConnectionsActive != 0 || s.RequestsActive != 0 {
				t.Errorf("got %+v, want nothing under way", s)
			}
		})
	}
	t.Run("room_before_it_is_told", func(t *testing.T) {
		c := crowd(t, health.Limits{Connections: 1})
		var held, other Conn
		if _, _, err := dials(t, c, &held); err != nil {
			t.Fatal(err)
		}
		_, l, err := dials(t, c, &other)
		if err == nil {
			t.Fatal("got a connection above the limit")
		}
		held.Close()
		l.Crowded()
		wantFirst(t, c, true)
	})
	t.Run("never_counted", func(t *testing.T) {
		var k Conn
		k.Close()
		k.Idle()
	})
}

// TestLeaseReject checks that a lease whose answer stands goes on, and that one whose answer is tried again is over.
func TestLeaseReject(t *testing.T) {
	set := settings{static: static(1, 1)}
	set.policy.Retry = health.DefaultRetry()
	set.policy.Retry.Max = 1
	set.policy.Retry.Statuses.Add(503, 503)
	c := running(t, set)
	r, l := lease(t, c)
	f := Failure{Outcome: health.Answered(503), Repeatable: true, Eligible: true}
	first := l.Endpoint()
	if d := l.Reject(f); d.Action != health.Again || !r.Tried(first) || first.live.Load() != 0 || l.Done(Outcome{}) {
		t.Errorf("got %+v, and %d picks of the first endpoint, want a retry and 0", d, first.live.Load())
	}
	if err := r.Pick(l, Key{}); err != nil {
		t.Fatal(err)
	}
	second := l.Endpoint()
	if d := l.Reject(f); d.Why != health.Exhausted || second.live.Load() != 1 || second.outcomes[health.Answer].Load() != 0 {
		t.Errorf("got %+v, and %d picks of the second endpoint, want %v and 1", d, second.live.Load(), health.Exhausted)
	}
	if !l.Done(f.Outcome) || second.live.Load() != 0 || second.outcomes[health.Answer].Load() != 1 {
		t.Errorf("got %d picks, want 0", second.live.Load())
	}
	r.Finish()
	if s := c.state.health.Stats(); s.RetriesActive != 0 || s.RequestsActive != 0 {
		t.Errorf("got %+v, want nothing under way", s)
	}
}
