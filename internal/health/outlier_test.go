package health

import (
	"sync"
	"testing"
	"time"
)

func TestEjection(t *testing.T) {
	t.Run("Z38_the_fifth_failure_ejects_for_30_seconds", func(t *testing.T) {
		r := newRig(t, &Config{Outlier: outlier(5)}, 2)
		r.at(time.Minute)
		r.fail(0, 4)
		r.wantOffers(0, 1)
		r.fail(0, 1)
		r.wantOffers(1)
		r.wantReason(0, Ejected)
		r.at(time.Minute + 30*time.Second - 1)
		r.wantOffers(1)
		r.at(time.Minute + 30*time.Second)
		r.wantOffers(0, 1)
		r.wantReason(0, Healthy)
	})
	t.Run("Z39_only_failures_in_a_row_count", func(t *testing.T) {
		r := newRig(t, &Config{Outlier: outlier(5)}, 2)
		r.fail(0, 4)
		r.serve(0, 1, Outcome{})
		r.fail(0, 4)
		r.serve(0, 100, Outcome{Kind: Stale})
		r.serve(0, 100, Outcome{Kind: Aborted})
		r.wantOffers(0, 1)
		if got := r.c.Statuses(r.now)[0].Consecutive; got != 4 {
			t.Errorf("got a streak of %d, want 4", got)
		}
		r.serve(0, 1, Outcome{Kind: Timeout})
		r.wantOffers(1)
	})
	t.Run("Z40_statuses_count_only_when_given", func(t *testing.T) {
		r := newRig(t, &Config{Outlier: outlier(5)}, 2)
		r.serve(0, 100, Answered(500))
		r.wantOffers(0, 1)
		o := outlier(5)
		o.Statuses.Add(500, 500)
		r = newRig(t, &Config{Outlier: o}, 2)
		r.serve(0, 100, Answered(501))
		r.serve(0, 4, Answered(500))
		r.wantOffers(0, 1)
		r.serve(0, 1, Answered(500))
		r.wantOffers(1)
	})
	t.Run("Z42_a_refused_ejection_keeps_the_streak", func(t *testing.T) {
		r := newRig(t, &Config{Outlier: outlier(5)}, 2)
		r.fail(0, 5)
		r.at(time.Second)
		r.fail(1, 7)
		r.wantOffers(1)
		s := r.c.Stats()
		if got := r.c.Statuses(r.now)[1].Consecutive; got != 7 || s.Ejections != 1 || s.EjectionsRefused != 3 {
			t.Errorf("got a streak of %d and %+v, want 7, 1 ejection and 3 refused", got, s)
		}
		r.at(30 * time.Second)
		r.wantOffers(0, 1)
		r.fail(1, 1)
		r.wantOffers(0)
	})
	t.Run("Z44_a_success_does_not_end_an_ejection", func(t *testing.T) {
		r := newRig(t, &Config{Outlier: outlier(2)}, 2)
		req := r.admit()
		before := r.try(req, 0)
		r.fail(0, 2)
		before.Done(Outcome{}, r.now)
		r.wantOffers(1)
		r.at(30*time.Second - 1)
		r.wantOffers(1)
	})
	t.Run("failures_during_an_ejection_count_after_it", func(t *testing.T) {
		r := newRig(t, &Config{Outlier: outlier(2)}, 2)
		late := []*Attempt{r.try(r.admit(), 0), r.try(r.admit(), 0), r.try(r.admit(), 0)}
		r.fail(0, 2)
		r.at(10 * time.Second)
		for _, a := range late {
			a.Done(Outcome{Kind: Reset}, r.now)
		}
		if got := r.c.Statuses(r.now)[0]; got.EjectedUntil != t0.Add(30*time.Second) || got.Consecutive != 3 {
			t.Errorf("got %+v, want the ejection as it was and a streak of 3", got)
		}
		r.at(30 * time.Second)
		r.wantOffers(0, 1)
		r.fail(0, 1)
		r.wantOffers(1)
	})
}

func TestEjectionCap(t *testing.T) {
	for _, tc := range []struct {
		name         string
		n, pct, want int
	}{
		{"Z41_one_of_one", 1, 50, 0},
		{"Z41_one_of_two", 2, 50, 1},
		{"Z41_one_of_three", 3, 50, 1},
		{"Z41_two_of_four", 4, 50, 2},
		{"two_of_five", 5, 50, 2},
		{"none_of_nine_at_10_percent", 9, 10, 0},
		{"one_of_ten_at_10_percent", 10, 10, 1},
		{"one_of_one_at_100_percent", 1, 100, 1},
		{"all_of_seven_at_100_percent", 7, 100, 7},
	} {
		t.Run(tc.name, func(t *testing.T) {
			o := outlier(1)
			o.MaxPercent = tc.pct
			r := newRig(t, &Config{Outlier: o}, tc.n)
			for i := range tc.n {
				r.fail(i, 1)
			}
			if got := r.c.Stats(); got.EjectedNow != tc.want || got.EjectionsRefused != uint64(tc.n-tc.want) {
				t.Errorf("got %+v, want %d ejected", got, tc.want)
			}
		})
	}
}

