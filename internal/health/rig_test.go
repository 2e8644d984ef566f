package health

import (
	"slices"
	"strconv"
	"testing"
	"time"
)

// rig is a cluster in a test, with a clock of its own.
type rig struct {
	t   *testing.T
	c   *Cluster
	now time.Time
}

// newRig returns a cluster of n endpoints without own limits, whose keys are their numbers.
func newRig(t *testing.T, cfg *Config, n int) *rig {
	t.Helper()
	if err := cfg.Validate(); err != nil {
		t.Fatal(err)
	}
	r := &rig{t: t, c: NewCluster(cfg, t0), now: t0}
	r.members(numbered(n)...)
	return r
}

func numbered(n int) []Member {
	list := make([]Member, n)
	for i := range list {
		list[i].Key = strconv.Itoa(i)
	}
	return list
}

func (r *rig) members(list ...Member) {
	r.t.Helper()
	if err := r.c.SetMembers(list, r.now); err != nil {
		r.t.Fatal(err)
	}
}

// at sets the time since the begin.
func (r *rig) at(since time.Duration) { r.now = t0.Add(since) }

func (r *rig) endpoint(i int) *Endpoint { return r.c.View(r.now).Endpoint(i) }

// admit begins a request that must be granted.
func (r *rig) admit() *Request {
	r.t.Helper()
	req := new(Request)
	if why := r.c.Admit(req, r.now); why != Granted {
		r.t.Fatalf("admit: got %v", why)
	}
	return req
}

// try begins an attempt that must be granted.
func (r *rig) try(req *Request, i int) *Attempt {
	r.t.Helper()
	a := new(Attempt)
	if why := req.Try(a, r.c.View(r.now), i, r.now); why != Granted {
		r.t.Fatalf("try at %d: got %v", i, why)
	}
	return a
}

// serve makes n whole requests at an endpoint that end in the same way.
func (r *rig) serve(i, n int, o Outcome) {
	r.t.Helper()
	for range n {
		req := r.admit()
		r.try(req, i).Done(o, r.now)
		req.Finish()
	}
}

func (r *rig) fail(i, n int) { r.t.Helper(); r.serve(i, n, Outcome{Kind: Connect}) }

// check takes results of active checks: P for one that has passed, F for one that has failed. It returns their number
// when the health has changed, 0 if it hasn't.
func (r *rig) check(i int, results string) (changed int) {
	for n, result := range results {
		if r.c.Check(r.endpoint(i), result == 'P', r.now) {
			changed = n + 1
		}
	}
	return changed
}

func (r *rig) wantOffers(want ...int) {
	r.t.Helper()
	v := r.c.View(r.now)
	var got []int
	for i := range v.Len() {
		if v.Offers(i) {
			got = append(got, i)
		}
	}
	if !slices.Equal(got, want) || v.Offered() != len(want) {
		r.t.Errorf("after %v: got %v (%d, %v) offered, want %v", r.now.Sub(t0), got, v.Offered(), v.Stance(), want)
	}
}

func (r *rig) wantReason(i int, want Reason) {
	r.t.Helper()
	if got := r.c.Statuses(r.now)[i].Reason; got != want {
		r.t.Errorf("after %v: got %v for %d, want %v", r.now.Sub(t0), got, i, want)
	}
}

// wantIdle checks that nothing is under way.
func (r *rig) wantIdle() {
	r.t.Helper()
	if s := r.c.Stats(); s.RequestsActive != 0 || s.RetriesActive != 0 || s.ConnectionsActive != 0 || s.PendingActive != 0 {
		r.t.Errorf("got something under way: %+v", s)
	}
}

func outlier(failures int) Outlier {
	return Outlier{ConsecutiveFailures: failures, Time: DefaultEjectionTime, MaxPercent: DefaultMaxEjectionPercent}
}
