package health

import "slices"

// fail settles an attempt that may be tried again.
func (s *sim) fail(req *simRequest) {
	a := req.attempt
	f := Failure{
		Outcome: makeOutcome(s.r, 0), Repeatable: !oneIn(s.r, 6), Eligible: !oneIn(s.r, 6), Reused: oneIn(s.r, 3),
		Begun: oneIn(s.r, 8), Passed: oneIn(s.r, 12), Safe: oneIn(s.r, 4), Unseen: oneIn(s.r, 4), Elsewhere: oneIn(s.r, 3),
	}
	random := s.r.Uint64()
	want := s.wantFail(req, &f, random)
	if f.Kind == Answer && oneIn(s.r, 2) {
		s.reject(req, f, random, want)
		return
	}
	s.settled(req, want.Outcome, want.Action == Replay || want.Action == Move)
	if want.Action == Replay {
		req.again, req.failure = a, f
	} else {
		req.exclude(a.e.key)
	}
	req.replaying = want.Action == Replay || want.Action == Move
	req.replayed = req.replayed || req.replaying
	if want.Action == Again {
		want = s.wantAgain(req, want)
	}
	got := a.a.Fail(f, random, s.now)
	s.note("fail at %s: %+v: %+v", a.e.key, f, got)
	s.decided(req, got, want)
	if again := a.a.Fail(f, random, s.now); again.Why != Settled {
		s.t.Errorf("the second time: got %+v", again)
	}
	s.seen.whys[Settled]++
}

// exclude notes that a request has failed at an endpoint.
func (req *simRequest) exclude(key string) {
	if !slices.Contains(req.failed, key) {
		req.failed = append(req.failed, key)
	}
}

// decided checks what was decided about a request whose attempt is settled.
func (s *sim) decided(req *simRequest, got, want Decision) {
	if got != want {
		s.t.Errorf("got %+v, want %+v", got, want)
	}
	s.seen.whys[got.Why]++
	s.seen.moves += one(got.Action == Move)
	req.over = got.Action == Stop
	if tried := len(req.r.Tried()); tried != len(req.failed) {
		s.t.Errorf("got %d endpoints tried, want %d", tried, len(req.failed))
	}
}

// missed has a request go on whose replay was refused: no request that another endpoint could serve may be lost by that.
func (s *sim) missed(req *simRequest) {
	a := req.again
	req.again = nil
	random := s.r.Uint64()
	want := s.wantInstead(req, a.e.key, &req.failure, random)
	if want.Action != Move {
		s.discharge(req)
	}
	req.exclude(a.e.key)
	req.replaying = want.Action == Move
	if want.Action == Again {
		want = s.wantAgain(req, want)
	}
	got := req.r.Missed(&a.a, req.failure, random, s.now)
	s.note("missed at %s: %+v: %+v", a.e.key, req.failure, got)
	s.decided(req, got, want)
	s.seen.missed++
}

// crowded gives up an attempt for which there was no connection, twice. What is charged stays so for the next one.
func (s *sim) crowded(req *simRequest) {
	a := req.attempt
	s.note("crowded at %s", a.e.key)
	s.settled(req, Outcome{Kind: Aborted}, true)
	req.exclude(a.e.key)
	if !a.a.Crowded(s.now) || a.a.Crowded(s.now) {
		s.t.Errorf("got a first time false or a second time true")
	}
	// It is no retry, and as many as there are endpoints may follow.
	req.tries--
	s.seen.crowded++
}

// reject settles an attempt whose answer is tried again. If it stands, the attempt goes on as if nothing had been asked.
func (s *sim) reject(req *simRequest, f Failure, random uint64, want Decision) {
	a, charged := req.attempt, req.charged
	alone := want.Action == Again && !s.others(a.e.key)
	var got Decision
	if alone {
		got = a.a.Reject(f, random, s.now)
		s.blame(req, f.Outcome)
		if v := s.c.View(s.now); v.Offered()+v.Spare() == 0 {
			want = Decision{Why: NoOther, Outcome: f.Outcome}
		}
	}
	if want.Action == Again {
		// What the attempt has of the budget doesn't stand in the way of the next.
		s.m.retries -= int64(one(a.retry))
		want = s.wantAgain(req, want)
		s.m.retries += int64(one(a.retry && want.Action == Stop))
	}
	if want.Action == Again {
		s.settled(req, want.Outcome, true)
		req.exclude(a.e.key)
	} else if req.charged != charged {
		s.t.Errorf("the model has charged what stands")
	}
	if !alone {
		got = a.a.Reject(f, random, s.now)
	}
	s.note("reject at %s: %+v: %+v", a.e.key, f, got)
	if got != want {
		s.t.Errorf("got %+v, want %+v", got, want)
	}
	s.seen.whys[got.Why]++
	if got.Action != Again {
		return
	}
	if again := a.a.Reject(f, random, s.now); again.Why != Settled || a.a.Done(f.Outcome, s.now) {
		s.t.Errorf("the second time: got %+v", again)
	}
}

