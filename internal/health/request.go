package health

import (
	"slices"
	"sync/atomic"
	"time"
)

// maxTried is how many endpoints a request can have tried: one at first, then one for each retry.
const maxTried = 1 + MaxRetries

// Request is one request, or one session, while it goes on. It is filled by Cluster.Admit; the caller provides the
// memory. It must not be copied. Finish may be called by anyone; the rest by one goroutine at a time.
type Request struct {
	c     *Cluster
	start time.Time
	// open says that the request is counted, charged that it is counted as a retry.
	open, charged atomic.Bool
	// blamed says that an answer of an endpoint was a failure of its.
	blamed  atomic.Bool
	retries int
	// replayed says that a replay was decided on, replaying that the next attempt is that replay.
	replayed, replaying bool
	tried               [maxTried]*Endpoint
	tries               int
}

// Admit counts a request, unless there would be too many.
func (c *Cluster) Admit(r *Request, now time.Time) Refusal {
	if c.requests.tryAdd(0, c.cfg.Load().Limits.Requests, 0) != noHalf {
		c.stats.requestsRefused.Add(1)
		return ClusterRequests
	}
	*r = Request{c: c, start: now}
	r.open.Store(true)
	return Granted
}

// Finish ends the request. Its attempts are settled before. It says whether the request was still open.
func (r *Request) Finish() bool {
	if !r.open.Swap(false) {
		return false
	}
	r.discharge()
	r.c.requests.add(-1, 0)
	return true
}

// Tried returns the endpoints at which attempts have failed. The slice is valid until the next attempt.
func (r *Request) Tried() []*Endpoint { return r.tried[:r.tries] }

// Retries returns how many retries were granted.
func (r *Request) Retries() int { return r.retries }

// Deadline returns when an attempt that begins now has to end, and by which timeout.
func (r *Request) Deadline(now time.Time, repeatable bool) (time.Time, Expiry) {
	return r.c.cfg.Load().Timeouts.Attempt(r.start, now, repeatable)
}

// recharge counts the request as a retry, or lets the charge that it has already stand for the next one.
func (r *Request) recharge(cfg *Config, charged bool) Why {
	if !charged {
		return r.charge(cfg)
	}
	if why := r.c.requests.mayStay(cfg.Limits.Retries, &cfg.Retry.Budget); why != NoReason {
		r.c.stats.retriesRefused.Add(1)
		return why
	}
	if !r.open.Load() {
		return Settled // and the charge with it
	}
	r.c.stats.retries.Add(1)
	return NoReason
}

// charge counts the request as a retry. It returns what stands in the way, if anything does.
func (r *Request) charge(cfg *Config) Why {
	if why := r.c.requests.tryCharge(cfg.Limits.Retries, &cfg.Retry.Budget); why != NoReason {
		r.c.stats.retriesRefused.Add(1)
		return why
	}
	r.charged.Store(true)
	if !r.open.Load() {
		// Finish may have come before the charge, and not seen it.
		r.discharge()
		return Settled
	}
	r.c.stats.retries.Add(1)
	return NoReason
}

// discharge ends the charge, if there is one.
func (r *Request) discharge() {
	if r.charged.Swap(false) {
		r.c.requests.add(0, -1)
	}
}

// exclude notes that an endpoint was tried.
func (r *Request) exclude(e *Endpoint) {
	if r.tries < maxTried && !slices.Contains(r.Tried(), e) {
		r.tried[r.tries] = e
		r.tries++
	}
}

// another says whether an endpoint is offered, or in reserve, at which the request hasn't failed, but for the one that fails
// now.
func (r *Request) another(failing *Endpoint, now time.Time) bool {
	v := r.c.View(now)
	for i, e := range v.endpoints {
		if e != failing && (v.Offers(i) || v.Spares(i)) && !slices.Contains(r.Tried(), e) {
			return true
		}
	}
	return false
}

// Attempt is one attempt of a request at an endpoint. It is filled by Request.Try; the caller provides the memory. It
// must not be copied. It is settled once, by Done or by Fail: by whoever comes first.
type Attempt struct {
	r *Request
	e *Endpoint
	// state is one of the states below.
	state atomic.Uint32
	// retry is 1 if the attempt counts as a retry, else 0.
	retry int64
	// trial is the number of the trial that the attempt is; 0 if it is none.
	trial uint64
	// blamed says that the endpoint's health knows of its failure, and hears nothing more of it.
	blamed atomic.Bool
}

// The states of an attempt.
const (
	attemptSettled uint32 = iota
	attemptOpen
	// attemptConnected is an open one that is no retry any longer.
	attemptConnected
	// attemptProven is one whose endpoint's health knows of its success, too.
	attemptProven
)

