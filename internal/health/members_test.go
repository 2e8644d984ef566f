package health

import (
	"errors"
	"slices"
	"strconv"
	"testing"
	"time"
)

func TestMembers(t *testing.T) {
	r := newRig(t, &Config{Outlier: outlier(2)}, 4)
	if err := r.c.SetMembers([]Member{{Key: "a"}, {Key: "a"}}, r.now); !errors.Is(err, ErrDuplicate) || r.c.View(r.now).Len() != 4 {
		t.Errorf("got %v and %d endpoints, want %v and those of before", err, r.c.View(r.now).Len(), ErrDuplicate)
	}
	same := r.c.View(r.now)
	r.members(numbered(4)...)
	if got := r.c.View(r.now); got.Members() != same.Members() || &got.Weights()[0] != &same.Weights()[0] {
		t.Error("the same members again count as others, or have other weights")
	}
	r.fail(0, 2)
	r.fail(1, 1)
	req := r.admit()
	a := r.try(req, 2)
	r.members(numbered(4)[3])
	if got := r.c.View(r.now); got.Members() == same.Members() || got.Len() != 1 {
		t.Errorf("got %d endpoints", got.Len())
	}
	if got := r.c.Stats().EjectedNow; got != 0 {
		t.Errorf("got %d ejected, want 0", got)
	}
	r.at(10 * time.Second)
	r.members(numbered(4)...)
	r.wantOffers(1, 2, 3)
	r.fail(1, 1)
	r.wantOffers(2, 3)
	r.fail(3, 1)
	r.members()
	r.now = r.now.Add(RetainGone - 1)
	r.members()
	r.members(numbered(4)...)
	if got := r.c.Statuses(r.now)[3].Consecutive; got != 1 {
		t.Errorf("got a streak of %d, want it kept", got)
	}
	r.members()
	r.now = r.now.Add(RetainGone)
	r.members(numbered(4)...)
	if got := r.endpoint(2); got != a.Endpoint() {
		t.Error("an endpoint with an attempt was forgotten")
	}
	if got := r.c.Statuses(r.now)[3].Consecutive; got != 0 {
		t.Errorf("got a streak of %d, want it forgotten", got)
	}
	if e := r.c.Endpoint("2"); e != a.Endpoint() || r.c.View(r.now).Index(e) != 2 || r.c.Endpoint("x") != nil {
		t.Errorf("got %v for a key, and %v for one that nobody knows", e, r.c.Endpoint("x"))
	}
}

// TestSuccessTakesNoLock: a success of an endpoint that has no failure is not held up by anybody.
func TestSuccessTakesNoLock(t *testing.T) {
	r := newRig(t, whole(), 2)
	a := r.try(r.admit(), 0)
	r.c.mu.Lock()
	defer r.c.mu.Unlock()
	done := make(chan bool)
	go func() { done <- a.Done(Outcome{}, t0) }()
	select {
	case <-done:
	case <-time.After(10 * time.Second):
		t.Error("it waits")
	}
}

// TestManyGone has a name whose addresses change all the time.
func TestManyGone(t *testing.T) {
	r := newRig(t, &Config{}, 0)
	for n := range 3 * maxGone {
		r.at(time.Duration(n) * time.Millisecond)
		r.members(Member{Key: strconv.Itoa(n)})
	}
	if got := len(r.c.byKey); got > maxGone+1 || got < maxGone {
		t.Errorf("got %d endpoints kept, want %d", got, maxGone)
	}
	if r.c.byKey[strconv.Itoa(2*maxGone)] == nil {
		t.Error("a young one was dropped")
	}
}

func TestEvents(t *testing.T) {
	r := newRig(t, &Config{Active: Thresholds{1, 1}, Outlier: outlier(1)}, 2)
	if !r.c.EventsReady() {
		t.Error("got no event of the first endpoints")
	}
	got := r.c.Events(nil)
	want := []Event{{At: t0, Stances: [2]Stance{Empty, Normal}}}
	if !slices.Equal(got, want) || r.c.EventsReady() {
		t.Errorf("got %+v, want %+v", got, want)
	}
	r.at(time.Second)
	r.fail(0, 1)
	r.check(1, "F")
	r.check(1, "F")
	r.at(31 * time.Second)
	r.c.View(r.now)
	want = []Event{
		{At: t0.Add(time.Second), Key: "0", Reasons: [2]Reason{Healthy, Ejected}},
		{At: t0.Add(time.Second), Key: "1", Reasons: [2]Reason{Healthy, UnhealthyActive}},
		{At: t0.Add(time.Second), Stances: [2]Stance{Normal, FailOpen}},
		{At: t0.Add(31 * time.Second), Key: "0", Reasons: [2]Reason{Ejected, Healthy}},
		{At: t0.Add(31 * time.Second), Stances: [2]Stance{FailOpen, Normal}},
	}
	if got = r.c.Events(got[:0]); !slices.Equal(got, want) {
		t.Errorf("got %+v, want %+v", got, want)
	}
	r.check(1, "P")
	r.c.Events(nil)
	for n := range MaxEvents + 5 {
		r.check(0, string("FP"[n%2]))
	}
	if got := len(r.c.Events(nil)); got != MaxEvents || r.c.Stats().EventsLost != 5 {
		t.Errorf("got %d events and %d lost, want %d, 5", got, r.c.Stats().EventsLost, MaxEvents)
	}
}
