package health

import (
	"sync/atomic"
	"time"
)

// MaxWeight is the largest weight. A larger one counts as this.
const MaxWeight = 1 << 20

// Member is what a configuration or a discovery says about an endpoint.
type Member struct {
	// Key is what the endpoint is known by. Its state is kept for a member of the same key.
	Key string
	// Weight is its share of the load. 0 counts as 1.
	Weight uint32
	// Tier is 0 for endpoints that serve. Those of the next higher tier serve when there are too few of them.
	Tier uint8
	// Limits are the endpoint's own.
	Limits Limits
}

// Mode is what is ordered by hand for an endpoint.
type Mode uint8

const (
	// Auto orders nothing.
	Auto Mode = iota
	// Up offers the endpoint whatever is known about its health. It isn't ejected.
	Up
	// Drain offers it no more. What it is doing goes on.
	Drain
	// Disabled offers it no more, and says that what it is doing should end.
	Disabled
)

// closed says whether the endpoint is out.
func (m Mode) closed() bool { return m == Drain || m == Disabled }

// Override is what is ordered by hand for an endpoint. The zero value is none.
type Override struct {
	Mode Mode
	// Weight is the endpoint's weight, if it isn't 0.
	Weight uint32
}

// Reason says why an endpoint is available, or why it isn't.
type Reason uint8

const (
	// Healthy means that the endpoint is available.
	Healthy Reason = iota
	// SlowStarting means that it is available with a part of its weight.
	SlowStarting
	// UnhealthyActive means that a check has found it unhealthy.
	UnhealthyActive
	// UnhealthyPassive means that an attempt has.
	UnhealthyPassive
	// Ejected means that attempts have failed too often in a row.
	Ejected
	// Drained means that it was taken out by hand, and that what it is doing goes on.
	Drained
	// TurnedOff means that it was taken out by hand.
	TurnedOff
	reasonCount
)

// reasonNames has a name for each reason.
var reasonNames = [reasonCount]string{"healthy", "slow_start", "unhealthy_active", "unhealthy_passive", "ejected", "drained", "disabled"}

// String returns the name of the reason; "unknown" for a value that is none.
func (r Reason) String() string {
	if r >= reasonCount {
		return "unknown"
	}
	return reasonNames[r]
}

// Available says whether the endpoint is available.
func (r Reason) Available() bool { return r <= SlowStarting }

// Unhealthy says whether it isn't available for what is known about its health.
func (r Reason) Unhealthy() bool { return r >= UnhealthyActive && r <= Ejected }

// Endpoint is one endpoint of a cluster. Its methods are safe for concurrent use.
type Endpoint struct {
	key string
	// attempts counts the attempts under way and, of them, the retries.
	attempts pair
	// conns counts the connections that are being made or serve and, of them, the ones that are being made.
	conns pair
	// stirred says that a success of traffic would change something.
	stirred atomic.Bool
	// closed says that the endpoint is out by hand.
	closed atomic.Bool
	limits atomic.Pointer[Limits]

	// What follows is guarded by the cluster's mu.

	member   Member
	override Override
	// rank is the place of the member's tier among the tiers there are.
	rank    int
	gone    bool
	goneAt  time.Time
	streaks Streaks
	eject   ejection
	trial   trial
	// upSince is when the weight began to grow; zero if it doesn't have to.
	upSince time.Time
	reason  Reason
	since   time.Time
}

// trial is an offer for one attempt. It counts while the endpoint is unhealthy, see Passive.RetryAfter.
type trial struct {
	// at is when the endpoint is offered, owed when it goes before others. That is later if a trial has told nothing: clients
	// that don't wait for its end must not keep those from the others that come after them.
	at, owed time.Time
	// taken says that the attempt is under way.
	taken bool
	// number tells one trial from another. The first one is 1.
	number uint64
}

// put sets when the next trial is due.
func (t *trial) put(at time.Time) { t.at, t.owed = at, at }

// wait has it wait until a time before it goes before others, and until it is due.
func (t *trial) wait(until time.Time) {
	if t.owed = until; until.Before(t.at) {
		t.owed = t.at
	}
}

// next returns when something changes about it next.
func (t *trial) next(now time.Time) time.Time {
	if now.Before(t.at) {
		return t.at
	}
	return t.owed
}