// Try begins an attempt at an endpoint of a view, unless there would be too many at it.
func (r *Request) Try(a *Attempt, v *View, i int, now time.Time) Refusal {
	e := v.Endpoint(i)
	if why := r.try(a, e, v.trials != nil && v.trials.has(i), now); why != Granted {
		r.c.stats.attemptsRefused.Add(1)
		return why
	}
	if v.stance == FailOpen && !v.Spares(i) && a.trial == 0 {
		r.c.stats.failOpenPicks.Add(1)
	}
	r.c.stats.attempts.Add(1)
	if r.replaying {
		r.replaying = false
		r.c.stats.replays.Add(1)
	}
	return Granted
}

func (r *Request) try(a *Attempt, e *Endpoint, onTrial bool, now time.Time) Refusal {
	switch {
	case !r.open.Load():
		return Finished
	case e.closed.Load():
		return Closed
	}
	retry := int64(0)
	if r.charged.Load() {
		retry = 1
	}
	limits := e.limits.Load()
	at := e.attempts.tryAdd(retry, limits.Requests, limits.Retries)
	if at != noHalf {
		return refusal(at, EndpointRequests, EndpointRetries)
	}
	trial := uint64(0)
	if onTrial {
		var ok bool
		if trial, ok = r.c.claim(e, now); !ok {
			e.attempts.add(-1, -retry)
			return TrialTaken
		}
	}
	*a = Attempt{r: r, e: e, retry: retry, trial: trial}
	a.state.Store(attemptOpen)
	return Granted
}

// Endpoint returns the endpoint of the attempt.
func (a *Attempt) Endpoint() *Endpoint { return a.e }

// Trial says whether the attempt is a trial.
func (a *Attempt) Trial() bool { return a.trial != 0 }

// Connected says that the attempt has its connection, which may serve for hours. A retry is over with it: it must not use
// up the budget for hours. So is a trial, with a success: the next one must not wait for hours. To the health of any other
// endpoint a connection is no success, since one that accepts and then resets would never be found out: that takes Proven,
// or Done. Only the first call has an effect.
func (a *Attempt) Connected(now time.Time) {
	if a.trial != 0 {
		a.Proven(now)
		return
	}
	a.connected()
}

// Accepted says that the answer of the attempt is passed on, whatever it is: it may go on for hours, so that a retry is over,
// as with Connected. The endpoint's health learns nothing by it. Only the first call has an effect.
func (a *Attempt) Accepted() { a.connected() }

// connected takes the attempt out of the retries.
func (a *Attempt) connected() {
	if a.state.CompareAndSwap(attemptOpen, attemptConnected) && a.retry > 0 {
		a.e.attempts.add(0, -1)
		a.r.discharge()
	}
}

// Proven is Connected, and tells the endpoint's health of a success while the attempt goes on: the endpoint has said
// something. In the end its outcome tells no more, unless it is a failure. Only the first call has an effect.
func (a *Attempt) Proven(now time.Time) {
	a.connected()
	if a.state.CompareAndSwap(attemptConnected, attemptProven) && !a.blamed.Load() {
		a.r.c.settle(a.e, a.trial, Outcome{}, now)
	}
}

// Quiet says that an outcome would be no news: the time at which it is told doesn't matter then.
func (a *Attempt) Quiet(o Outcome) bool { return a.trial == 0 && a.r.c.quiet(a.e, o) }

// Done settles an attempt that isn't to be repeated, and says whether it was still open.
func (a *Attempt) Done(o Outcome, now time.Time) bool {
	was := a.state.Swap(attemptSettled)
	if was == attemptSettled {
		return false
	}
	a.settle(o, was, now)
	a.uncharge(was)
	return true
}

// Fail settles an attempt that has failed, and says what to do next. A retry is counted from here on, the wait before it
// included, until its attempt is settled, connected or accepted, or the request ends. random is 64 random bits.
func (a *Attempt) Fail(f Failure, random uint64, now time.Time) Decision {
	was := a.state.Swap(attemptSettled)
	if was == attemptSettled {
		return Decision{Why: Settled}
	}
	d := a.decide(&f, was, random, now)
	switch d.Action {
	case Replay, Move:
		a.replayed(&d, was, now)
	case Again:
		a.retried(d.Outcome, was, now)
	case Stop:
		a.settle(d.Outcome, was, now)
		a.uncharge(was)
		a.r.exclude(a.e)
	}
	return d
}

