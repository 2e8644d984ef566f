package health

import (
	"testing"
	"time"
)

func TestStreaks(t *testing.T) {
	for _, tc := range []struct {
		name, results string
		rise, fall    int
		// want is the number of the result with which the health changes last; 0 for none.
		want int
		down bool
	}{
		{"Z46_three_in_a_row_at_the_sixth", "FFPFFF", 2, 3, 6, true},
		{"Z46_a_pass_between_failures", "FPFPF", 2, 3, 0, false},
		{"Z47_two_in_a_row_to_come_back", "FFFPP", 2, 3, 5, false},
		{"Z47_a_failure_between_passes", "FFFPFP", 2, 3, 3, true},
		{"Z47_only_the_last_two_in_a_row", "FFFPFPP", 2, 3, 7, false},
		{"thresholds_of_one", "FPFP", 1, 1, 4, false},
		{"a_change_ends_the_streak", "FFFFFFPP", 2, 3, 8, false},
		{"passes_before_are_not_saved_up", "PPPPFFF", 2, 3, 7, true},
		{"never_down_without_fall", "FFFFFFFF", 2, 0, 0, false},
		{"never_up_without_rise", "FFFPPPPP", 0, 3, 3, true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var s Streaks
			got := 0
			for i, result := range tc.results {
				if s.Record(result == 'P', ByCheck, Thresholds{tc.rise, tc.fall}) {
					got = i + 1
				}
			}
			if got != tc.want || s.Down() != tc.down {
				t.Errorf("got the last change at %d and down %v, want %d, %v", got, s.Down(), tc.want, tc.down)
			}
		})
	}
}

func TestPassive(t *testing.T) {
	cfg := &Config{Passive: Passive{Thresholds: Thresholds{Rise: 2, Fall: 3}, RetryAfter: DefaultRetryAfter}}
	cfg.Passive.Statuses.Add(500, 599)
	r := newRig(t, cfg, 3)
	r.serve(0, 50, Answered(404))
	r.serve(0, 2, Answered(500))
	r.serve(0, 9, Outcome{Kind: Stale})
	r.serve(0, 9, Outcome{Kind: Aborted})
	r.wantReason(0, Healthy)
	r.serve(0, 1, Answered(599))
	r.wantReason(0, UnhealthyPassive)
	r.wantOffers(1, 2)
}

// TestTrial follows an endpoint that attempts took down in a cluster without checks.
func TestTrial(t *testing.T) {
	cfg := &Config{Passive: Passive{Thresholds: Thresholds{Rise: 2, Fall: 3}, RetryAfter: DefaultRetryAfter}}
	r := newRig(t, cfg, 2)
	r.fail(0, 3)
	r.at(DefaultRetryAfter - 1)
	r.wantOffers(1)
	r.at(DefaultRetryAfter)
	r.wantOffers(0, 1)
	r.wantReason(0, UnhealthyPassive)

	v, first, second := r.c.View(r.now), r.admit(), r.admit()
	a := r.try(first, 0)
	r.wantOffers(1)
	if why := second.Try(new(Attempt), v, 0, r.now); why != TrialTaken || !why.OfEndpoint() {
		t.Errorf("the second attempt with the same view: got %v, want %v", why, TrialTaken)
	}
	if got := r.endpoint(0).Load(); got != 1 {
		t.Errorf("got %d attempts, want 1", got)
	}
	a.Done(Outcome{Kind: Aborted}, r.now)
	r.wantOffers(0, 1) // it said nothing, so the trial is still due

	r.at(DefaultRetryAfter + time.Second)
	r.fail(0, 1)
	r.wantOffers(1)
	r.at(2*DefaultRetryAfter + time.Second - 1)
	r.wantOffers(1)
	r.at(2*DefaultRetryAfter + time.Second)
	r.wantOffers(0, 1)
	r.serve(0, 1, Outcome{})
	r.wantReason(0, UnhealthyPassive)
	r.wantOffers(0, 1) // one success, and the next trial at once
	r.serve(0, 1, Outcome{})
	r.wantReason(0, Healthy)
	if got := r.c.Stats().Trials; got != 4 {
		t.Errorf("got %d trials, want 4", got)
	}
}

