package cluster

import (
	"context"
	"slices"
	"time"

	"github.com/caddy-sluice/sluice/internal/balance"
	"github.com/caddy-sluice/sluice/internal/health"
	"github.com/caddy-sluice/sluice/modules/balancers"
)

// maxPicks is how many times Pick looks for another endpoint because the one that it had found was full, or had been
// offered for one attempt and taken by somebody else, beside once for each endpoint. More means that endpoints come and
// go faster than it can look.
const maxPicks = 16

// Key is the hash of what an endpoint is chosen by. The zero value is none.
type Key struct {
	hash uint64
	set  bool
}

// HashKey returns the key of a text. No text is no key.
func HashKey(text string) Key {
	if text == "" {
		return Key{}
	}
	return Key{balance.HashKey(text), true}
}

// Request is one request, or one session, at a cluster. The caller provides the memory, which must not be copied. It is
// used by one goroutine at a time, but for Finish.
type Request struct {
	request health.Request
	cluster *Cluster
	// tried are the endpoints at which attempts have failed, or for which there was no connection to be had. It lies in
	// room, as long as it fits.
	tried []*balancers.Live
	room  [1 + health.MaxRetries]*balancers.Live
	// full are those of tried at which no attempt has failed: they had no room, or were out.
	full []*Endpoint
	// failed says that an attempt has failed, and not only found its endpoint full: it may go to an endpoint in reserve once
	// attempts have failed at all others.
	failed bool
}

// Admit begins a request, unless there are too many. Then the error is a *Refused. Finish ends it.
func (c *Cluster) Admit(r *Request) error {
	c.state.await()
	r.cluster, r.tried, r.full, r.failed = c, r.room[:0], nil, false
	var now time.Time
	if c.set.policy.Timeouts.Request > 0 {
		now = time.Now() // which costs as much as the rest, and is needed for nothing else
	}
	if why := c.state.health.Admit(&r.request, now); why != health.Granted {
		return c.refuse(why)
	}
	return nil
}

// Finish ends the request, whose leases are settled. It says whether it was still open.
func (r *Request) Finish() bool { return r.request.Finish() }

// Cluster returns the cluster of the request.
func (r *Request) Cluster() *Cluster { return r.cluster }

// Retries returns how many retries were granted.
func (r *Request) Retries() int { return r.request.Retries() }

// Deadline returns when an attempt that begins now has to end, and by which timeout.
func (r *Request) Deadline(now time.Time, repeatable bool) (time.Time, health.Expiry) {
	return r.request.Deadline(now, repeatable)
}

// Tried says whether an attempt at an endpoint has failed.
func (r *Request) Tried(e *Endpoint) bool { return slices.Contains(r.tried, &e.live) }

// Left returns how many of the endpoints that are offered, or in reserve, have not been tried, at least about: the next pick
// knows.
func (r *Request) Left() int {
	view := r.cluster.state.health.View(time.Now())
	return max(view.Offered()+view.Spare()-len(r.tried), 0)
}

// exclude notes that an attempt at an endpoint has failed.
func (r *Request) exclude(e *Endpoint) {
	r.failed = true
	if !r.Tried(e) {
		r.tried = append(r.tried, &e.live)
	} else if i := slices.Index(r.full, e); i >= 0 {
		r.full = slices.Delete(r.full, i, i+1)
	}
}

// pass notes that an endpoint was tried at which nothing has failed: it had no room, or was out.
func (r *Request) pass(e *Endpoint) {
	if !r.Tried(e) {
		r.tried, r.full = append(r.tried, &e.live), append(r.full, e)
	}
}

// spills says whether the next attempt may go to an endpoint in reserve, as far as what was tried is known: a limit is no
// reason for that.
func (r *Request) spills(roster *roster, view *health.View) bool {
	return r.failed && !slices.ContainsFunc(r.full, func(e *Endpoint) bool {
		place := slices.Index(roster.endpoints, e)
		return place >= 0 && view.Offers(place)
	})
}