// Reject is Fail for an answer that is a failure, except that the attempt stays open if the failure stands: then it ends
// with the answer, which is passed on. So it does if there would be no endpoint for another attempt. f is an Answer, so that
// there is nothing to replay.
func (a *Attempt) Reject(f Failure, random uint64, now time.Time) Decision {
	if a.state.Load() == attemptSettled {
		return Decision{Why: Settled}
	}
	action, _ := a.r.c.cfg.Load().Retry.decide(&f, a.r.retries, a.r.replayed)
	if action == Again && !f.Elsewhere && !a.leaves(f.Outcome, now) {
		return Decision{Why: NoOther, Outcome: f.Outcome}
	}
	was := a.state.Load()
	d := a.decide(&f, was, random, now)
	if d.Action != Again {
		return d
	}
	if a.state.Swap(attemptSettled) == attemptSettled {
		a.r.discharge()
		return Decision{Why: Settled}
	}
	a.retried(d.Outcome, was, now)
	return d
}

// decide returns what to do about a failure. With Again the request is charged for the next attempt.
func (a *Attempt) decide(f *Failure, was uint32, random uint64, now time.Time) Decision {
	r, charged := a.r, a.asRetry(was) > 0
	switch action, why := r.c.cfg.Load().Retry.decide(f, r.retries, r.replayed); {
	case action == Stop:
		return Decision{Why: why, Outcome: f.Outcome}
	case action == Again:
		return r.retry(a.e, f, charged, random, now)
	case !a.stays(now):
		return r.instead(a.e, f, charged, random, now)
	}
	return Decision{Action: Replay, Outcome: Outcome{Kind: Stale}}
}

// retry charges the request for another attempt after a failure at an endpoint, unless something stands in the way.
func (r *Request) retry(e *Endpoint, f *Failure, charged bool, random uint64, now time.Time) Decision {
	cfg := r.c.cfg.Load()
	if f.Elsewhere && !r.another(e, now) {
		return Decision{Why: NoOther, Outcome: f.Outcome}
	}
	d := Decision{Action: Again, Outcome: f.Outcome, Delay: cfg.Retry.Backoff.Delay(r.retries+1, random)}
	if d.Why = OutOfTime; cfg.Timeouts.Leaves(r.start, now.Add(d.Delay)) {
		d.Why = r.recharge(cfg, charged)
	}
	if d.Why != NoReason {
		return Decision{Why: d.Why, Outcome: f.Outcome}
	}
	return d
}

// retried settles an attempt that is tried again. Its charge, if it had one, is that of the next.
func (a *Attempt) retried(o Outcome, was uint32, now time.Time) {
	a.settle(o, was, now)
	a.r.exclude(a.e)
	a.r.retries++
}

// settle takes the attempt out of the counts and tells the endpoint's health, if there is news.
func (a *Attempt) settle(o Outcome, was uint32, now time.Time) {
	c := a.r.c
	a.e.attempts.add(-1, -a.asRetry(was))
	if o.Kind == Timeout {
		c.stats.timeouts.Add(1)
	}
	if !a.blamed.Load() {
		a.tell(o, was, now)
	}
}

// tell tells the endpoint's health of an outcome, if there is news.
func (a *Attempt) tell(o Outcome, was uint32, now time.Time) {
	c := a.r.c
	fails, _ := c.cfg.Load().sees(o)
	if fails && o.Kind == Answer && a.r.blamed.Swap(true) {
		// A request that every endpoint answers with an error must not take out all of them: the first one has the blame.
		o, fails = Outcome{Kind: Aborted}, false
	}
	if was != attemptProven {
		c.settle(a.e, a.trial, o, now)
	} else if fails {
		c.settle(a.e, 0, o, now)
	}
}

// leaves says whether an endpoint is left for another attempt after an answer that is a failure. If it is only the one that has
// answered, its health has to know first: that answer may be what takes it out.
func (a *Attempt) leaves(o Outcome, now time.Time) bool {
	c := a.r.c
	v := c.View(now)
	for i, e := range v.endpoints {
		if e != a.e && (v.Offers(i) || v.Spares(i)) {
			return true
		}
	}
	if fails, _ := c.cfg.Load().sees(o); fails && !a.blamed.Swap(true) {
		a.tell(o, a.state.Load(), now)
	}
	v = c.View(now)
	return v.Offered()+v.Spare() > 0
}

// asRetry returns 1 if the attempt counts as a retry in a state, else 0.
func (a *Attempt) asRetry(was uint32) int64 {
	if was == attemptOpen {
		return a.retry
	}
	return 0
}

// uncharge ends the request's charge if it is for this attempt.
func (a *Attempt) uncharge(was uint32) {
	if a.asRetry(was) > 0 {
		a.r.discharge()
	}
}