func TestTrialElsewhere(t *testing.T) {
	passive := Passive{Thresholds: Thresholds{Fall: 1}, RetryAfter: time.Second}
	t.Run("not_with_active_checks", func(t *testing.T) {
		r := newRig(t, &Config{Active: Thresholds{1, 1}, Passive: passive}, 2)
		r.fail(0, 1)
		r.at(time.Hour)
		r.wantOffers(1)
		r.check(0, "P")
		r.wantOffers(0, 1)
	})
	t.Run("one_success_does_without_rise", func(t *testing.T) {
		r := newRig(t, &Config{Passive: passive}, 2)
		r.fail(0, 1)
		r.at(time.Second)
		r.serve(0, 1, Outcome{})
		r.wantReason(0, Healthy)
	})
	t.Run("the_only_endpoint_of_a_cluster_that_refuses", func(t *testing.T) {
		r := newRig(t, &Config{Passive: passive, Refuse: true}, 1)
		r.fail(0, 1)
		r.wantOffers()
		r.at(time.Second)
		r.wantOffers(0)
		a := r.try(r.admit(), 0)
		r.wantOffers()
		a.Done(Outcome{}, r.now)
		r.wantOffers(0)
		r.wantReason(0, Healthy)
	})
	t.Run("a_trial_of_before_settles_nothing_of_today", func(t *testing.T) {
		r := newRig(t, &Config{Passive: passive}, 2)
		before := r.try(r.admit(), 0)
		r.fail(0, 1)
		r.at(time.Second)
		old := r.try(r.admit(), 0)
		before.Done(Outcome{}, r.now)
		r.wantReason(0, Healthy)
		r.fail(0, 1)
		r.at(2 * time.Second)
		r.try(r.admit(), 0)
		old.Done(Outcome{Kind: Aborted}, r.now)
		r.wantOffers(1)
	})
}

// TestNothingLeftOver: a policy without checks has no endpoint that only a check would bring back.
func TestNothingLeftOver(t *testing.T) {
	active := Config{Active: Thresholds{2, 3}}
	passive := Config{Passive: Passive{Thresholds: Thresholds{2, 3}, RetryAfter: time.Second}}
	both := Config{Active: active.Active, Passive: passive.Passive}
	for _, tc := range []struct {
		name     string
		from, to *Config
		check    bool
		want     Reason
	}{
		{"checks_stop", &active, &Config{}, true, Healthy},
		{"checks_stop_attempts_count", &active, &passive, true, Healthy},
		{"checks_go_on", &both, &active, true, UnhealthyActive},
		{"attempts_stop", &passive, &Config{}, false, Healthy},
		{"attempts_stop_checks_go_on", &both, &active, false, UnhealthyPassive},
		{"checks_stop_attempts_go_on", &both, &passive, false, UnhealthyPassive},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r := newRig(t, tc.from, 2)
			if tc.check {
				r.check(0, "FFF")
			} else {
				r.fail(0, 3)
			}
			r.c.Configure(tc.to, r.now)
			r.wantReason(0, tc.want)
		})
	}
}

// TestTrialAfterAShorterRest: a reload shortens the rest of an endpoint that is down.
func TestTrialAfterAShorterRest(t *testing.T) {
	passive := Passive{Thresholds: Thresholds{Rise: 1, Fall: 1}, RetryAfter: time.Hour}
	r := newRig(t, &Config{Passive: passive}, 2)
	late := r.try(r.admit(), 0)
	r.fail(0, 1)
	passive.RetryAfter = time.Second
	r.c.Configure(&Config{Passive: passive}, r.now)
	late.Done(Outcome{Kind: Reset}, r.now)
	r.wantOffers(1)
	r.at(time.Second)
	r.wantOffers(0, 1)
}

