package cluster

import (
	"errors"
	"slices"
	"time"

	"github.com/caddy-sluice/sluice/internal/balance"
	"github.com/caddy-sluice/sluice/internal/health"
	"github.com/caddy-sluice/sluice/modules/balancers"
)

// hasRoom says whether an endpoint of a view could take an attempt of a request.
func hasRoom(h *health.Endpoint, s *health.Status, limits health.Limits, charged bool) bool {
	return !h.Full() && (!charged || limits.Retries == 0 || s.Retries < limits.Retries)
}

// isCrowded says whether an endpoint is passed over because there was no room for a connection.
func isCrowded(e *Endpoint) bool { return e.live.Bars()&balance.Full != 0 && e.health.Load().Crowded() }

// choices returns which endpoints a pick may choose: those that are offered and have room, without those that were tried,
// unless there are no others. One whose turn it is for a trial is the only one.
func (s *sim) choices(r *simRequest) (choices []*Endpoint, again bool) {
	roster, view := s.s.look(time.Now())
	known := s.s.health.Statuses(time.Now())
	var tried []*Endpoint
	for i, e := range roster.endpoints {
		if !view.Offers(i) || !hasRoom(view.Endpoint(i), &known[i], s.limits(e), r.charged) || isCrowded(e) {
			continue
		}
		switch {
		case slices.Contains(r.failed, e):
			tried = append(tried, e)
		case known[i].Trial && !view.Yields(i) && view.Yields((i+1)%view.Len()): // all others do
			s.seen["turn "+view.Stance().String()]++
			return []*Endpoint{e}, false
		default:
			choices = append(choices, e)
		}
	}
	if len(choices) == 0 {
		choices = s.reserve(r)
	}
	if len(choices) == 0 {
		return tried, len(tried) > 0
	}
	return choices, false
}

// limits returns those of an endpoint, as its last config has them.
func (s *sim) limits(e *Endpoint) health.Limits {
	for _, m := range s.s.members(s.c) {
		if m.Address == e.at {
			return m.limits
		}
	}
	return health.Limits{}
}

// pick makes the next attempt of a request.
func (s *sim) pick(r *simRequest) {
	if r.again != nil {
		s.repick(r)
		return
	}
	choices, again := s.choices(r)
	l, key := new(simLease), Key{}
	if s.c.key.Source != balancers.NoKey && !s.oneIn(4) {
		key = HashKey(pick(s.r, "a", "b", "c"))
	}
	if err := r.Pick(&l.Lease, key); err != nil {
		s.refused(r, err, choices)
		return
	}
	e := l.Endpoint()
	s.note("pick", "%s of %d", e.text, len(choices))
	if again {
		s.seen["tried again where there was no other"]++
	}
	if !slices.Contains(choices, e) {
		s.t.Errorf("picked %s, which isn't one of the %d to choose from", e.text, len(choices))
	}
	s.began(r, l)
}

func (s *sim) refused(r *simRequest, err error, choices []*Endpoint) {
	var refused *Refused
	if !errors.As(err, &refused) {
		s.t.Fatalf("got %v, want a refusal", err)
	}
	s.note("refused "+refused.Why.String(), "")
	view := s.s.health.View(time.Now())
	if len(choices) > 0 || (refused.Why == health.NoEndpoint) != (view.Offered() == 0) {
		s.t.Errorf("got %v with %d of %d offered to choose from", err, len(choices), view.Offered())
	}
	r.over = s.oneIn(2)
}

// repick makes an attempt at the endpoint of the one before.
func (s *sim) repick(r *simRequest) {
	l := r.again
	r.again = nil
	e := l.Endpoint()
	if d := r.Repick(&l.Lease, r.failure); d.Action != health.Replay {
		s.missed(r, e, d)
		return
	}
	s.note("repick", "%s", e.text)
	if l.Endpoint() != e {
		s.t.Errorf("got %s, want %s", l.Endpoint().text, e.text)
	}
	s.began(r, l)
}

// began takes up a lease.
func (s *sim) began(r *simRequest, l *simLease) {
	e := l.Endpoint()
	if s.closed[e.text] {
		s.t.Errorf("picked %s, which is taken out by hand", e.text)
	}
	if r.tries++; r.tries > 2+health.MaxRetries {
		s.t.Errorf("got attempt %d of a request", r.tries)
	}
	l.open, l.charged = true, r.charged
	r.lease = l
	s.picks++
	l.listens, l.proven = false, false
	if l.Trial() {
		s.seen["trial"]++
	}
	if l.heard.clear(); s.oneIn(2) {
		l.listens = true
		l.heard.on(&l.Lease)
	}
}

