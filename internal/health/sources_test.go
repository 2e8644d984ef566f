package health

import (
	"testing"
	"time"
)

// checkedAndServing is a policy with checks and passive health, whose thresholds differ.
func checkedAndServing() *Config {
	cfg := &Config{Active: Thresholds{2, 3}, Passive: Passive{Thresholds: Thresholds{4, 5}}}
	cfg.Passive.Statuses.Add(500, 599)
	return cfg
}

// TestChecksAndAttemptsShareTheStreaks: each brings its own thresholds, and failures that the other has seen count.
func TestChecksAndAttemptsShareTheStreaks(t *testing.T) {
	r := newRig(t, checkedAndServing(), 2)
	r.serve(0, 2, Answered(503))
	r.wantReason(0, Healthy)
	if got := r.check(0, "F"); got != 1 {
		t.Errorf("two failed attempts and a failed check: got no change")
	}
	r.wantReason(0, UnhealthyActive)
	r.wantOffers(1)
	if got := r.check(0, "PP"); got != 2 {
		t.Errorf("got a change with check %d, want 2", got)
	}
	r.check(0, "FF")
	r.fail(0, 2)
	r.wantReason(0, Healthy)
	r.fail(0, 1)
	r.wantReason(0, UnhealthyPassive)
	// The failure that changed it was an attempt, the success that changes it back is a check.
	r.check(0, "PP")
	r.wantReason(0, Healthy)
}

// TestTrafficHidesNoChecks: an endpoint that serves, and whose checks fail, goes down, and stays so while all are used.
func TestTrafficHidesNoChecks(t *testing.T) {
	r := newRig(t, checkedAndServing(), 1)
	for range 2 {
		r.serve(0, 50, Answered(200))
		r.check(0, "F")
		r.wantReason(0, Healthy)
	}
	r.serve(0, 50, Answered(200))
	if got := r.check(0, "F"); got != 1 {
		t.Error("got no change with the third failed check in a row")
	}
	r.wantReason(0, UnhealthyActive)
	r.wantOffers(0)
	r.serve(0, 50, Answered(200))
	r.wantReason(0, UnhealthyActive)
	// Nor does its traffic hold up the checks that bring it back.
	r.check(0, "P")
	r.fail(0, 1)
	if got := r.check(0, "P"); got != 1 {
		t.Error("got no change with the second check that passes in a row")
	}
	r.wantReason(0, Healthy)
}

// TestChecksHideNoTraffic: an endpoint whose checks pass, and that doesn't serve, goes down.
func TestChecksHideNoTraffic(t *testing.T) {
	r := newRig(t, checkedAndServing(), 2)
	for range 4 {
		r.fail(0, 1)
		r.check(0, "PPPP")
		r.wantReason(0, Healthy)
	}
	r.fail(0, 1)
	r.wantReason(0, UnhealthyPassive)
	r.wantOffers(1)
	r.check(0, "P")
	r.serve(0, 1, Answered(200))
	r.wantReason(0, UnhealthyPassive)
	r.check(0, "P")
	r.wantReason(0, Healthy)
}

// TestSourceThatIsNoMore: failures of a source that a policy doesn't have are dropped, since nothing would end them.
func TestSourceThatIsNoMore(t *testing.T) {
	both := checkedAndServing()
	both.Passive.RetryAfter = time.Second
	for _, tc := range []struct {
		name   string
		to     Config
		before func(r *rig)
		after  func(r *rig)
	}{
		{
			"checks",
			Config{Passive: both.Passive},
			func(r *rig) { r.check(0, "FF") },
			func(r *rig) { r.check(0, "FFF"); r.fail(0, 4) },
		},
		{
			"traffic",
			Config{Active: both.Active},
			func(r *rig) { r.fail(0, 4) },
			func(r *rig) { r.fail(0, 4); r.check(0, "FF") },
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r := newRig(t, both, 2)
			tc.before(r)
			r.c.Configure(&tc.to, r.now)
			tc.after(r)
			r.wantReason(0, Healthy)
		})
	}
}

// TestQuietSuccesses: a success of traffic that says nothing is known as such without a lock.
func TestQuietSuccesses(t *testing.T) {
	r := newRig(t, checkedAndServing(), 2)
	stirred := func(when string, want bool) {
		t.Helper()
		if got := r.endpoint(0).stirred.Load(); got != want {
			t.Errorf("%s: got %v, want %v", when, got, want)
		}
	}
	r.check(0, "FF")
	stirred("after failed checks", false)
	r.check(0, "F")
	stirred("taken down by checks", false)
	r.check(0, "PP")
	r.fail(0, 1)
	stirred("after a failed attempt", true)
	r.check(0, "P")
	stirred("after a check that passed", true)
	r.serve(0, 1, Answered(200))
	stirred("after one that served", false)
	r.fail(0, 5)
	stirred("taken down by traffic", true)
}
