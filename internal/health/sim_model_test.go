package health

import (
	"slices"
	"time"
)

// model is a cluster as its documentation has it: it looks at everything each time, and keeps nothing that follows from
// something else.
type model struct {
	cfg  *Config
	now  time.Time
	all  map[string]*modelEndpoint
	list []*modelEndpoint
	// past is what the next change of the members goes back to.
	past map[string]modelPast

	requests, retries, conns, pending int64

	ejections, refused, trials uint64
}

type modelEndpoint struct {
	key      string
	member   Member
	present  bool
	override Override

	down, byCheck bool
	// results are those since the health changed.
	results []modelResult

	failures   int
	out        bool
	until, end time.Time
	multiplier int

	// trialAt is when a trial is due, trialOwed when it goes before all else where too few are available.
	trialAt, trialOwed time.Time
	onTrial            *simAttempt

	up time.Time

	attempts, retries, conns, pending int64
}

type modelResult struct{ ok, check bool }

// successes is the number of successes at the end, whoever has seen them.
func (e *modelEndpoint) successes() (n int) {
	for _, r := range slices.Backward(e.results) {
		if !r.ok {
			break
		}
		n++
	}
	return n
}

// failed is the number of failures at the end, as each source has seen it.
func (e *modelEndpoint) failed() (n int) {
	for _, check := range []bool{true, false} {
		for _, r := range slices.Backward(e.results) {
			if r.check != check {
				continue
			}
			if r.ok {
				break
			}
			n++
		}
	}
	return n
}

// to moves the model's time on.
func (m *model) to(now time.Time) {
	m.now = now
	for _, e := range m.all {
		if e.out && !now.Before(e.until) {
			e.out, e.end = false, e.until
			if m.cfg.SlowStart.AfterEjection && e.present {
				e.up = e.until
			}
		}
	}
}

func (m *model) setMembers(members []Member) {
	first := len(m.all) == 0
	for _, e := range m.list {
		e.present = slices.ContainsFunc(members, func(w Member) bool { return w.Key == e.key })
	}
	m.list = nil
	for _, w := range members {
		e := m.all[w.Key]
		if e == nil {
			e = &modelEndpoint{key: w.Key}
			m.all[w.Key] = e
		}
		if !e.present && !first {
			e.up = m.now
			if p := m.past[w.Key]; p.was.present {
				e.up = p.was.up
			}
		}
		e.present, e.member = true, w
		m.list = append(m.list, e)
	}
	m.past = nil
}

func (m *model) override(e *modelEndpoint, o Override) {
	shut := func(mode Mode) bool { return mode == Drain || mode == Disabled }
	if shut(e.override.Mode) && !shut(o.Mode) {
		e.up = m.now
	}
	if o.Mode == Up && e.out {
		e.out, e.end = false, m.now
	}
	e.override = o
}

// result takes a result of a check or of an attempt.
func (m *model) result(e *modelEndpoint, ok, check bool, rise, fall int) {
	if e.down && e.byCheck && !check {
		return
	}
	e.results = append(e.results, modelResult{ok, check})
	streak, threshold := e.failed(), fall
	if e.down {
		streak, threshold = e.successes(), rise
	}
	if ok == e.down && threshold > 0 && streak >= threshold {
		e.down, e.byCheck, e.results = !e.down, check, nil
		if !e.down {
			e.up = m.now
		} else {
			e.trialAt, e.onTrial = m.now.Add(m.cfg.Passive.RetryAfter), nil
			e.trialOwed = e.trialAt
		}
		return
	}
	if check || !e.down {
		return
	}
	if e.trialAt = m.now; !ok {
		e.trialAt = m.now.Add(m.cfg.Passive.RetryAfter)
	}
	e.trialOwed = e.trialAt
}

func (m *model) check(e *modelEndpoint, ok bool) {
	if m.cfg.Active.Fall > 0 {
		m.result(e, ok, true, m.cfg.Active.Rise, m.cfg.Active.Fall)
	}
	if ok && m.cfg.Outlier.CheckUnejects && e.out {
		e.out, e.end, e.failures = false, m.now, 0
		if m.cfg.SlowStart.AfterEjection {
			e.up = m.now
		}
	}
}

// settle takes the outcome of an attempt.
func (m *model) settle(e *modelEndpoint, a *simAttempt, o Outcome) {
	if a.proven && !m.fails(o) {
		return
	}
	if e.onTrial == a && !a.proven {
		e.onTrial, e.trialOwed = nil, m.now.Add(m.cfg.Passive.RetryAfter)
	}
	if o.Kind == Stale || o.Kind == Aborted {
		return
	}
	if p := &m.cfg.Passive; p.Rise > 0 || p.Fall > 0 {
		rise := p.Rise
		if m.cfg.Active.Fall == 0 && p.Fall > 0 && rise == 0 {
			rise = 1
		}
		m.result(e, modelSuccess(o, &p.Statuses), false, rise, p.Fall)
	}
	out := &m.cfg.Outlier
	switch {
	case out.ConsecutiveFailures == 0:
	case modelSuccess(o, &out.Statuses):
		e.failures = 0
	default:
		e.failures++
		if e.failures >= out.ConsecutiveFailures && !e.out && e.present && e.override.Mode == Auto {
			m.eject(e)
		}
	}
}