// end settles the attempt of a request, or goes on with it.
func (s *sim) end(r *simRequest) {
	if s.oneIn(6) {
		s.prove(r, s.oneIn(2))
		return
	}
	if s.oneIn(12) {
		s.accept(r)
		return
	}
	if s.oneIn(12) {
		s.crowd(r)
		return
	}
	o := s.outcome()
	failed := o.Kind != health.Success && (o.Kind != health.Answer || o.Status >= 500)
	if !failed || s.oneIn(4) {
		s.done(r, o)
		return
	}
	s.fail(r, o)
}

// prove tells that an attempt is connected, or more than that.
func (s *sim) prove(r *simRequest, answered bool) {
	l := r.lease
	s.note("proven", "%s %v", l.Endpoint().text, answered)
	before := s.statusOf(l.Endpoint())
	if answered {
		l.Proven()
	} else if l.Connected(); !l.Trial() && s.statusOf(l.Endpoint()).streaks != before.streaks {
		s.t.Error("a connection by itself has changed a streak")
	}
	// It is a retry no more.
	r.charged = r.charged && !l.charged
	l.charged, l.proven = false, l.proven || answered || l.Trial()
}

// accept tells that the answer of an attempt is passed on.
func (s *sim) accept(r *simRequest) {
	l := r.lease
	s.note("accepted", "%s", l.Endpoint().text)
	before := s.statusOf(l.Endpoint())
	if l.Accepted(); s.statusOf(l.Endpoint()).streaks != before.streaks {
		s.t.Error("that an answer is passed on has changed a streak")
	}
	r.charged, l.charged = r.charged && !l.charged, false
}

func (s *sim) done(r *simRequest, o Outcome) {
	l := r.lease
	s.note("done", "%s %v %d", l.Endpoint().text, o.Kind, o.Status)
	s.settles(r, o, func() {
		if !l.Done(o) || l.Done(o) || l.Fail(Failure{Outcome: o}).Why != health.Settled {
			s.t.Error("a lease must be settled once")
		}
	})
	r.charged = r.charged && !l.charged
	r.over = true
}

// settles calls f, which settles the lease of a request, and checks what it has done to the endpoint.
func (s *sim) settles(r *simRequest, o Outcome, f func()) {
	e, total := r.lease.Endpoint(), s.s.health.View(time.Now()).Len()
	before, stats := s.statusOf(e), s.s.health.Stats()
	f()
	after, ejections := s.statusOf(e), s.s.health.Stats()
	if o.Kind == health.Aborted || o.Kind == health.Stale {
		if after.streaks != before.streaks || after.EjectedUntil != before.EjectedUntil {
			s.t.Errorf("%v has changed %+v to %+v", o.Kind, before, after)
		}
	}
	outlier := &s.c.set.policy.Outlier
	if ejections.Ejections > stats.Ejections {
		s.seen["ejection"]++
		if ejections.EjectedNow*100 > total*outlier.MaxPercent {
			s.t.Errorf("got %d ejected of %d, with %d percent", ejections.EjectedNow, total, outlier.MaxPercent)
		}
	}
	// One that has proven itself tells no more by its success.
	if isGood(o) && !r.lease.proven && outlier.ConsecutiveFailures > 0 && after.Consecutive != 0 {
		s.t.Errorf("got a streak of %d after a success", after.Consecutive)
	}
	if r.lease.Endpoint().live.Bars()&balance.Full != 0 {
		s.t.Error("full after an attempt has ended")
	}
	s.settled[e]++
	r.lease.open, r.lease = false, nil
}

func isGood(o Outcome) bool {
	return o.Kind == health.Success || o.Kind == health.Answer && o.Status < 500
}

// connection begins a connection, or goes on with one.
func (s *sim) connection() {
	roster := s.s.roster.Load()
	if len(s.conns) > 0 && !s.oneIn(3) {
		i := s.r.IntN(len(s.conns))
		k := s.conns[i]
		switch s.r.IntN(4) {
		case 0:
			k.Connected()
		case 1:
			k.Idle()
		case 2:
			k.Reused()
		default:
			k.Close()
			k.Close()
			s.conns = append(s.conns[:i], s.conns[i+1:]...)
		}
		return
	}
	if len(roster.endpoints) == 0 {
		return
	}
	k := &simConn{e: pick(s.r, roster.endpoints...)}
	limit, own := s.c.set.policy.Limits, s.limits(k.e)
	err := s.c.Count(&k.Conn, k.e)
	stats, status := s.s.health.Stats(), s.statusOf(k.e)
	if err != nil {
		s.note("dial refused", "%s", k.e.text)
		return
	}
	s.note("dial", "%s", k.e.text)
	if above(stats.ConnectionsActive, limit.Connections) || above(stats.PendingActive, limit.Pending) ||
		above(status.Connections, own.Connections) || above(status.Pending, own.Pending) {
		s.t.Errorf("got %+v, %+v, above %+v or %+v", stats, status, limit, own)
	}
	s.conns = append(s.conns, k)
}

func above(n, limit int64) bool { return limit > 0 && n > limit }
