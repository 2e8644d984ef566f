package health

import (
	"fmt"
	"slices"
	"testing"
	"time"
)

func TestPanic(t *testing.T) {
	active := Thresholds{1, 1}
	t.Run("Z52_all_down_then_one_up", func(t *testing.T) {
		r := newRig(t, &Config{Active: active}, 3)
		for i := range 3 {
			r.check(i, "F")
		}
		r.wantOffers(0, 1, 2)
		if v := r.c.View(r.now); v.Stance() != FailOpen || v.Available() != 0 {
			t.Errorf("got %v and %d available", v.Stance(), v.Available())
		}
		r.serve(1, 2, Outcome{})
		r.check(1, "P")
		r.wantOffers(1)
		r.serve(1, 1, Outcome{})
		if got := r.c.Stats().FailOpenPicks; got != 2 {
			t.Errorf("got %d picks in the panic, want 2", got)
		}
	})
	t.Run("Z53_threshold_of_50_percent", func(t *testing.T) {
		r := newRig(t, &Config{Active: active, PanicPercent: 50}, 3)
		r.check(0, "F")
		r.wantOffers(1, 2)
		r.check(1, "F")
		r.wantOffers(0, 1, 2)
		r.check(1, "P")
		r.wantOffers(1, 2)
	})
	t.Run("exactly_at_the_threshold_is_enough", func(t *testing.T) {
		r := newRig(t, &Config{Active: active, PanicPercent: 50}, 4)
		r.check(0, "F")
		r.check(1, "F")
		r.wantOffers(2, 3)
	})
	t.Run("refused_if_told_so", func(t *testing.T) {
		r := newRig(t, &Config{Active: active, Refuse: true}, 2)
		r.check(0, "F")
		r.wantOffers(1)
		r.check(1, "F")
		r.wantOffers()
		if got := r.c.View(r.now).Stance(); got != Refusing {
			t.Errorf("got %v, want %v", got, Refusing)
		}
		r.check(0, "P")
		r.wantOffers(0)
	})
	t.Run("ejected_ones_count_as_down", func(t *testing.T) {
		o := outlier(1)
		o.MaxPercent = 100
		r := newRig(t, &Config{Outlier: o}, 2)
		r.fail(0, 1)
		r.fail(1, 1)
		r.wantOffers(0, 1)
		r.at(30 * time.Second)
		if got := r.c.View(r.now).Stance(); got != Normal {
			t.Errorf("got %v, want %v", got, Normal)
		}
	})
	t.Run("one_endpoint_is_always_offered", func(t *testing.T) {
		r := newRig(t, &Config{Active: active}, 1)
		r.check(0, "F")
		r.wantOffers(0)
	})
	t.Run("drain_and_limits_hold_in_it", func(t *testing.T) {
		r := newRig(t, &Config{Active: active}, 0)
		r.members(Member{Key: "0", Limits: Limits{Requests: 1}}, Member{Key: "1"}, Member{Key: "2"})
		for i := range 3 {
			r.check(i, "F")
		}
		r.c.Override("1", Override{Mode: Drain}, r.now)
		r.c.Override("2", Override{Mode: Disabled}, r.now)
		r.wantOffers(0)
		r.try(r.admit(), 0)
		if why := r.admit().Try(new(Attempt), r.c.View(r.now), 0, r.now); why != EndpointRequests {
			t.Errorf("got %v, want %v", why, EndpointRequests)
		}
		r.c.Override("0", Override{Mode: Drain}, r.now)
		r.wantOffers()
		if got := r.c.View(r.now).Stance(); got != Empty {
			t.Errorf("got %v, want %v", got, Empty)
		}
	})
	t.Run("no_endpoints", func(t *testing.T) {
		r := newRig(t, &Config{}, 0)
		r.wantOffers()
		if got := r.c.View(r.now).Stance(); got != Empty {
			t.Errorf("got %v, want %v", got, Empty)
		}
	})
}

