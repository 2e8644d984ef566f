package cluster

import (
	"errors"
	"fmt"
	"time"

	"go.uber.org/zap"

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
	return withEndpoint(name, key, func(s *state, e *Endpoint) error { return s.override(e, change) })
}

// override orders something for an endpoint. The caller holds mu.
func (s *state) override(e *Endpoint, change Change) error {
	o := s.overrides[e.text]
	if o == nil {
		o = new(override)
	}
	weight := o.weight
	if change.Weight != nil {
		weight = *change.Weight
	}
	return s.reorder(e, o, weight, func() {
		o.since = time.Now()
		if change.State != "" {
			s.order(e, o, change)
		}
		s.log("endpoint ordered by hand", e, zap.Uint32("weight", o.weight), zap.String("order", o.state),
			zap.Duration("deadline", change.Deadline))
	})
}

// Restore takes back what was ordered for an endpoint.
func Restore(name, key string) error {
	return withEndpoint(name, key, func(s *state, e *Endpoint) error {
		o := s.overrides[key]
		if o == nil {
			return ErrNoOverride
		}
		return s.reorder(e, o, 0, func() {
			o.stop()
			o.state = ""
			delete(s.overrides, key)
			e.holders.reopen()
			s.log("order by hand taken back", e)
		})
	})
}

// reorder changes the weight of an override, and with f the rest, and makes it count. If the balancer refuses the weight,
// nothing has changed. The caller holds mu.
func (s *state) reorder(e *Endpoint, o *override, weight uint32, f func()) error {
	ruler, now := s.ruler(), time.Now()
	before, known := s.overrides[e.text]
	was := o.weight
	o.weight, s.overrides[e.text] = weight, o
	p, err := s.plan(ruler)
	if err != nil {
		o.weight = was
		if s.overrides[e.text] = before; !known {
			delete(s.overrides, e.text)
		}
		return err
	}
	f()
	s.health.Override(e.text, health.Override{Mode: modes[o.state], Weight: o.weight}, now)
	return s.carryOut(p, now)
}

// log tells of an order. The caller holds mu.
func (s *state) log(message string, e *Endpoint, fields ...zap.Field) {
	s.ruler().logger.Info(message, append(fields, zap.String("endpoint", e.text))...)
}

// withEndpoint calls f for an endpoint of a cluster that is in use, with the state locked.
func withEndpoint(name, key string, f func(*state, *Endpoint) error) error {
	s := find(name)
	if s == nil {
		return ErrNoCluster
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ruler() == nil { // since find has looked
		return ErrNoCluster
	}
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
