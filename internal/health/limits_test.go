package health

import (
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

func TestRequestLimit(t *testing.T) {
	t.Run("Z58_ten_of_forty_at_once", func(t *testing.T) {
		r := newRig(t, &Config{Limits: Limits{Requests: 10}}, 1)
		requests := make([]Request, 40)
		var granted atomic.Int64
		var done sync.WaitGroup
		for i := range requests {
			done.Go(func() {
				if r.c.Admit(&requests[i], r.now) == Granted {
					granted.Add(1)
				}
				if got := r.c.Stats().RequestsActive; got > 10 {
					t.Errorf("got %d at once", got)
				}
			})
		}
		done.Wait()
		if s := r.c.Stats(); granted.Load() != 10 || s.RequestsActive != 10 || s.RequestsRefused != 30 {
			t.Errorf("got %d granted and %+v, want 10, and 30 refused", granted.Load(), s)
		}
		for i := range requests {
			if requests[i].c != nil {
				requests[i].Finish()
			}
		}
		for range 10 {
			r.admit()
		}
	})
	t.Run("Z59_a_refusal_touches_nothing", func(t *testing.T) {
		cfg := &Config{Limits: Limits{Requests: 1, Connections: 1}, Outlier: outlier(1), Retry: DefaultRetry()}
		r := newRig(t, cfg, 2)
		req := r.admit()
		a := r.try(req, 0)
		if why := r.c.Dial(new(Conn), r.endpoint(1)); why != Granted {
			t.Fatalf("got %v", why)
		}
		before := r.c.Stats()
		if why := r.c.Admit(new(Request), r.now); why != ClusterRequests || why.OfEndpoint() {
			t.Errorf("got %v, want %v", why, ClusterRequests)
		}
		if why := r.c.Dial(new(Conn), a.Endpoint()); why != ClusterConnections {
			t.Errorf("got %v, want %v", why, ClusterConnections)
		}
		a.Done(Outcome{Kind: Aborted}, r.now)
		before.RequestsRefused, before.DialsRefused = 1, 1
		if got := r.c.Stats(); got != before {
			t.Errorf("got %+v, want %+v", got, before)
		}
		r.wantOffers(0, 1)
		if got := r.endpoint(0).Connections(); got != 0 {
			t.Errorf("got %d connections to the endpoint, want 0", got)
		}
	})
	t.Run("Z62_without_limits_nothing_is_refused", func(t *testing.T) {
		r := newRig(t, &Config{}, 1)
		for range 5000 {
			req := r.admit()
			r.try(req, 0)
			if why := r.c.Dial(new(Conn), r.endpoint(0)); why != Granted {
				t.Fatalf("got %v", why)
			}
		}
	})
	t.Run("own_limits_of_an_endpoint", func(t *testing.T) {
		r := newRig(t, &Config{Limits: Limits{Requests: 3}}, 0)
		r.members(Member{Key: "a", Limits: Limits{Requests: 1, Connections: 1}}, Member{Key: "b"})
		first, second := r.admit(), r.admit()
		a := r.try(first, 0)
		if why := second.Try(new(Attempt), r.c.View(r.now), 0, r.now); why != EndpointRequests || !why.OfEndpoint() || !r.endpoint(0).Full() {
			t.Errorf("got %v, want %v", why, EndpointRequests)
		}
		r.try(second, 1)
		a.Done(Outcome{}, r.now)
		if r.endpoint(0).Full() || r.endpoint(1).Full() {
			t.Error("got a full endpoint")
		}
		if r.c.Dial(new(Conn), r.endpoint(0)) != Granted || r.c.Dial(new(Conn), r.endpoint(0)) != EndpointConnections {
			t.Error("got no refusal of the second connection, or one of the first")
		}
	})
	t.Run("a_limit_that_was_lowered", func(t *testing.T) {
		r := newRig(t, &Config{}, 1)
		list := []*Request{r.admit(), r.admit(), r.admit()}
		r.c.Configure(&Config{Limits: Limits{Requests: 2}}, r.now)
		for _, req := range list[:2] {
			if why := r.c.Admit(new(Request), r.now); why != ClusterRequests {
				t.Errorf("got %v, want %v", why, ClusterRequests)
			}
			req.Finish()
		}
		r.admit()
	})
}

func TestConnectionLimits(t *testing.T) {
	t.Run("Z60_two_pending", func(t *testing.T) {
		r := newRig(t, &Config{Limits: Limits{Pending: 2}}, 2)
		var pooled, second, third Conn
		r.dial(&pooled, 0, Granted)
		pooled.Connected()
		pooled.Idle()
		r.dial(new(Conn), 0, Granted)
		r.dial(&second, 1, Granted)
		r.dial(&third, 0, ClusterPending)
		pooled.Reused()
		if s := r.c.Stats(); s.ConnectionsActive != 3 || s.PendingActive != 2 || s.DialsRefused != 1 {
			t.Errorf("got %+v, want 3 connections, 2 of them pending, and 1 refused", s)
		}
		second.Connected()
		r.dial(&third, 0, Granted)
	})
	t.Run("Z61_three_connections", func(t *testing.T) {
		r := newRig(t, &Config{Limits: Limits{Connections: 3}}, 1)
		list := make([]Conn, 4)
		for i := range 3 {
			r.dial(&list[i], 0, Granted)
			list[i].Connected()
		}
		r.dial(&list[3], 0, ClusterConnections)
		list[1].Close()
		r.dial(&list[3], 0, Granted)
		r.dial(new(Conn), 0, ClusterConnections)
		// An idle one isn't counted, and one that comes back isn't refused.
		list[0].Idle()
		r.dial(new(Conn), 0, Granted)
		list[0].Reused()
		if got := r.c.Stats().ConnectionsActive; got != 4 {
			t.Errorf("got %d connections, want 4", got)
		}
	})
	t.Run("each_is_counted_once", func(t *testing.T) {
		r := newRig(t, &Config{}, 1)
		var k Conn
		k.Connected() // not dialled yet
		r.dial(&k, 0, Granted)
		for range 2 {
			k.Idle() // it doesn't serve
			k.Reused()
		}
		k.Connected()
		k.Connected()
		k.Reused()
		if s := r.c.Stats(); s.ConnectionsActive != 1 || s.PendingActive != 0 {
			t.Errorf("got %+v, want 1 connection", s)
		}
		k.Idle()
		k.Idle()
		k.Close()
		k.Close()
		k.Reused()
		r.wantIdle()
	})
}

func (r *rig) dial(k *Conn, i int, want Refusal) {
	r.t.Helper()
	if got := r.c.Dial(k, r.endpoint(i)); got != want {
		r.t.Errorf("dial: got %v, want %v", got, want)
	}
}

// TestPairInACrowd: no more than the limit is ever held, and all of it is held when all are held.
func TestPairInACrowd(t *testing.T) {
	const limit, workers = 8, 32
	var p pair
	var granted atomic.Int64
	var tried, done sync.WaitGroup
	tried.Add(workers)
	for i := range workers {
		done.Go(func() {
			part := int64(i % 2)
			ok := p.tryAdd(part, limit, 3) == noHalf
			if ok {
				granted.Add(1)
			}
			tried.Done()
			tried.Wait()
			if ok {
				p.add(-1, -part)
			}
			for range 2000 {
				if p.tryAdd(1, limit, 3) != noHalf {
					continue
				}
				if whole, part := p.load(); whole > limit || part > 3 || part > whole {
					t.Errorf("got %d and %d held", whole, part)
				}
				p.add(-1, -1)
			}
		})
	}
	done.Wait()
	// The part is at its limit long before the whole, so some wholes with a part are refused.
	if got := granted.Load(); got != limit || p.word.Load() != 0 {
		t.Errorf("got %d granted and %d left, want %d, 0", got, p.word.Load(), limit)
	}
}

// TestTimeOfAnAttempt is the arithmetic of deadlines.
func TestTimeOfAnAttempt(t *testing.T) {
	sec := time.Second
	for _, tc := range []struct {
		name       string
		timeouts   Timeouts
		begin      time.Duration
		repeatable bool
		want       time.Duration
		by         Expiry
	}{
		{"none", Timeouts{}, sec, true, 0, Never},
		{"Z75_the_first_attempt", Timeouts{PerTry: 2 * sec}, 0, true, 2 * sec, ByTry},
		{"Z75_the_second_attempt_has_its_own_time", Timeouts{PerTry: 2 * sec}, 2 * sec, true, 4 * sec, ByTry},
		{"Z78_not_for_what_cannot_be_repeated", Timeouts{PerTry: 2 * sec}, 0, false, 0, Never},
		{"Z78_the_request_still_ends", Timeouts{PerTry: 2 * sec, Request: 3 * sec}, 0, false, 3 * sec, ByRequest},
		{"Z79_the_request_ends_first", Timeouts{PerTry: 2 * sec, Request: 3 * sec}, 2 * sec, true, 3 * sec, ByRequest},
		{"the_attempt_ends_first", Timeouts{PerTry: 2 * sec, Request: 9 * sec}, 2 * sec, true, 4 * sec, ByTry},
		{"both_at_once", Timeouts{PerTry: 2 * sec, Request: 2 * sec}, 0, true, 2 * sec, ByRequest},
	} {
		t.Run(tc.name, func(t *testing.T) {
			at, by := tc.timeouts.Attempt(t0, t0.Add(tc.begin), tc.repeatable)
			if by != tc.by || by != Never && at.Sub(t0) != tc.want {
				t.Errorf("got %v at %v, want %v at %v", by, at.Sub(t0), tc.by, tc.want)
			}
		})
	}
}

// TestTimeoutAddedMeanwhile: a request that began without a timeout, and without a time therefore, isn't over because a
// config that came meanwhile has one.
func TestTimeoutAddedMeanwhile(t *testing.T) {
	with := Timeouts{Request: time.Second}
	if at, by := with.Attempt(time.Time{}, t0, true); by != Never || !at.IsZero() {
		t.Errorf("got %v, %v, want no end", at, by)
	}
	if !with.Leaves(time.Time{}, t0) {
		t.Error("got no time left for a retry")
	}
}
