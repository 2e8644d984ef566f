package cluster

import (
	"errors"
	"testing"

	"github.com/caddy-sluice/sluice/internal/balance"
	"github.com/caddy-sluice/sluice/internal/health"
)

// lost is a failure that may be tried again.
var lost = Failure{Outcome: Outcome{Kind: health.Connect}, Repeatable: true, Eligible: true}

// reserved returns a cluster of two endpoints and two backups.
func reserved(t *testing.T, change func(*settings)) (*Cluster, []*Endpoint) {
	t.Helper()
	set := settings{static: static(1, 1, 1, 1), balancer: by(balance.RoundRobin), policy: health.Config{Retry: health.DefaultRetry()}}
	set.policy.Retry.Max, set.policy.Retry.Budget.Min = 5, 100
	set.static[2].backup, set.static[3].backup = true, true
	if change != nil {
		change(&set)
	}
	c := running(t, set)
	return c, c.state.roster.Load().endpoints
}

// next fails the lease, and returns the endpoint of the next attempt.
func next(t *testing.T, r *Request, l *Lease) *Endpoint {
	t.Helper()
	if d := l.Fail(lost); d.Action != health.Again {
		t.Fatalf("got %+v, want another attempt", d)
	}
	if err := r.Pick(l, Key{}); err != nil {
		t.Fatal(err)
	}
	return l.Endpoint()
}

// TestReserve checks that a request that has failed at all endpoints which serve goes on to the backups, each once, and that
// others don't.
func TestReserve(t *testing.T) {
	c, all := reserved(t, nil)
	for range 20 {
		r, l := lease(t, c)
		place := func(e *Endpoint) int {
			for i := range all {
				if all[i] == e {
					return i
				}
			}
			return -1
		}
		sum := place(l.Endpoint())
		for i, backup := range []bool{false, true, true, false} {
			if left := r.Left(); left != 4-i {
				t.Errorf("attempt %d: got %d left, want %d", i+1, left, 4-i)
			}
			at := place(next(t, r, l))
			if sum += at; at > 1 != backup {
				t.Fatalf("attempt %d: got endpoint %d, want a backup: %v", i+2, at, backup)
			}
			if i == 2 && sum != 6 {
				t.Error("an endpoint was tried twice before another one")
			}
		}
		l.Done(Outcome{})
		r.Finish()
		if e := settle(t, c, Outcome{}); place(e) > 1 {
			t.Fatal("a backup was picked by a request that has tried nothing")
		}
	}
}

// TestReserveOut checks that a backup that is taken out by hand isn't used, and that there is a way back to those that were
// tried.
func TestReserveOut(t *testing.T) {
	c, all := reserved(t, nil)
	orderAt(t, all[2], Change{State: "drain"})
	orderAt(t, all[3], Change{State: "disabled"})
	r, l := lease(t, c)
	for range 3 {
		if e := next(t, r, l); e == all[2] || e == all[3] {
			t.Fatalf("got %s, which is taken out by hand", e.Address())
		}
	}
	l.Done(Outcome{})
	r.Finish()
}

// TestReserveIsNoRoom checks that limits don't send anybody to the backups: neither those of requests, nor of connections,
// nor of retries.
func TestReserveIsNoRoom(t *testing.T) {
	t.Run("requests", func(t *testing.T) {
		c, all := reserved(t, func(set *settings) { set.static[0].limits.Requests, set.static[1].limits.Requests = 1, 2 })
		_, one := lease(t, c)
		_, two := lease(t, c)
		r, l := lease(t, c)
		var refused *Refused
		if err := admit(t, c).Pick(new(Lease), Key{}); !errors.As(err, &refused) || refused.Why != health.EndpointRequests {
			t.Errorf("got %v, want a refusal by a limit", err)
		}
		if e := next(t, r, l); e != all[1] {
			t.Errorf("got %s, want the endpoint that has failed: the other one is full, and wasn't tried", e.Address())
		}
		for _, l := range []*Lease{one, two, l} {
			l.Done(Outcome{})
		}
	})
	t.Run("connections", func(t *testing.T) {
		c, all := reserved(t, func(set *settings) { set.static[0].limits.Connections, set.static[1].limits.Connections = 1, 1 })
		var conns [2]Conn
		for i := range conns {
			if err := c.Count(&conns[i], all[i]); err != nil {
				t.Fatal(err)
			}
		}
		r, l := lease(t, c)
		l.Crowded()
		if err := r.Pick(l, Key{}); err != nil {
			t.Fatal(err)
		}
		conns[0].Close() // there is room where the request was before
		l.Crowded()
		if err := r.Pick(l, Key{}); err != nil || l.Endpoint() != all[0] {
			t.Errorf("got %v, want the first endpoint again", err)
		}
		l.Done(Outcome{})
		conns[1].Close()
	})
	t.Run("retries", func(t *testing.T) {
		c, all := reserved(t, func(set *settings) { set.static[1].limits.Retries = 1 })
		var held []*Lease
		for range 2 {
			r, l := lease(t, c)
			for l.Endpoint() != all[0] {
				l.Done(Outcome{})
				r, l = lease(t, c)
			}
			if e := next(t, r, l); e == all[2] || e == all[3] {
				t.Errorf("got %s, want none of the backups: an endpoint wasn't tried", e.Address())
			}
			held = append(held, l)
		}
		for _, l := range held {
			l.Done(Outcome{})
		}
	})
}

// TestReservePriorities checks that backups come last, after what was found with higher priorities.
func TestReservePriorities(t *testing.T) {
	from := &scripted{found: foundAt(1, 2, 3)}
	for i := range from.found {
		from.found[i].Priority = uint16(10 * (3 - i))
	}
	c, all := reserved(t, func(set *settings) {
		set.sources, set.static = finding(from).sources, set.static[2:3]
	})
	if len(all) != 1 {
		t.Fatalf("got %d endpoints before any was found", len(all))
	}
	if err := c.take(from, from.found, nil); err != nil {
		t.Fatal(err)
	}
	r, l := lease(t, c)
	got := []string{l.Endpoint().Host()}
	for range 4 {
		got = append(got, next(t, r, l).Host())
	}
	for i, want := range []string{"198.51.100.3", "198.51.100.2", "198.51.100.1", all[0].Host(), "198.51.100.3"} {
		if got[i] != want {
			t.Fatalf("got %v, want the priorities in order, the backup, and the first one again", got)
		}
	}
	l.Done(Outcome{})
	r.Finish()
}
