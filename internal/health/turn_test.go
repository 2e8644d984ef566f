package health

import (
	"testing"
	"time"
)

// wantTurn checks whose turn for a trial it is: all others yield. none: nobody's.
func (r *rig) wantTurn(want int) {
	r.t.Helper()
	v := r.c.View(r.now)
	for i := range v.Len() {
		if got := v.Yields(i); got != (want != none && i != want) {
			r.t.Errorf("after %v: got %v for %d to yield, with the turn of %d", r.now.Sub(t0), got, i, want)
		}
	}
}

// turns returns a cluster of one endpoint and one in reserve, both of which are down, and so long ago that their trials are
// due. That of the reserve is due for longer.
func turns(t *testing.T, cfg *Config) *rig {
	cfg.Passive = Passive{Thresholds: Thresholds{Rise: 2, Fall: 1}, RetryAfter: time.Second}
	r := newRig(t, cfg, 0)
	r.members(Member{Key: "a"}, Member{Key: "b", Tier: 1})
	r.fail(1, 1)
	r.at(time.Millisecond)
	r.fail(0, 1)
	return r
}

// TestTurns checks that each endpoint gets its trial where too few are available, one at a time, whatever its tier.
func TestTurns(t *testing.T) {
	t.Run("fail open", func(t *testing.T) {
		r := turns(t, &Config{})
		r.wantOffers(0)
		r.wantTurn(none)
		r.at(time.Second)
		r.wantOffers(0, 1)
		r.wantTurn(1)
		r.at(2 * time.Second)
		r.wantTurn(1) // still, though the trial of 0 is due as well
		trial := r.try(r.admit(), 1)
		r.wantTurn(0)
		r.fail(0, 1)
		r.wantTurn(none)
		r.wantOffers(0)
		trial.Done(Outcome{}, r.now)
		r.wantTurn(1) // at once, since it went well
		r.serve(1, 1, Outcome{})
		r.wantReason(1, Healthy)
		r.wantOffers(1)
		r.wantTurn(none)
		if got := r.c.Stats(); got.FailOpenPicks != 0 || got.Trials != 3 {
			t.Errorf("got %d picks whatever is known and %d trials, want 0 and 3", got.FailOpenPicks, got.Trials)
		}
	})
	t.Run("refusing", func(t *testing.T) {
		r := turns(t, &Config{Refuse: true})
		r.at(2 * time.Second)
		r.wantOffers(0, 1)
		r.wantTurn(1)
		r.fail(1, 1)
		r.wantTurn(0)
		r.wantOffers(0)
	})
	t.Run("a trial that tells nothing", func(t *testing.T) {
		r := turns(t, &Config{})
		r.at(time.Second)
		r.serve(1, 1, Outcome{Kind: Aborted})
		r.at(2*time.Second - 1)
		r.serve(0, 1, Outcome{Kind: Aborted})
		r.wantTurn(none)
		r.wantOffers(0)
		r.wantSpares(1)
		r.at(2 * time.Second)
		r.wantTurn(1)
		r.wantOffers(0, 1)
	})
	t.Run("a trial that is put off while it goes on", func(t *testing.T) {
		r := turns(t, &Config{})
		late := r.try(r.admit(), 0)
		r.at(2 * time.Second)
		r.serve(1, 1, Outcome{Kind: Aborted})
		trial := r.try(r.admit(), 0)
		late.Done(Outcome{Kind: Reset}, r.now)
		r.c.Configure(&Config{Passive: Passive{Thresholds: Thresholds{Rise: 2, Fall: 1}, RetryAfter: time.Millisecond}}, r.now)
		trial.Done(Outcome{Kind: Aborted}, r.now)
		r.at(2*time.Second + time.Millisecond)
		r.members(Member{Key: "a"})
		for _, want := range []int{none, 0} {
			if got := r.c.View(r.now).turn; got != want {
				t.Errorf("after %v: got the turn of %d, want %d", r.now.Sub(t0), got, want)
			}
			r.at(3 * time.Second)
		}
	})
	t.Run("enough are available", func(t *testing.T) {
		r := turns(t, &Config{})
		r.members(Member{Key: "a"}, Member{Key: "b", Tier: 1}, Member{Key: "c"})
		r.wantOffers(2)
		r.wantSpares()
		r.at(2 * time.Second)
		r.wantTurn(none)
		r.wantOffers(0, 2)
		r.wantSpares(1)
		if trial := r.try(r.admit(), 1); !trial.Trial() {
			t.Error("got an attempt at a reserve that is down, want a trial")
		}
		r.wantSpares()
	})
}

// TestServing checks which endpoint stands for the tier that serves.
func TestServing(t *testing.T) {
	r := turns(t, &Config{})
	want := func(want int) {
		t.Helper()
		if got := r.c.View(r.now).Serving(); got != want {
			t.Errorf("after %v: got %d, want %d", r.now.Sub(t0), got, want)
		}
	}
	want(0)
	r.at(time.Second)
	want(0) // the other one is there for a trial
	r.serve(1, 2, Outcome{})
	want(1)
	r.c.Override("b", Override{Mode: Drain}, r.now)
	want(0)
	r.c.Configure(&Config{Passive: r.c.cfg.Load().Passive, Refuse: true}, r.now)
	want(none)
	r.c.Override("a", Override{Mode: Drain}, r.now)
	want(none)
}
