package health

import "slices"

// admit begins a request.
func (s *sim) admit() {
	req := &simRequest{start: s.now}
	want := Granted
	if limit := s.m.cfg.Limits.Requests; limit > 0 && s.m.requests >= limit {
		want = ClusterRequests
	}
	if !s.refused("admit", s.c.Admit(&req.r, s.now), want) {
		s.m.requests++
		s.requests = append(s.requests, req)
	}
}

// refused checks a refusal, and says whether it is one.
func (s *sim) refused(what string, got, want Refusal) bool {
	s.note("%s: %v", what, got)
	if got != want {
		s.t.Errorf("%s: got %v, want %v", what, got, want)
	}
	s.seen.refusals[got]++
	return got != Granted
}

// progress moves a request on.
func (s *sim) progress() {
	if len(s.requests) == 0 {
		return
	}
	i := s.r.IntN(len(s.requests))
	req := s.requests[i]
	switch {
	case req.over, oneIn(s.r, 12):
		s.finish(i)
	case req.attempt == nil:
		s.try(req)
	case oneIn(s.r, 8):
		s.connected(req.attempt)
	case oneIn(s.r, 8):
		s.proven(req.attempt)
	case oneIn(s.r, 2):
		s.done(req, makeOutcome(s.r, s.luck))
	default:
		s.fail(req)
	}
}

// try begins an attempt: a replay at its endpoint, else one at an endpoint that is offered, now and then at one that
// isn't.
func (s *sim) try(req *simRequest) {
	v := s.c.View(s.now)
	var choice []int
	for i := range v.Len() {
		if v.Offers(i) && !slices.Contains(req.failed, v.Endpoint(i).Key()) || oneIn(s.r, 30) {
			choice = append(choice, i)
		}
	}
	if i := slices.Index(v.endpoints, req.again); i >= 0 {
		choice = []int{i}
	}
	if len(choice) == 0 {
		return
	}
	i := pick(s.r, choice...)
	s.tryAt(req, v, i)
	if next := s.requests[s.r.IntN(len(s.requests))]; v.trials != nil && v.trials.has(i) && next.attempt == nil && !next.over {
		// Somebody else has seen the same view.
		s.tryAt(next, v, i)
	}
}

// tryAt begins an attempt at an endpoint of a view.
func (s *sim) tryAt(req *simRequest, v *View, i int) {
	a := &simAttempt{of: req, e: s.m.all[v.Endpoint(i).Key()], retry: req.charged}
	trial := v.trials != nil && v.trials.has(i)
	if s.refused("try at "+a.e.key, req.r.Try(&a.a, v, i, s.now), s.wantTry(a, trial)) {
		return
	}
	s.attempts++
	req.tries++
	req.again = nil
	if req.tries > 1+req.retries+one(req.replayed) {
		s.t.Errorf("got %d attempts and %d retries in a request", req.tries, req.retries)
	}
	if trial {
		s.m.trials++
		a.e.onTrial, a.trial = a, true
	}
	a.e.attempts++
	a.e.retries += int64(one(a.retry))
	req.attempt = a
}

// wantTry returns what must become of an attempt that is begun.
func (s *sim) wantTry(a *simAttempt, trial bool) Refusal {
	limits := a.e.member.Limits
	switch {
	case a.e.override.Mode == Drain || a.e.override.Mode == Disabled:
		return Closed
	case limits.Requests > 0 && a.e.attempts >= limits.Requests:
		return EndpointRequests
	case a.retry && limits.Retries > 0 && a.e.retries >= limits.Retries:
		return EndpointRetries
	case trial && !s.m.wantsTrial(a.e):
		return TrialTaken
	}
	return Granted
}

