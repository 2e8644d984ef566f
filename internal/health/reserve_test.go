package health

import (
	"slices"
	"testing"
)

// wantSpares checks which endpoints are in reserve.
func (r *rig) wantSpares(want ...int) {
	r.t.Helper()
	v := r.c.View(r.now)
	var got []int
	for i := range v.Len() {
		if v.Spares(i) {
			got = append(got, i)
		}
	}
	if !slices.Equal(got, want) || v.Spare() != len(want) {
		r.t.Errorf("got %v (%d) in reserve, want %v", got, v.Spare(), want)
	}
}

// TestReserve checks which endpoints are in reserve: those that are available, of tiers after the one that serves.
func TestReserve(t *testing.T) {
	tiers := []Member{{Key: "a"}, {Key: "b"}, {Key: "c", Tier: 1}, {Key: "d", Tier: 1}, {Key: "e", Tier: 255}}
	t.Run("normal", func(t *testing.T) {
		r := newRig(t, &Config{Active: Thresholds{1, 1}}, 0)
		r.members(tiers...)
		r.wantOffers(0, 1)
		r.wantSpares(2, 3, 4)
		r.check(3, "F")
		r.wantSpares(2, 4)
		r.c.Override("e", Override{Mode: Drain}, r.now)
		r.wantSpares(2)
		r.c.Override("e", Override{Mode: Disabled}, r.now)
		r.wantSpares(2)
		r.c.Override("e", Override{}, r.now)
		r.check(0, "F")
		r.wantSpares(2, 4)
		r.check(1, "F")
		r.wantOffers(2)
		r.wantSpares(4)
		r.check(2, "F")
		r.wantOffers(4)
		r.wantSpares()
	})
	t.Run("ejected", func(t *testing.T) {
		r := newRig(t, &Config{Outlier: outlier(1)}, 0)
		r.members(tiers...)
		r.fail(4, 1)
		r.wantSpares(2, 3)
	})
	t.Run("too few", func(t *testing.T) {
		r := newRig(t, &Config{Active: Thresholds{1, 1}, PanicPercent: 100}, 0)
		r.members(tiers...)
		for _, i := range []int{0, 2, 4} {
			r.check(i, "F")
		}
		r.wantOffers(0, 1) // whatever is known about their health
		r.wantSpares(3)
	})
	t.Run("refusing", func(t *testing.T) {
		r := newRig(t, &Config{Active: Thresholds{1, 1}, PanicPercent: 100, Refuse: true}, 0)
		r.members(tiers...)
		for _, i := range []int{0, 2, 4} {
			r.check(i, "F")
		}
		r.wantOffers()
		r.wantSpares()
	})
	t.Run("is another endpoint", func(t *testing.T) {
		r := newRig(t, &Config{Retry: DefaultRetry()}, 0)
		r.members(tiers[:2:2]...)
		r.members(tiers[0], tiers[4])
		req := r.admit()
		failed := Failure{Outcome: Outcome{Kind: Connect}, Repeatable: true, Eligible: true, Elsewhere: true}
		if d := r.try(req, 0).Fail(failed, 0, r.now); d.Action != Again {
			t.Errorf("got %+v with another in reserve, want another attempt", d)
		}
		if d := r.try(req, 1).Fail(failed, 0, r.now); d.Why != NoOther {
			t.Errorf("got %+v with nothing in reserve, want %v", d, NoOther)
		}
		req.Finish()
		r.wantIdle()
	})
	t.Run("is no fail open", func(t *testing.T) {
		r := newRig(t, &Config{Active: Thresholds{1, 1}, PanicPercent: 100}, 0)
		r.members(tiers...)
		for _, i := range []int{0, 2, 4} {
			r.check(i, "F")
		}
		r.serve(1, 1, Outcome{})
		r.serve(3, 1, Outcome{})
		if got := r.c.Stats().FailOpenPicks; got != 1 {
			t.Errorf("got %d picks whatever is known, want 1", got)
		}
	})
}
