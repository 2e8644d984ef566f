package cluster

import (
	"errors"
	"fmt"
	"time"

	"github.com/caddy-sluice/sluice/internal/balance"
	"github.com/caddy-sluice/sluice/internal/health"
)

// Change is what to order by hand for an endpoint. What isn't set stays as it is.
type Change struct {
	// Weight replaces the endpoint's weight.
	Weight *uint32
	// State is `up` (use it, whatever is known about its health), `drain` (nothing new) or `disabled` (nothing new, and
	// what goes on is ended).
	State string
	// Deadline is when what goes on at an endpoint that is drained is ended; 0: never.
	Deadline time.Duration
}

// Errors of Override.
var (
	ErrNoCluster  = errors.New("there is no such cluster")
	ErrNoEndpoint = errors.New("the cluster has no such endpoint")
	ErrNoOverride = errors.New("nothing is ordered for the endpoint")
)

// modes are the states that can be ordered.
var modes = map[string]health.Mode{"up": health.Up, "drain": health.Drain, "disabled": health.Disabled}

// override is what was ordered by hand for an endpoint.
type override struct {
	weight   uint32
	state    string
	since    time.Time
	deadline time.Time
	// end is the plan to end what goes on at the endpoint; nil if there is none.
	end *ending
}

// stop takes the plan back.
func (o *override) stop() {
	if o.end != nil {
		o.end.timer.Stop()
		o.end = nil
	}
}

// Override orders something for an endpoint of a cluster that is in use. It holds until it is taken back or the cluster is
// gone from the config; a reload doesn't end it.
func Override(name, key string, change Change) error {
	if _, ok := modes[change.State]; !ok && change.State != "" {
		return fmt.Errorf("state %q is not known; must be one of up, drain, disabled", change.State)
	}
	if change.Weight != nil && (*change.Weight < 1 || *change.Weight > balance.MaxWeight) {
		return fmt.Errorf("weight %d is out of range, 1 to %d", *change.Weight, balance.MaxWeight)
	}
	if change.Deadline < 0 || change.Deadline > 0 && change.State != "drain" {
		return errors.New("deadline is for the state drain, and not negative")
	}
	return withEndpoint(name, key, func(s *state, e *Endpoint) error {
		o := s.overrides[key]
		if o == nil {
			o = new(override)
			s.overrides[key] = o
		}
		o.since = time.Now()
		if change.Weight != nil {
			o.weight = *change.Weight
		}
		if change.State != "" {
			s.order(e, o, change)
		}
		return s.enforce(e, o)
	})
}

// Restore takes back what was ordered for an endpoint.
func Restore(name, key string) error {
	return withEndpoint(name, key, func(s *state, e *Endpoint) error {
		o := s.overrides[key]
		if o == nil {
			return ErrNoOverride
		}
		o.stop()
		delete(s.overrides, key)
		e.holders.reopen()
		return s.enforce(e, new(override))
	})
}

// withEndpoint calls f for an endpoint of a cluster that is in use, with the state locked.
func withEndpoint(name, key string, f func(*state, *Endpoint) error) error {
	s := find(name)
	if s == nil {
		return ErrNoCluster
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	e := s.endpoints[key]
	if e == nil {
		return ErrNoEndpoint
	}
	return f(s, e)
}

// order sets the state of an override. The caller holds mu.
func (s *state) order(e *Endpoint, o *override, change Change) {
	o.stop()
	o.state, o.deadline = change.State, time.Time{}
	e.holders.reopen()
	if change.Deadline > 0 {
		o.deadline = time.Now().Add(change.Deadline)
	}
	if change.State == "disabled" || change.Deadline > 0 {
		o.end = s.endAfter(change.Deadline, func(end *ending) { s.empty(e, o, end) })
	}
}

// empty ends what goes on at an endpoint, if that is still the plan.
func (s *state) empty(e *Endpoint, o *override, end *ending) {
	s.evict(e, Drained, func() bool { return o.end == end })
}

// enforce makes an override count. The caller holds mu.
func (s *state) enforce(e *Endpoint, o *override) error {
	now := time.Now()
	s.health.Override(e.text, health.Override{Mode: modes[o.state], Weight: o.weight}, now)
	defer s.poke()
	if ruler := s.ruler(); ruler != nil {
		return s.seat(ruler, now)
	}
	return nil
}