// Key returns what the endpoint is known by.
func (e *Endpoint) Key() string { return e.key }

// Load returns how many attempts are under way.
func (e *Endpoint) Load() int64 {
	load, _ := e.attempts.load()
	return load
}

// Connections returns how many connections are being made or serve.
func (e *Endpoint) Connections() int64 {
	conns, _ := e.conns.load()
	return conns
}

// Full says whether one more attempt would be refused now.
func (e *Endpoint) Full() bool {
	limit := e.limits.Load().Requests
	return limit > 0 && e.Load() >= limit
}

// Crowded says whether one more connection would be refused now by the endpoint's own limits.
func (e *Endpoint) Crowded() bool {
	limits := e.limits.Load()
	conns, pending := e.conns.load()
	return limits.Connections > 0 && conns >= limits.Connections || limits.Pending > 0 && pending >= limits.Pending
}

// weight returns the weight that is ordered for the endpoint.
func (e *Endpoint) weight() uint32 {
	w := e.member.Weight
	if e.override.Weight > 0 {
		w = e.override.Weight
	}
	return min(max(w, 1), MaxWeight)
}

// down says whether its health keeps the endpoint from being available.
func (e *Endpoint) down() bool { return e.override.Mode != Up && e.streaks.Down() }

// tries says whether the endpoint is offered for a trial.
func (e *Endpoint) tries(now time.Time) bool {
	return e.down() && !e.override.Mode.closed() && !e.eject.out && !e.trial.taken && !now.Before(e.trial.at)
}

// ramps says whether the weight is growing.
func (e *Endpoint) ramps(s *SlowStart, now time.Time) bool {
	return s.Window > 0 && !e.upSince.IsZero() && now.Sub(e.upSince) < s.Window
}

// judge returns why the endpoint is available or not.
func (e *Endpoint) judge(s *SlowStart, now time.Time) Reason {
	switch {
	case e.override.Mode == Disabled:
		return TurnedOff
	case e.override.Mode == Drain:
		return Drained
	case e.down() && e.streaks.Source() == ByCheck:
		return UnhealthyActive
	case e.down():
		return UnhealthyPassive
	case e.eject.out:
		return Ejected
	case e.ramps(s, now):
		return SlowStarting
	}
	return Healthy
}

// idle says whether nothing is under way.
func (e *Endpoint) idle() bool { return e.attempts.word.Load() == 0 && e.conns.word.Load() == 0 }

// Status is what is known about an endpoint.
type Status struct {
	Key string
	// Reason says why it is available or not; Since is when that began.
	Reason Reason
	Since  time.Time
	// Member is false for an endpoint that is no longer one, but whose state is kept.
	Member bool
	// Trial says that it is offered for an attempt.
	Trial    bool
	Override Override
	// Weight is what it is configured with or overridden to; Effective is in units of 1/WeightScale.
	Weight, Effective uint32
	// Successes and Failures are the streaks of its health, Failures those of checks and traffic together. Consecutive is
	// the one that leads to an ejection.
	Successes, Failures, Consecutive int
	// EjectedUntil is when its ejection ends, if it is ejected.
	EjectedUntil time.Time
	// Attempts, Retries, Connections and Pending are under way.
	Attempts, Retries, Connections, Pending int64
}

// status returns what is known about the endpoint.
func (e *Endpoint) status(cfg *Config, now time.Time) Status {
	s := Status{
		Key: e.key, Reason: e.judge(&cfg.SlowStart, now), Since: e.since, Member: !e.gone, Override: e.override,
		Weight: e.weight(), Effective: e.effective(&cfg.SlowStart, now), Trial: cfg.trials() && e.tries(now),
		Successes: e.streaks.successes, Failures: e.streaks.failing(), Consecutive: e.eject.failures,
	}
	if e.eject.out {
		s.EjectedUntil = e.eject.until
	}
	s.Attempts, s.Retries = e.attempts.load()
	s.Connections, s.Pending = e.conns.load()
	return s
}

// effective returns the weight by which the endpoint is chosen now.
func (e *Endpoint) effective(s *SlowStart, now time.Time) uint32 {
	w := e.weight() * WeightScale
	if e.ramps(s, now) {
		return max(uint32(float64(w)*s.Factor(now.Sub(e.upSince))), 1)
	}
	return w
}
