package cluster

import (
	"errors"
	"testing"

	"github.com/caddy-sluice/sluice/internal/balance"
	"github.com/caddy-sluice/sluice/internal/health"
)

// TestReserveAfterFailure checks that a request that has failed at one endpoint, and found no room at another one, isn't
// sent to the reserve until it has failed at that one as well.
func TestReserveAfterFailure(t *testing.T) {
	c, all := reserved(t, func(set *settings) { set.static[0].limits.Connections, set.static[1].limits.Connections = 1, 1 })
	r, l := lease(t, c)
	failed := l.Endpoint()
	full := next(t, r, l)
	var conn Conn
	if err := c.Count(&conn, full); err != nil {
		t.Fatal(err)
	}
	l.Crowded()
	if err := r.Pick(l, Key{}); err != nil || l.Endpoint() != failed {
		t.Fatalf("got %v and %v, want the endpoint that has failed: the other one has only no room", l.Endpoint().Address(), err)
	}
	conn.Close()
	for range 9 {
		if e := next(t, r, l); e == full {
			break
		} else if e != failed {
			t.Fatalf("got %s, want none of the backups", e.Address())
		}
	}
	if e := next(t, r, l); e != all[2] && e != all[3] {
		t.Errorf("got %s, want a backup: all others have failed", e.Address())
	}
	l.Done(Outcome{})
}

// TestPickOther checks that it comes back to no endpoint, goes on to the backups all the same, and says why there is none.
func TestPickOther(t *testing.T) {
	refused := func(t *testing.T, r *Request, l *Lease, want health.Refusal) {
		t.Helper()
		var refused *Refused
		if err := r.PickOther(l, Key{}); !errors.As(err, &refused) || refused.Why != want {
			t.Errorf("got %v, want %v", err, want)
		}
	}
	t.Run("all_tried", func(t *testing.T) {
		c, _ := reserved(t, nil)
		r, l := admit(t, c), new(Lease)
		seen := make(map[*Endpoint]bool)
		for range 4 {
			if err := r.PickOther(l, Key{}); err != nil {
				t.Fatal(err)
			}
			seen[l.Endpoint()] = true
			l.Fail(lost)
		}
		if len(seen) != 4 {
			t.Errorf("got %d endpoints, want each once", len(seen))
		}
		refused(t, r, l, health.NoEndpoint)
		r.Finish()
	})
	t.Run("no_room", func(t *testing.T) {
		c, all := reserved(t, func(set *settings) { set.static[0].limits.Requests, set.static[1].limits.Connections = 1, 1 })
		_, other := lease(t, c)
		if other.Endpoint() != all[0] {
			t.Fatalf("got %s, want the first endpoint", other.Endpoint().Address())
		}
		r, l := lease(t, c)
		l.Crowded()
		refused(t, r, l, health.EndpointRequests)
		other.Done(Outcome{})
		if err := r.PickOther(l, Key{}); err != nil || l.Endpoint() != all[0] {
			t.Fatalf("got %v, want the endpoint that has room by now", err)
		}
		l.Fail(lost)
		refused(t, r, l, health.EndpointRequests)
		r.Finish()
	})
}

// TestReserveAfterFullIsOut checks that an endpoint without room doesn't keep a request from the reserve once it is out.
func TestReserveAfterFullIsOut(t *testing.T) {
	c, all := reserved(t, nil)
	r, l := lease(t, c)
	full := next(t, r, l)
	l.Crowded()
	orderAt(t, full, Change{State: "drain"})
	if err := r.Pick(l, Key{}); err != nil || l.Endpoint() != all[2] && l.Endpoint() != all[3] {
		t.Errorf("got %v and %v, want a backup", l.Endpoint().Address(), err)
	}
	l.Done(Outcome{})
}

// TestStaleIsNoFailure checks that a stale connection sends nobody to the reserve: neither if there is no room for another
// one, nor if the replay is to be made at another endpoint.
func TestStaleIsNoFailure(t *testing.T) {
	backed := func(t *testing.T, limits health.Limits, on health.Kind) *Cluster {
		set := settings{static: static(1, 1), balancer: by(balance.First), policy: retryingOn(on)}
		set.static[0].limits, set.static[1].backup = limits, true
		return running(t, set)
	}
	refused := func(t *testing.T, r *Request, l *Lease, want health.Refusal) {
		t.Helper()
		var refused *Refused
		if err := r.Pick(l, Key{}); !errors.As(err, &refused) || refused.Why != want {
			t.Errorf("got %v and %v, want %v", l.Endpoint().Address(), err, want)
		}
	}
	t.Run("no connection", func(t *testing.T) {
		c := backed(t, health.Limits{Connections: 1}, health.Connect)
		r, l := lease(t, c)
		if d := l.Fail(stale); d.Action != health.Replay {
			t.Fatalf("got %+v, want a replay", d)
		}
		if d := r.Repick(l, stale); d.Action != health.Replay {
			t.Fatalf("got %+v, want a replay", d)
		}
		var conn Conn
		if err := c.Count(&conn, l.Endpoint()); err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		l.Crowded()
		refused(t, r, l, health.EndpointRequests)
	})
	for _, on := range []health.Kind{health.Connect, health.Reset} {
		t.Run("no room, "+on.String(), func(t *testing.T) {
			c := backed(t, health.Limits{Requests: 1}, on)
			r, l := lease(t, c)
			l.Fail(stale)
			_, other := lease(t, c)
			defer other.Done(Outcome{})
			if d := r.Repick(l, stale); d.Action != health.Move && d.Action != health.Again {
				t.Fatalf("got %+v, want another attempt", d)
			}
			refused(t, r, l, health.EndpointRequests)
		})
	}
}