// Pick leases an endpoint for the next attempt: one at which none has failed, if there is one. When attempts have failed at
// all that are offered, it is one in reserve: a backup, or one of a priority that isn't served. The error is a *Refused;
// then there is no lease. key is what to choose by, for a balancer that has one. No lease of the request is open.
func (r *Request) Pick(l *Lease, key Key) error { return r.pick(l, key, 0) }

// PickOther is Pick for those that come back to no endpoint: it refuses if all were tried.
func (r *Request) PickOther(l *Lease, key Key) error { return r.pick(l, key, len(r.tried)) }

// pick is Pick, without so many of those that were tried last.
func (r *Request) pick(l *Lease, key Key, without int) error {
	c := r.cluster
	query := balancers.Query{Key: key.hash, HasKey: key.set, Tried: r.tried, Without: without}
	if c.key.Source != balancers.NoKey && !key.set {
		c.state.keyless.Add(1)
	}
	why, waits := health.NoEndpoint, false
	for picks := 0; ; picks++ {
		var now time.Time
		if !c.state.health.Timeless() {
			now = time.Now()
		}
		query.Seed = c.state.random()
		roster, view := c.state.look(now)
		query.Spill = !waits && r.spills(roster, view)
		place, ok := roster.pick(&query)
		if !ok && why == health.NoEndpoint && r.crowded(roster, view, without > 0) {
			c.state.crowded.Add(1)
			why = health.EndpointRequests
		}
		if !ok {
			return c.refuse(why)
		}
		e := roster.endpoints[place]
		if why = health.Closed; view.Offers(place) || query.Spill && view.Spares(place) {
			why = r.try(l, e, view, place, now)
		} else {
			e.live.Release()
		}
		if why == health.Granted {
			return nil
		}
		if !why.OfEndpoint() || picks > maxPicks+len(roster.endpoints) {
			return c.refuse(why)
		}
		if why == health.EndpointRetries {
			query.Tried = append(query.Tried, &e.live)
			query.Without++
			waits = waits || view.Offers(place)
		}
	}
}

// crowded says whether nothing could be picked since endpoints are full: those that are offered, but for the ones at which an
// attempt has failed, if it is about others.
func (r *Request) crowded(roster *roster, view *health.View, others bool) bool {
	if !others {
		return view.Offered() > 0
	}
	for place, e := range roster.endpoints {
		if view.Offers(place) && (!r.Tried(e) || slices.Contains(r.full, e)) {
			return true
		}
	}
	return false
}

// try makes a lease of a pick, or gives the pick back.
func (r *Request) try(l *Lease, e *Endpoint, view *health.View, place int, now time.Time) health.Refusal {
	why := r.request.Try(&l.attempt, view, place, now)
	if why == health.Granted {
		l.request, l.endpoint = r, e
		return why
	}
	e.live.Release()
	if why == health.EndpointRequests {
		e.barWhile(view.Endpoint(place).Full)
	}
	return why
}

// Wait waits before a retry, for as long as the decision says. It reports whether ctx is still open after it.
func Wait(ctx context.Context, delay time.Duration) bool {
	if delay <= 0 {
		return ctx.Err() == nil
	}
	timer := time.NewTimer(delay)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}

// barWhile keeps picks away from an endpoint that has no room. Whoever ends something there lets them in again, unless that
// was between the refusal and now: then full says no.
func (e *Endpoint) barWhile(full func() bool) {
	e.live.Bar(balance.Full)
	if !full() {
		e.live.Unbar(balance.Full)
	}
}

// unbar lets picks in again: something has ended, or a limit may be another one. If there is no room all the same, the next
// pick finds out.
func (e *Endpoint) unbar() {
	if e.live.Bars()&balance.Full != 0 {
		e.live.Unbar(balance.Full)
	}
}

