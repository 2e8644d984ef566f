package health

import "testing"

// TestReject checks that an answer which is tried again ends its attempt, and one that stands doesn't.
func TestReject(t *testing.T) {
	refused := Failure{Outcome: Answered(503), Repeatable: true, Eligible: true, Begun: true}
	policy := func(most int) *Config {
		cfg := &Config{Retry: retries(most), Outlier: outlier(1)}
		cfg.Retry.Statuses.Add(503, 503)
		cfg.Outlier.Statuses.Add(503, 503)
		cfg.Retry.Budget = Budget{1, 1}
		return cfg
	}
	t.Run("one_that_stands_goes_on", func(t *testing.T) {
		r := newRig(t, policy(0), 2)
		req := r.admit()
		a := r.try(req, 0)
		if d := a.Reject(refused, 1, r.now); d.Action != Stop || d.Why != Exhausted {
			t.Errorf("got %+v, want %v", d, Exhausted)
		}
		if got := r.endpoint(0).Load(); got != 1 || len(req.Tried()) != 0 {
			t.Errorf("got %d attempts and %d tried, want 1 and 0", got, len(req.Tried()))
		}
		r.wantOffers(0, 1)
		if !a.Done(refused.Outcome, r.now) || a.Reject(refused, 1, r.now).Why != Settled {
			t.Error("got an attempt that was settled before, or twice")
		}
		r.wantOffers(1)
		req.Finish()
		r.wantIdle()
	})
	t.Run("one_that_is_tried_again_is_over", func(t *testing.T) {
		r := newRig(t, policy(2), 3)
		req := r.admit()
		for i := range 2 {
			a := r.try(req, i)
			if d := a.Reject(refused, 1, r.now); d.Action != Again || a.Done(Outcome{}, r.now) {
				t.Fatalf("got %+v for attempt %d", d, i)
			}
			// The charge of the first retry is that of the second: the budget has room for one.
			if s := r.c.Stats(); s.RetriesActive != 1 || s.Retries != uint64(i+1) || req.Retries() != i+1 {
				t.Errorf("got %+v after attempt %d", s, i)
			}
		}
		last := r.try(req, 2)
		if d := last.Reject(refused, 1, r.now); d.Why != Exhausted || r.c.Stats().RetriesActive != 1 {
			t.Errorf("got %+v and %+v, want a retry that is still counted", d, r.c.Stats())
		}
		last.Done(refused.Outcome, r.now)
		req.Finish()
		r.wantIdle()
	})
	t.Run("no_room_in_the_budget", func(t *testing.T) {
		r := newRig(t, policy(1), 2)
		other, _ := r.retryOf()
		a := r.try(r.admit(), 1)
		if d := a.Reject(refused, 1, r.now); d.Why != OverBudget || r.endpoint(1).Load() != 1 {
			t.Errorf("got %+v, %d attempts, want %v and an open one", d, r.endpoint(1).Load(), OverBudget)
		}
		other.Finish()
		if d := a.Reject(refused, 1, r.now); d.Action != Again {
			t.Errorf("got %+v, want a retry", d)
		}
	})
	t.Run("a_smaller_budget_ends_the_charge_of_a_retry", func(t *testing.T) {
		r := newRig(t, policy(2), 2)
		req, _ := r.retryOf()
		a := r.try(req, 1)
		less := policy(2)
		less.Retry.Budget.Min = 0
		r.c.Configure(less, r.now)
		if d := a.Reject(refused, 1, r.now); d.Why != OverBudget || r.c.Stats().RetriesActive != 1 {
			t.Errorf("got %+v and %+v, want %v", d, r.c.Stats(), OverBudget)
		}
		a.Done(refused.Outcome, r.now)
		req.Finish()
		r.wantIdle()
	})
}

// TestCrowded checks whether an endpoint says what the next connection would be told.
func TestCrowded(t *testing.T) {
	for name, limits := range map[string]Limits{"none": {}, "connections": {Connections: 2}, "pending": {Pending: 1}} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, &Config{}, 1)
			r.members(Member{Key: "0", Limits: limits})
			conns := make([]Conn, 0, 3)
			for range cap(conns) {
				crowded := r.endpoint(0).Crowded()
				conns = append(conns, Conn{})
				if why := r.c.Dial(&conns[len(conns)-1], r.endpoint(0)); crowded != (why != Granted) {
					t.Errorf("got crowded %v, and then %v", crowded, why)
				}
			}
			for i := range conns {
				conns[i].Connected()
				conns[i].Idle()
			}
			if r.endpoint(0).Crowded() {
				t.Error("got an endpoint that is crowded by idle connections")
			}
		})
	}
}

// TestRejectOfTheLast checks that an answer stands if it takes out the last endpoint, whose health knows of it once.
func TestRejectOfTheLast(t *testing.T) {
	refused := Failure{Outcome: Answered(503), Repeatable: true, Eligible: true, Begun: true}
	for _, fall := range []int{1, 2} {
		cfg := &Config{Retry: retries(1), Refuse: true, Passive: Passive{Thresholds: Thresholds{1, fall}, RetryAfter: DefaultRetryAfter}}
		cfg.Retry.Statuses.Add(503, 503)
		cfg.Retry.Budget = Budget{1, 1}
		cfg.Passive.Statuses.Add(503, 503)
		r := newRig(t, cfg, 1)
		req := r.admit()
		a := r.try(req, 0)
		d := a.Reject(refused, 1, r.now)
		if fall > 1 {
			// It is one failure, whoever is told of it.
			if d.Action != Again || r.endpoint(0).Load() != 0 || r.c.Stats().RetriesActive != 1 {
				t.Errorf("got %+v, %d attempts, %+v, want a retry", d, r.endpoint(0).Load(), r.c.Stats())
			}
			r.wantOffers(0)
		} else {
			if d.Action != Stop || d.Why != NoOther || r.endpoint(0).Load() != 1 || r.c.Stats().Retries != 0 {
				t.Errorf("got %+v, %d attempts, %+v, want one that goes on", d, r.endpoint(0).Load(), r.c.Stats())
			}
			r.wantOffers()
			if !a.Done(refused.Outcome, r.now) {
				t.Error("got an attempt that was settled before")
			}
		}
		req.Finish()
		r.wantIdle()
	}
}