func TestTiers(t *testing.T) {
	r := newRig(t, &Config{Active: Thresholds{1, 1}, PanicPercent: 50}, 0)
	r.members(Member{Key: "a"}, Member{Key: "b", Tier: 9}, Member{Key: "c"}, Member{Key: "d", Tier: 9})
	r.wantOffers(0, 2)
	r.check(0, "F")
	r.wantOffers(2)
	r.check(2, "F")
	r.wantOffers(1, 3)
	r.check(1, "F")
	r.check(3, "F")
	r.wantOffers(0, 2) // a panic in both: the first tier
	r.c.Override("a", Override{Mode: Drain}, r.now)
	r.c.Override("c", Override{Mode: Drain}, r.now)
	r.wantOffers(1, 3)
}

func TestOverrides(t *testing.T) {
	cfg := &Config{Active: Thresholds{1, 1}, Outlier: outlier(1)}
	t.Run("up_whatever_is_known", func(t *testing.T) {
		r := newRig(t, cfg, 2)
		r.check(0, "F")
		r.fail(0, 1)
		r.c.Override("0", Override{Mode: Up}, r.now)
		r.wantOffers(0, 1)
		r.fail(0, 5)
		r.wantReason(0, Healthy)
		if got := r.c.Stats(); got.EjectedNow != 0 {
			t.Errorf("got %+v, want none ejected", got)
		}
		r.c.Override("0", Override{}, r.now)
		r.wantReason(0, UnhealthyActive)
	})
	t.Run("drain_lets_go_on_what_goes_on", func(t *testing.T) {
		r := newRig(t, cfg, 2)
		v, req := r.c.View(r.now), r.admit()
		a := r.try(req, 0)
		r.c.Override("0", Override{Mode: Drain}, r.now)
		r.wantOffers(1)
		r.wantReason(0, Drained)
		if why := r.admit().Try(new(Attempt), v, 0, r.now); why != Closed || !why.OfEndpoint() {
			t.Errorf("with the view of before: got %v, want %v", why, Closed)
		}
		a.Done(Outcome{}, r.now)
		r.c.Override("0", Override{Mode: Disabled}, r.now)
		r.wantReason(0, TurnedOff)
	})
	t.Run("outlives_reload_and_absence", func(t *testing.T) {
		r := newRig(t, cfg, 2)
		r.c.Override("0", Override{Mode: Drain, Weight: 7}, r.now)
		r.c.Configure(&Config{}, r.now)
		r.members(numbered(2)[1])
		r.at(24 * time.Hour)
		r.members(numbered(2)[1])
		r.members(numbered(2)...)
		r.wantReason(0, Drained)
		if got := r.c.Statuses(r.now)[0]; got.Override != (Override{Drain, 7}) || got.Weight != 7 {
			t.Errorf("got %+v", got)
		}
	})
	t.Run("of_an_endpoint_nobody_knows", func(t *testing.T) {
		r := newRig(t, cfg, 2)
		if r.c.Override("9", Override{Mode: Drain}, r.now) {
			t.Error("got true")
		}
	})
	t.Run("weights", func(t *testing.T) {
		r := newRig(t, cfg, 0)
		r.members(Member{Key: "a"}, Member{Key: "b", Weight: 3}, Member{Key: "c", Weight: 1 << 31}, Member{Key: "d", Weight: 5})
		r.c.Override("d", Override{Weight: 2}, r.now)
		if got, want := r.c.View(r.now).Weights(), []uint32{1000, 3000, MaxWeight * WeightScale, 2000}; !slices.Equal(got, want) {
			t.Errorf("got %v, want %v", got, want)
		}
	})
}