// others says whether an endpoint is offered, or in reserve, apart from one.
func (s *sim) others(key string) bool {
	return s.another(new(simRequest), key)
}

// blame tells the model's health of an answer whose attempt goes on.
func (s *sim) blame(req *simRequest, o Outcome) {
	if a := req.attempt; s.m.fails(o) {
		s.tell(req, a, o)
		a.blamed = true
	}
}

// wantFail returns what must be said to a failure, apart from time and budget.
func (s *sim) wantFail(req *simRequest, f *Failure, random uint64) Decision {
	a := req.attempt
	switch {
	case f.Passed || f.Begun && f.Kind != Answer:
		return Decision{Why: AnswerBegun, Outcome: f.Outcome}
	case !f.Repeatable:
		return Decision{Why: NotRepeatable, Outcome: f.Outcome}
	case !f.Reused || f.Kind != Reset || req.replayed || !f.Safe && !f.Unseen && !f.Eligible:
		return s.wantRetry(req, a.e.key, f, random)
	case !s.stays(a):
		return s.wantInstead(req, a.e.key, f, random)
	}
	return Decision{Action: Replay, Outcome: Outcome{Kind: Stale}}
}

// stays says whether the endpoint of an attempt would take another one for it.
func (s *sim) stays(a *simAttempt) bool {
	v, limit := s.c.View(s.now), a.e.member.Limits.Requests
	i := v.Index(a.a.Endpoint())
	return i >= 0 && (v.Offers(i) || v.Spares(i) || a.trial) && !a.e.override.Mode.closed() && (limit == 0 || a.e.attempts <= limit)
}

// wantInstead is wantFail for a stale connection that can't be replaced at its endpoint.
func (s *sim) wantInstead(req *simRequest, key string, f *Failure, random uint64) Decision {
	d := s.wantRetry(req, key, f, random)
	switch {
	case d.Why != NotCovered:
		return d
	case !s.another(req, key):
		return Decision{Why: NoOther, Outcome: f.Outcome}
	}
	return Decision{Action: Move, Outcome: Outcome{Kind: Stale}}
}

// wantRetry returns what the policy must say to a failure, apart from time and budget.
func (s *sim) wantRetry(req *simRequest, key string, f *Failure, random uint64) Decision {
	p := &s.m.cfg.Retry
	covered := p.On.Has(f.Kind)
	if f.Kind == Answer {
		covered = p.Statuses.Has(f.Status)
	}
	d := Decision{Outcome: f.Outcome}
	switch {
	case !f.Eligible || !covered:
		d.Why = NotCovered
	case req.retries >= p.Max:
		d.Why = Exhausted
	case f.Elsewhere && !s.another(req, key):
		d.Why = NoOther
	default:
		d.Action = Again
		d.Delay = p.Backoff.Delay(req.retries+1, random)
	}
	return d
}

// another says whether an endpoint is offered at which a request hasn't failed, apart from one.
func (s *sim) another(req *simRequest, key string) bool {
	v := s.c.View(s.now)
	for i := range v.Len() {
		if k := v.Endpoint(i).Key(); (v.Offers(i) || v.Spares(i)) && k != key && !slices.Contains(req.failed, k) {
			return true
		}
	}
	return false
}

// wantAgain looks at time and budget. The failed attempt was settled.
func (s *sim) wantAgain(req *simRequest, d Decision) Decision {
	cfg := s.m.cfg
	bound := max(int64(cfg.Retry.Budget.Min), s.m.requests*int64(cfg.Retry.Budget.Percent)/100)
	switch {
	case cfg.Timeouts.Request > 0 && s.now.Add(d.Delay).Sub(req.start) >= cfg.Timeouts.Request:
		return Decision{Why: OutOfTime, Outcome: d.Outcome}
	case cfg.Limits.Retries > 0 && s.m.retries >= cfg.Limits.Retries:
		return Decision{Why: OverLimit, Outcome: d.Outcome}
	case s.m.retries >= bound:
		return Decision{Why: OverBudget, Outcome: d.Outcome}
	}
	s.m.retries++
	req.charged = true
	req.retries++
	return d
}
