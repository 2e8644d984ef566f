package health

import "time"

// Missed says what to do instead of a replay that was decided on, and for which the endpoint had no room or was out by
// then. a is the attempt, and f the failure, that it was decided for.
func (r *Request) Missed(a *Attempt, f Failure, random uint64, now time.Time) Decision {
	d := r.instead(a.e, &f, r.charged.Load(), random, now)
	r.exclude(a.e)
	r.replaying = d.Action == Move
	switch d.Action {
	case Again:
		r.retries++
	case Stop:
		r.discharge()
	}
	return d
}

// Crowded settles an attempt for which the endpoint had no room for a connection. That says nothing about it. The charge
// stays with the request: the next attempt is the same retry, if this was one.
func (a *Attempt) Crowded(now time.Time) bool {
	was := a.state.Swap(attemptSettled)
	if was == attemptSettled {
		return false
	}
	a.settle(Outcome{Kind: Aborted}, was, now)
	a.r.exclude(a.e)
	return true
}

// replayed settles an attempt that is replayed, at its endpoint or at another one. If it was a retry, that one is the same:
// the charge stays.
func (a *Attempt) replayed(d *Decision, was uint32, now time.Time) {
	a.r.replayed, a.r.replaying = true, true
	a.settle(d.Outcome, was, now)
	if d.Action == Move {
		a.r.exclude(a.e)
	}
}

// stays says whether the endpoint of the attempt would take another one in its place.
func (a *Attempt) stays(now time.Time) bool {
	e := a.e
	v := a.r.c.View(now)
	i := v.Index(e)
	if i < 0 || e.closed.Load() || !v.Offers(i) && !v.Spares(i) && a.trial == 0 {
		return false
	}
	limit := e.limits.Load().Requests
	return limit == 0 || e.Load() <= limit
}

// instead returns what to do about a stale connection whose endpoint doesn't stay: what the policy says about such a
// failure or, if it doesn't cover the request, the replay at another endpoint. With Again the request is charged.
func (r *Request) instead(e *Endpoint, f *Failure, charged bool, random uint64, now time.Time) Decision {
	action, why := r.c.cfg.Load().Retry.decide(f, r.retries, true)
	switch {
	case action == Again:
		return r.retry(e, f, charged, random, now)
	case why != NotCovered:
		return Decision{Why: why, Outcome: f.Outcome}
	case !r.another(e, now):
		return Decision{Why: NoOther, Outcome: f.Outcome}
	}
	return Decision{Action: Move, Outcome: Outcome{Kind: Stale}}
}