// TestSlowStart follows the weight of an endpoint that comes back.
func TestSlowStart(t *testing.T) {
	const minute = time.Minute
	cfg := &Config{Active: Thresholds{1, 1}, Outlier: outlier(1), SlowStart: SlowStart{Window: minute}}
	r := newRig(t, cfg, 2)
	want := func(since time.Duration, want uint32, reason Reason) {
		t.Helper()
		r.at(since)
		if got := r.c.View(r.now).Effective(0); got != want {
			t.Errorf("after %v: got weight %d, want %d", since, got, want)
		}
		r.wantReason(0, reason)
	}
	want(0, 1000, Healthy) // there from the start
	r.check(0, "F")
	r.at(10 * minute)
	r.check(0, "P")
	want(10*minute, 100, SlowStarting)
	want(10*minute+30*time.Second, 500, SlowStarting)
	want(10*minute+59*time.Second+time.Second/2, 991, SlowStarting)
	want(11*minute-1, 991, SlowStarting) // up to a hundredth of the window behind
	want(11*minute, 1000, Healthy)
	if got := r.c.View(r.now).Until(); !got.IsZero() {
		t.Errorf("got a view until %v, want one without an end", got)
	}
	r.at(20 * minute)
	r.check(0, "F")
	r.check(0, "P")
	r.at(20*minute + 30*time.Second)
	r.check(0, "F")
	r.check(0, "P")
	want(20*minute+30*time.Second, 100, SlowStarting) // from the start again

	r.at(30 * minute)
	r.fail(0, 1)
	want(31*minute, 1000, Healthy) // not after an ejection
	after := *cfg
	after.SlowStart.AfterEjection = true
	r.c.Configure(&after, r.now)
	r.fail(0, 1)
	want(31*minute+60*time.Second, 500, SlowStarting) // its time began with the end of the ejection

	r.at(40 * minute)
	r.members(append(numbered(2), Member{Key: "new"})...)
	if got := r.c.View(r.now).Weights(); !slices.Equal(got, []uint32{1000, 1000, 100}) {
		t.Errorf("got %v for an endpoint that was added", got)
	}
	r.at(50 * minute)
	r.c.Override("0", Override{Mode: Drain}, r.now)
	r.at(60 * minute)
	r.c.Override("0", Override{}, r.now)
	want(60*minute, 100, SlowStarting)
}

// TestTimeDoesNotGoBack: a caller that is late changes nothing that was seen later.
func TestTimeDoesNotGoBack(t *testing.T) {
	r := newRig(t, &Config{Outlier: outlier(1)}, 2)
	a := r.try(r.admit(), 1)
	r.fail(0, 1)
	r.at(30 * time.Second)
	r.wantOffers(0, 1)
	a.Done(Outcome{Kind: Reset}, t0)
	r.wantOffers(0)
	if got := r.c.Statuses(t0)[1].EjectedUntil; got != t0.Add(time.Minute) {
		t.Errorf("got an ejection until %v, want a minute after the begin", got.Sub(t0))
	}
}

// TestSharedCluster: who connects with TCP and who asks with HTTP learn from each other.
func TestSharedCluster(t *testing.T) {
	t.Run("Z56_failures_of_one_are_seen_by_the_other", func(t *testing.T) {
		r := newRig(t, &Config{Outlier: outlier(5)}, 2)
		for range 5 {
			session := r.admit()
			r.try(session, 0).Done(Outcome{Kind: Connect}, r.now)
			session.Finish()
		}
		r.wantOffers(1)
	})
}

func TestNames(t *testing.T) {
	for _, names := range [][]fmt.Stringer{
		{Success, Answer, Connect, Reset, Timeout, Malformed, Stale, Aborted, kindCount},
		{Granted, ClusterRequests, ClusterConnections, ClusterPending, EndpointRequests, EndpointConnections, EndpointPending, EndpointRetries, TrialTaken, Closed, Finished, refusalCount},
		{Healthy, SlowStarting, UnhealthyActive, UnhealthyPassive, Ejected, Drained, TurnedOff, reasonCount},
		{Normal, FailOpen, Refusing, Empty, stanceCount},
		{NoReason, Settled, AnswerBegun, NotRepeatable, NotCovered, Exhausted, OutOfTime, OverLimit, OverBudget, NoOther, whyCount},
	} {
		seen := make(map[string]bool)
		for i, n := range names {
			if last := i == len(names)-1; n.String() == "" || seen[n.String()] || last != (n.String() == "unknown") {
				t.Errorf("%T %d: got %q", n, i, n)
			}
			seen[n.String()] = true
		}
	}
}

func TestStatusSet(t *testing.T) {
	var s StatusSet
	s.Add(0, 99)
	s.Add(600, 9999)
	if s != (StatusSet{}) {
		t.Errorf("got %v for codes that are none", s)
	}
	s.Add(-5, 100)
	s.Add(500, 502)
	s.Add(599, 700)
	for code := -10; code < 800; code++ {
		want := code == 100 || code >= 500 && code <= 502 || code == 599
		if s.Has(code) != want {
			t.Errorf("%d: got %v, want %v", code, !want, want)
		}
	}
}