// TestCapCountsWhatIsEjectedNow: an ejection that is over doesn't take a place, seen or not.
func TestCapCountsWhatIsEjectedNow(t *testing.T) {
	r := newRig(t, &Config{Outlier: outlier(1)}, 2)
	req := r.admit()
	a := r.try(req, 1)
	r.fail(0, 1)
	r.at(30 * time.Second)
	a.Done(Outcome{Kind: Reset}, r.now)
	r.wantOffers(0)
	// With fewer members there are more ejected than there may be. They stay, and no other is.
	r = newRig(t, &Config{Outlier: outlier(1)}, 4)
	r.fail(0, 1)
	r.fail(1, 1)
	r.members(numbered(3)...)
	r.wantOffers(2)
	r.fail(2, 1)
	r.wantOffers(2)
}

func TestEjectionGrows(t *testing.T) {
	o := outlier(1)
	o.MaxTime = 5 * time.Minute
	r := newRig(t, &Config{Outlier: o}, 2)
	eject := func(want time.Duration) {
		t.Helper()
		r.fail(0, 1)
		until := r.c.Statuses(r.now)[0].EjectedUntil
		if got := until.Sub(r.now); got != want {
			t.Errorf("got an ejection of %v, want %v", got, want)
		}
		r.now = until
	}
	t.Run("Z45_30_60_90_seconds_up_to_300", func(t *testing.T) {
		r.t = t
		for n := range 14 {
			eject(min(time.Duration(n+1)*30*time.Second, 5*time.Minute))
		}
	})
	t.Run("Z45_shorter_by_one_step_for_each_interval_back", func(t *testing.T) {
		r.t = t
		// The multiplier stands at 11, one above what the longest time needs.
		r.now = r.now.Add(4*DecayInterval - 1)
		eject(9 * 30 * time.Second)
		r.now = r.now.Add(DecayInterval)
		eject(9 * 30 * time.Second)
		r.now = r.now.Add(8*DecayInterval + DecayInterval/2)
		eject(2 * 30 * time.Second)
		r.now = r.now.Add(time.Hour)
		eject(30 * time.Second)
	})
	t.Run("constant_without_max_ejection_time", func(t *testing.T) {
		r = newRig(t, &Config{Outlier: outlier(1)}, 2)
		for range 5 {
			eject(30 * time.Second)
		}
	})
}

func TestEjectionAndChecks(t *testing.T) {
	t.Run("Z54_a_check_that_passes_changes_nothing", func(t *testing.T) {
		r := newRig(t, &Config{Outlier: outlier(1), Active: Thresholds{2, 3}}, 2)
		r.fail(0, 1)
		r.check(0, "PPPPP")
		r.wantOffers(1)
	})
	t.Run("Z54_it_ends_the_ejection_if_told_so", func(t *testing.T) {
		o := outlier(1)
		o.CheckUnejects = true
		r := newRig(t, &Config{Outlier: o, Active: Thresholds{2, 3}}, 2)
		r.fail(0, 1)
		r.check(0, "F")
		r.wantOffers(1)
		if got := r.check(0, "PP"); got != 1 {
			t.Errorf("got a change with check %d, want 1", got)
		}
		r.wantOffers(0, 1)
		if got := r.c.Stats().EjectedNow; got != 0 {
			t.Errorf("got %d ejected, want 0", got)
		}
	})
}

func TestEjectionOutlivesAReload(t *testing.T) {
	r := newRig(t, &Config{Outlier: outlier(1)}, 2)
	r.fail(0, 1)
	r.c.Configure(&Config{Outlier: outlier(7)}, r.now)
	r.members(numbered(2)...)
	r.wantOffers(1)
	r.at(30*time.Second - 1)
	r.wantOffers(1)
	r.at(30 * time.Second)
	r.wantOffers(0, 1)
	r.fail(0, 7)
	r.wantOffers(1)
	r.c.Configure(&Config{}, r.now)
	r.wantOffers(0, 1)
}

func TestConcurrentFailures(t *testing.T) {
	t.Run("Z43_64_failures_at_once_eject_once", func(t *testing.T) {
		r := newRig(t, &Config{Outlier: outlier(5)}, 2)
		var ready, done sync.WaitGroup
		ready.Add(64)
		for range 64 {
			a := r.try(r.admit(), 0)
			done.Go(func() {
				ready.Done()
				ready.Wait()
				a.Done(Outcome{Kind: Reset}, r.now)
			})
		}
		done.Wait()
		if got := r.c.Stats(); got.Ejections != 1 || got.EjectedNow != 1 || got.EjectionsRefused != 0 {
			t.Errorf("got %+v, want one ejection", got)
		}
		r.wantOffers(1)
	})
}
