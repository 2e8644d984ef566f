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
	case oneIn(s.r, 8):
		s.accepted(req.attempt)
	case oneIn(s.r, 20):
		s.crowded(req)
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
	if req.again != nil {
		i := v.Index(req.again.a.Endpoint())
		if i < 0 || !v.Offers(i) && !v.Spares(i) {
			s.missed(req)
			return
		}
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
		if req.again != nil {
			s.missed(req)
		}
		return
	}
	s.attempts++
	req.tries++
	s.replays += one(req.replaying)
	req.again, req.replaying = nil, false
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
	s.tell(req, a, o)
}

// tell tells the model's health of an outcome, unless that knows of a failure of the attempt.
func (s *sim) tell(req *simRequest, a *simAttempt, o Outcome) {
	if a.blamed {
		return
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
	if a.trial && !a.proven && !a.blamed {
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
	if !a.proven && !a.blamed {
		s.m.settle(a.e, a, Outcome{})
	}
	a.proven = true
	a.a.Proven(s.now)
	a.a.Proven(s.now)
}

// accepted tells of an answer, twice.
func (s *sim) accepted(a *simAttempt) {
	s.note("accepted at %s", a.e.key)
	s.noRetry(a)
	a.a.Accepted()
	a.a.Accepted()
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