// Lease is one attempt at an endpoint, from Pick until it is settled, by Done or by Fail, whoever comes first. The caller
// provides the memory, which must not be copied, and may be used again after that.
type Lease struct {
	attempt  health.Attempt
	request  *Request
	endpoint *Endpoint

	// onStop, prev and next are guarded by the endpoint's holders.
	onStop     func(Cause)
	prev, next *Lease
	// held says that the lease may be on that list.
	held bool
	// err is the error of the attempt, as text; empty if there is none.
	err string
}

// Endpoint returns the endpoint.
func (l *Lease) Endpoint() *Endpoint { return l.endpoint }

// Trial says whether the attempt is a trial: the one that an unhealthy endpoint is offered for. It ends with Connected or
// Proven, so that the next one need not wait for the end of a session or an answer.
func (l *Lease) Trial() bool { return l.attempt.Trial() }

// Connected tells that a session that may last for hours has its connection: it is no retry any longer, and a trial has
// gone well. It ends no streak of failures, see Proven.
func (l *Lease) Connected() {
	l.attempt.Connected(time.Now())
	l.request.cluster.state.stirred()
}

// Awaited says whether Proven would be news by now: the endpoint has failed, and nobody knows yet that this attempt works.
func (l *Lease) Awaited() bool { return !l.attempt.Trial() && !l.attempt.Quiet(Outcome{}) }

// Proven tells that the endpoint works, while the attempt goes on: it has answered. That ends a streak of failures. A
// failure later on counts all the same.
func (l *Lease) Proven() {
	l.attempt.Proven(time.Now())
	l.request.cluster.state.stirred()
}

// Accepted tells that the answer is passed on, which may take for hours: the attempt is no retry any longer.
func (l *Lease) Accepted() { l.attempt.Accepted() }

// OnStop sets f to be called, at most once for each cause, when what goes on at the endpoint is to end: at once if it has
// to already. After the lease is settled f isn't called any more, but it may be running. f must not block. It is called
// before anybody can settle the lease.
func (l *Lease) OnStop(f func(Cause)) {
	l.held = true
	l.endpoint.holders.add(l, f)
}

// Because says which error the attempt has failed with, for those who ask why the endpoint is unhealthy. It is called
// before the lease is settled, and only by who settles it.
func (l *Lease) Because(err error) {
	if err != nil {
		l.err = clip(err.Error())
	}
}

// Done settles the lease for good, and says whether it was open.
func (l *Lease) Done(o Outcome) bool {
	var now time.Time
	if !l.attempt.Quiet(o) {
		now = time.Now()
	}
	if !l.attempt.Done(o, now) {
		return false
	}
	l.settled(o)
	return true
}

// Fail settles the lease of an attempt that has failed, and says what to do next.
func (l *Lease) Fail(f Failure) Decision {
	d := l.attempt.Fail(f, l.request.cluster.state.random(), time.Now())
	if d.Why == health.Settled {
		return d
	}
	l.settled(d.Outcome)
	switch d.Action {
	case health.Replay: // Repick knows more
	case health.Move:
		l.request.pass(l.endpoint)
	default:
		l.request.exclude(l.endpoint)
	}
	return d
}

// Reject is Fail for an answer that is a failure, except that the lease stays open if the failure stands: then it ends with
// the answer, which is passed on. It stands, too, if there would be no endpoint for another attempt.
func (l *Lease) Reject(f Failure) Decision {
	d := l.attempt.Reject(f, l.request.cluster.state.random(), time.Now())
	if d.Action == health.Again {
		l.settled(d.Outcome)
		l.request.exclude(l.endpoint)
	}
	if d.Why == health.NoOther { // its health knows already
		l.endpoint.note(d.Outcome, l.err)
		l.request.cluster.state.stirred()
	}
	return d
}

// settled gives back what the lease holds, and counts its outcome.
func (l *Lease) settled(o Outcome) {
	e := l.endpoint
	if l.held {
		l.held = false
		e.holders.remove(l)
	}
	e.live.Release()
	e.unbar()
	e.outcomes[o.Kind].Add(1)
	if o.Kind != health.Success {
		e.note(o, l.err)
	}
	l.err = ""
	l.request.cluster.state.stirred()
}