// fails says whether an outcome is a failure for any detector that is on.
func (m *model) fails(o Outcome) bool {
	if o.Kind == Stale || o.Kind == Aborted {
		return false
	}
	p, out := &m.cfg.Passive, &m.cfg.Outlier
	return (p.Rise > 0 || p.Fall > 0) && !modelSuccess(o, &p.Statuses) || out.ConsecutiveFailures > 0 && !modelSuccess(o, &out.Statuses)
}

func modelSuccess(o Outcome, failing *StatusSet) bool {
	return o.Kind == Success || o.Kind == Answer && !failing.Has(o.Status)
}

func (m *model) ejected() (n int) {
	for _, e := range m.list {
		n += one(e.out)
	}
	return n
}

func (m *model) eject(e *modelEndpoint) {
	o := &m.cfg.Outlier
	if 100*(m.ejected()+1) > o.MaxPercent*len(m.list) {
		m.refused++
		return
	}
	m.ejections++
	length := o.Time
	if o.MaxTime == 0 {
		e.multiplier = 0
	} else {
		for back := m.now.Sub(e.end); back >= DecayInterval && e.multiplier > 0; back -= DecayInterval {
			e.multiplier--
		}
		if o.Time*time.Duration(e.multiplier) < o.MaxTime+o.Time {
			e.multiplier++
		}
		length = min(o.Time*time.Duration(e.multiplier), o.MaxTime)
	}
	e.out, e.failures, e.until = true, 0, m.now.Add(length)
}

func (m *model) reason(e *modelEndpoint) Reason {
	down := e.down && e.override.Mode != Up
	switch {
	case e.override.Mode == Disabled:
		return TurnedOff
	case e.override.Mode == Drain:
		return Drained
	case down && e.byCheck:
		return UnhealthyActive
	case down:
		return UnhealthyPassive
	case e.out:
		return Ejected
	case !e.up.IsZero() && m.now.Before(e.up.Add(m.cfg.SlowStart.Window)):
		return SlowStarting
	}
	return Healthy
}

// wantsTrial says whether one attempt may be made at an unhealthy endpoint.
func (m *model) wantsTrial(e *modelEndpoint) bool {
	r := m.reason(e)
	return m.cfg.Active.Fall == 0 && m.cfg.Passive.Fall > 0 && (r == UnhealthyActive || r == UnhealthyPassive) && !e.out &&
		e.onTrial == nil && !m.now.Before(e.trialAt)
}

// modelView is what a view must say.
type modelView struct {
	offered, trials, spares []string
	// turn is whose turn for a trial it is, serving the tier that serves; none of each if there is none.
	turn    string
	serving int
	stance  Stance
}

// view returns what is offered, and why.
func (m *model) view() (v modelView) {
	tier, s := m.tier()
	if v.stance, v.serving = s, int(tier); s == Refusing || s == Empty {
		v.serving = none
	}
	var turn *modelEndpoint
	for _, e := range m.list {
		able, shut := m.reason(e).Available(), e.override.Mode == Drain || e.override.Mode == Disabled
		trial, own, later := m.wantsTrial(e), e.member.Tier == tier, e.member.Tier > tier
		owed := trial && s != Normal && !m.now.Before(e.trialOwed)
		if owed && (turn == nil || e.trialOwed.Before(turn.trialOwed) || e.trialOwed.Equal(turn.trialOwed) && e.member.Tier < turn.member.Tier) {
			turn, v.turn = e, e.key
		}
		if own && !owed && s == FailOpen {
			trial = false // all may use it
		}
		switch {
		case owed, s != Refusing && own && able, s == FailOpen && own && !shut, trial && (s == Refusing || !later):
			v.offered = append(v.offered, e.key)
		case s != Refusing && later && (able || trial):
			v.spares = append(v.spares, e.key)
		}
		if trial {
			v.trials = append(v.trials, e.key)
		}
	}
	return v
}

// tier returns the tier that serves.
func (m *model) tier() (tier uint8, s Stance) {
	most, found := -1, false
	for t := range uint8(3) {
		n, able := 0, 0
		for _, e := range m.list {
			if e.member.Tier == t && e.override.Mode != Drain && e.override.Mode != Disabled {
				n++
				able += one(m.reason(e).Available())
			}
		}
		if able > 0 && float64(able)/float64(n) >= float64(m.cfg.PanicPercent)/100 {
			return t, Normal
		}
		if n > 0 && able > most {
			tier, most, found = t, able, true
		}
	}
	switch {
	case !found:
		return 0, Empty
	case m.cfg.Refuse:
		return tier, Refusing
	}
	return tier, FailOpen
}

func one(b bool) int {
	if b {
		return 1
	}
	return 0
}