// settled takes an attempt out of the model's counts.
func (s *sim) settled(req *simRequest, o Outcome, keepCharge bool) {
	a := req.attempt
	req.attempt = nil
	a.e.attempts--
	a.e.retries -= int64(one(a.retry))
	if a.retry && !keepCharge {
		s.discharge(req)
	}
	if o.Kind == Answer && s.m.fails(o) {
		if req.blamed {
			o = Outcome{Kind: Aborted}
		}
		req.blamed = true
	}
	s.m.settle(a.e, a, o)
}

// connected tells of a connection, twice.
func (s *sim) connected(a *simAttempt) {
	s.note("connected at %s", a.e.key)
	s.noRetry(a)
	if a.trial && !a.proven {
		s.m.settle(a.e, a, Outcome{})
		a.proven = true
	}
	a.a.Connected(s.now)
	a.a.Connected(s.now)
}

// proven tells of a success, twice.
func (s *sim) proven(a *simAttempt) {
	s.note("proven at %s", a.e.key)
	s.noRetry(a)
	if !a.proven {
		s.m.settle(a.e, a, Outcome{})
	}
	a.proven = true
	a.a.Proven(s.now)
	a.a.Proven(s.now)
}

// noRetry takes an attempt out of the model's retries.
func (s *sim) noRetry(a *simAttempt) {
	if a.retry {
		a.e.retries--
		s.discharge(a.of)
	}
	a.retry = false
}

func (s *sim) discharge(req *simRequest) {
	s.m.retries -= int64(one(req.charged))
	req.charged = false
}

// done settles an attempt that isn't tried again, twice.
func (s *sim) done(req *simRequest, o Outcome) {
	a := req.attempt
	req.over = true
	s.note("done at %s: %+v", a.e.key, o)
	s.settled(req, o, false)
	if !a.a.Done(o, s.now) || a.a.Done(Outcome{Kind: Connect}, s.now) {
		s.t.Errorf("got a first time false or a second time true")
	}
}

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
	s.settled(req, want.Outcome, want.Action == Replay)
	if want.Action == Replay {
		req.replayed, req.again = true, a.a.Endpoint()
	} else if !slices.Contains(req.failed, a.e.key) {
		req.failed = append(req.failed, a.e.key)
	}
	if want.Action == Again {
		want = s.wantAgain(req, want)
	}
	got := a.a.Fail(f, random, s.now)
	s.note("fail at %s: %+v: %+v", a.e.key, f, got)
	if got != want {
		s.t.Errorf("got %+v, want %+v", got, want)
	}
	s.seen.whys[got.Why]++
	req.over = got.Action == Stop
	if again := a.a.Fail(f, random, s.now); again.Why != Settled {
		s.t.Errorf("the second time: got %+v", again)
	}
	s.seen.whys[Settled]++
	if tried := len(req.r.Tried()); tried != len(req.failed) {
		s.t.Errorf("got %d endpoints tried, want %d", tried, len(req.failed))
	}
}