// TestProven: a success that is told before the end of its attempt counts once, and a failure after it counts.
func TestProven(t *testing.T) {
	passive := Passive{Thresholds: Thresholds{Rise: 2, Fall: 2}, RetryAfter: time.Second}
	t.Run("a_long_session_ends_a_streak_when_it_has_proven_itself", func(t *testing.T) {
		r := newRig(t, &Config{Outlier: outlier(2)}, 2)
		r.fail(0, 1)
		session := r.try(r.admit(), 0)
		session.Connected(r.now)
		session.Proven(r.now)
		r.fail(0, 1)
		r.wantOffers(0, 1)
		if got := r.endpoint(0).Load(); got != 1 {
			t.Errorf("got %d attempts, want 1", got)
		}
		// That it went well is known. It doesn't end the streak of what came since.
		session.Done(Outcome{}, r.now)
		r.fail(0, 1)
		r.wantOffers(1)
	})
	t.Run("a_failure_after_it", func(t *testing.T) {
		r := newRig(t, &Config{Outlier: outlier(1)}, 2)
		session := r.try(r.admit(), 0)
		session.Proven(r.now)
		session.Done(Outcome{Kind: Reset}, r.now)
		r.wantOffers(1)
	})
	t.Run("a_trial_is_one_success", func(t *testing.T) {
		r := newRig(t, &Config{Passive: passive}, 2)
		r.fail(0, 2)
		r.at(time.Second)
		session := r.try(r.admit(), 0)
		if !session.Trial() {
			t.Error("got no trial")
		}
		r.wantOffers(1)
		session.Proven(r.now)
		r.wantOffers(0, 1)
		session.Done(Outcome{}, r.now)
		r.wantReason(0, UnhealthyPassive)
		r.try(r.admit(), 0).Proven(r.now)
		r.wantReason(0, Healthy)
	})
}

// TestConnected: a connection by itself is no success, but for a trial.
func TestConnected(t *testing.T) {
	passive := Passive{Thresholds: Thresholds{Rise: 2, Fall: 3}, RetryAfter: time.Second}
	t.Run("an_endpoint_that_accepts_and_resets_goes_down", func(t *testing.T) {
		r := newRig(t, &Config{Passive: passive, Outlier: outlier(3)}, 2)
		for range 3 {
			r.wantOffers(0, 1)
			session := r.try(r.admit(), 0)
			session.Connected(r.now)
			session.Done(Outcome{Kind: Reset}, r.now)
		}
		r.wantReason(0, UnhealthyPassive)
		r.wantOffers(1)
	})
	t.Run("its_end_ends_a_streak_if_it_went_well", func(t *testing.T) {
		for _, row := range []struct {
			end  Kind
			want []int
		}{{Success, []int{0, 1}}, {Aborted, []int{1}}} {
			r := newRig(t, &Config{Outlier: outlier(2)}, 2)
			r.fail(0, 1)
			session := r.try(r.admit(), 0)
			session.Connected(r.now)
			session.Done(Outcome{Kind: row.end}, r.now)
			r.fail(0, 1)
			r.wantOffers(row.want...)
		}
	})
	t.Run("a_trial_is_one_success", func(t *testing.T) {
		r := newRig(t, &Config{Passive: passive}, 2)
		r.fail(0, 3)
		r.at(time.Second)
		for _, want := range []Reason{UnhealthyPassive, Healthy} {
			session := r.try(r.admit(), 0)
			session.Connected(r.now)
			r.wantReason(0, want)
			session.Connected(r.now)
			session.Proven(r.now)
			session.Done(Outcome{}, r.now)
			r.wantReason(0, want)
		}
	})
	t.Run("a_retry_is_over", func(t *testing.T) {
		retry := DefaultRetry()
		r := newRig(t, &Config{Retry: retry}, 2)
		req := r.admit()
		r.try(req, 0).Fail(failure(Connect), 0, r.now)
		session := r.try(req, 1)
		session.Connected(r.now)
		session.Connected(r.now)
		if got := r.c.Stats().RetriesActive; got != 0 {
			t.Errorf("got %d retries, want none", got)
		}
		session.Done(Outcome{}, r.now)
		req.Finish()
		r.wantIdle()
	})
}
