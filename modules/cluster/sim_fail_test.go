package cluster

import (
	"slices"
	"time"

	"github.com/caddy-sluice/sluice/internal/health"
)

// fail settles an attempt that may be tried again.
func (s *sim) fail(r *simRequest, o Outcome) {
	l, d := r.lease, Decision{}
	f := Failure{
		Outcome: o, Repeatable: !s.oneIn(5), Eligible: !s.oneIn(5), Reused: s.oneIn(3), Begun: s.oneIn(8), Passed: s.oneIn(8),
		Unseen: s.oneIn(3), Elsewhere: s.oneIn(3),
	}
	s.settles(r, o, func() { d = l.Fail(f) })
	r.charged = r.charged && (!l.charged || d.Action == health.Replay || d.Action == health.Move)
	if d.Action == health.Replay {
		s.note("replay", "%s", l.Endpoint().text)
		r.again, r.failure = l, f
		return
	}
	if d.Action == health.Move {
		r.pass(l.Endpoint())
	} else {
		r.exclude(l.Endpoint())
	}
	s.decided(r, l.Endpoint(), &f, d)
}

// exclude notes that a request has failed at an endpoint.
func (r *simRequest) exclude(e *Endpoint) {
	r.pass(e)
	r.lost = append(r.lost, e)
}

// pass notes that a request was tried at an endpoint.
func (r *simRequest) pass(e *Endpoint) {
	if !slices.Contains(r.failed, e) {
		r.failed = append(r.failed, e)
	}
}

// decided takes what was decided about a failure at an endpoint, unless that is a replay.
func (s *sim) decided(r *simRequest, e *Endpoint, f *Failure, d Decision) {
	policy := &s.c.set.policy
	switch d.Action {
	case health.Move:
		s.note("move", "from %s", e.text)
		if !s.another(r) || !f.Repeatable || f.Passed || !f.Reused {
			s.t.Errorf("moved after %+v", f)
		}
	case health.Again:
		r.charged = true
		s.note("retry", "%s %v", e.text, d.Delay)
		stats := s.s.health.Stats()
		if stats.RetriesActive > policy.Retry.Budget.Bound(stats.RequestsActive) ||
			policy.Limits.Retries > 0 && stats.RetriesActive > policy.Limits.Retries {
			s.t.Errorf("got %d retries beside %d requests, with %+v", stats.RetriesActive, stats.RequestsActive, policy.Retry.Budget)
		}
		if r.Retries() > policy.Retry.Max || f.Passed || !f.Repeatable || !f.Eligible {
			s.t.Errorf("got retry %d of %d after %+v", r.Retries(), policy.Retry.Max, f)
		}
	default:
		s.note("stop", "%s %v", e.text, d.Why)
		r.over = true
	}
}

// missed has a request go on whose replay was refused. It isn't lost by that: it goes to another endpoint that is offered,
// unless it has used up the retries that there may be.
func (s *sim) missed(r *simRequest, e *Endpoint, d Decision) {
	s.note("missed", "%s %v", e.text, d.Why)
	r.pass(e)
	r.retried = r.retried || d.Action == health.Again
	used := d.Why == health.Exhausted || d.Why == health.OutOfTime || d.Why == health.OverLimit || d.Why == health.OverBudget
	if d.Action == health.Stop && s.another(r) && !used {
		s.t.Errorf("got %v though another endpoint is offered", d.Why)
	}
	r.charged = r.charged && d.Action == health.Move
	s.decided(r, e, &r.failure, d)
}

// another says whether an endpoint is offered at which a request hasn't failed.
func (s *sim) another(r *simRequest) bool {
	roster, view := s.s.look(time.Now())
	for i, e := range roster.endpoints {
		if (view.Offers(i) || view.Spares(i)) && !slices.Contains(r.failed, e) {
			return true
		}
	}
	return false
}

// crowd gives up an attempt for which there is no connection. If it is a retry, the next one is the same.
func (s *sim) crowd(r *simRequest) {
	l, retries := r.lease, s.s.health.Stats().RetriesActive
	s.note("crowded", "%s", l.Endpoint().text)
	l.Crowded()
	if got := s.s.health.Stats().RetriesActive; got != retries {
		s.t.Errorf("got %d retries after an endpoint had no room, want %d", got, retries)
	}
	s.settled[l.Endpoint()]++
	l.open, r.lease = false, nil
	r.pass(l.Endpoint())
	r.tries-- // it doesn't count
}