// reject settles an attempt whose answer is tried again. If it stands, the attempt goes on as if nothing had been asked.
func (s *sim) reject(req *simRequest, f Failure, random uint64, want Decision) {
	a, charged := req.attempt, req.charged
	if want.Action == Again {
		// What the attempt has of the budget doesn't stand in the way of the next.
		s.m.retries -= int64(one(a.retry))
		want = s.wantAgain(req, want)
		s.m.retries += int64(one(a.retry && want.Action == Stop))
	}
	if want.Action == Again {
		s.settled(req, want.Outcome, true)
		if !slices.Contains(req.failed, a.e.key) {
			req.failed = append(req.failed, a.e.key)
		}
	} else if req.charged != charged {
		s.t.Errorf("the model has charged what stands")
	}
	got := a.a.Reject(f, random, s.now)
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

// wantFail returns what must be said to a failure, apart from time and budget.
func (s *sim) wantFail(req *simRequest, f *Failure, random uint64) Decision {
	p := &s.m.cfg.Retry
	covered := p.On.Has(f.Kind)
	if f.Kind == Answer {
		covered = p.Statuses.Has(f.Status)
	}
	d := Decision{Outcome: f.Outcome}
	switch {
	case f.Passed || f.Begun && f.Kind != Answer:
		d.Why = AnswerBegun
	case !f.Repeatable:
		d.Why = NotRepeatable
	case f.Reused && f.Kind == Reset && !req.replayed && (f.Safe || f.Unseen || f.Eligible):
		return Decision{Action: Replay, Outcome: Outcome{Kind: Stale}}
	case !f.Eligible || !covered:
		d.Why = NotCovered
	case req.retries >= p.Max:
		d.Why = Exhausted
	case f.Elsewhere && !s.another(req):
		d.Why = NoOther
	default:
		d.Action = Again
		d.Delay = p.Backoff.Delay(req.retries+1, random)
	}
	return d
}

// another says whether an endpoint is offered, or in reserve, at which a request hasn't failed, nor is about to.
func (s *sim) another(req *simRequest) bool {
	v := s.c.View(s.now)
	for i := range v.Len() {
		if key := v.Endpoint(i).Key(); (v.Offers(i) || v.Spares(i)) && key != req.attempt.e.key && !slices.Contains(req.failed, key) {
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

// finish ends a request, in the middle of an attempt too.
func (s *sim) finish(i int) {
	req := s.requests[i]
	s.requests = slices.Delete(s.requests, i, i+1)
	if req.attempt != nil {
		s.done(req, Outcome{Kind: Aborted})
	}
	s.note("finish")
	s.discharge(req)
	s.m.requests--
	if !req.r.Finish() || req.r.Finish() {
		s.t.Errorf("got a first time false or a second time true")
	}
	if v := s.c.View(s.now); v.Len() > 0 {
		s.refused("try when finished", req.r.Try(new(Attempt), v, 0, s.now), Finished)
	}
}

// connection makes a connection, or moves one on.
func (s *sim) connection() {
	v := s.c.View(s.now)
	if v.Len() > 0 && (len(s.conns) == 0 || oneIn(s.r, 2)) {
		k := &simConn{e: s.m.list[s.r.IntN(v.Len())], state: connDialing}
		want := wantDial(k.e.member.Limits, k.e.conns, k.e.pending, EndpointConnections, EndpointPending)
		if want == Granted {
			want = wantDial(s.m.cfg.Limits, s.m.conns, s.m.pending, ClusterConnections, ClusterPending)
		}
		if !s.refused("dial", s.c.Dial(&k.k, s.c.byKey[k.e.key]), want) {
			s.count(k, 1, 1)
			s.conns = append(s.conns, k)
		}
		return
	}
	if len(s.conns) == 0 {
		return
	}
	i := s.r.IntN(len(s.conns))
	switch k := s.conns[i]; s.r.IntN(4) {
	case 0:
		if k.k.Connected(); k.state == connDialing {
			k.state = connServing
			s.count(k, 0, -1)
		}
	case 1:
		if k.k.Idle(); k.state == connServing {
			k.state = connIdle
			s.count(k, -1, 0)
		}
	case 2:
		if k.k.Reused(); k.state == connIdle {
			k.state = connServing
			s.count(k, 1, 0)
		}
	default:
		s.closeConn(i)
	}
}

func wantDial(l Limits, conns, pending int64, ofConns, ofPending Refusal) Refusal {
	switch {
	case l.Connections > 0 && conns >= l.Connections:
		return ofConns
	case l.Pending > 0 && pending >= l.Pending:
		return ofPending
	}
	return Granted
}

// closeConn closes a connection, twice.
func (s *sim) closeConn(i int) {
	k := s.conns[i]
	s.conns = slices.Delete(s.conns, i, i+1)
	k.k.Close()
	k.k.Close()
	s.count(k, -int64(one(k.state != connIdle)), -int64(one(k.state == connDialing)))
}

func (s *sim) count(k *simConn, conns, pending int64) {
	k.e.conns += conns
	k.e.pending += pending
	s.m.conns += conns
	s.m.pending += pending
}
