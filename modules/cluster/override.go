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
	return reorder(name, key, &change)
}

// Restore takes back what was ordered for an endpoint.
func Restore(name, key string) error { return reorder(name, key, nil) }

// reorder makes a change of what is ordered for an endpoint count; nil takes all of it back. If the balancer refuses the
// weight, nothing has changed. Only another weight waits until other rosters are made, and its own: a drain doesn't.
func reorder(name, key string, change *Change) error {
	s := find(name)
	if s == nil {
		return ErrNoCluster
	}
	if reweighs, err := s.reorder(key, change, nil); !reweighs {
		return err
	}
	s.building.Lock()
	defer s.building.Unlock()
	p, err := s.planOrder(key, change)
	if err != nil {
		return err
	}
	_, err = s.reorder(key, change, p)
	return err
}

// planOrder makes a plan with the weight that a change leads to. The caller holds building.
func (s *state) planOrder(key string, change *Change) (*plan, error) {
	s.mu.Lock()
	_, o, err := s.ordered(key, change)
	ruler := s.ruler()
	s.mu.Unlock()
	if err != nil {
		return nil, err
	}
	return s.plan(ruler, reweighed{key, change.weight(o)})
}

// reorder makes a change count, with the plan for its weight. If it needs one and has none, it says so, and nothing has
// changed. The caller of one with a plan holds building, from before the plan was made: no weight has changed since, but a
// state may have.
func (s *state) reorder(key string, change *Change, p *plan) (reweighs bool, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	e, o, err := s.ordered(key, change)
	if err != nil {
		return false, err
	}
	weight, now := change.weight(o), time.Now()
	if weight != o.weight && p == nil {
		return true, nil
	}
	o.weight = weight
	if change == nil {
		s.takeBack(e, o)
	} else {
		s.note(e, o, change)
	}
	s.health.Override(key, health.Override{Mode: modes[o.state], Weight: o.weight}, now)
	if p != nil {
		return false, s.carryOut(p, now)
	}
	s.apply(now)
	s.poke()
	return false, nil
}

// ordered returns an endpoint of a cluster that is in use, and what is ordered for it: a new override, if that is nothing
// and isn't to be taken back. The caller holds mu.
func (s *state) ordered(key string, change *Change) (*Endpoint, *override, error) {
	if s.ruler() == nil { // since find has looked
		return nil, nil, ErrNoCluster
	}
	e, o := s.endpoints[key], s.overrides[key]
	switch {
	case e == nil:
		return nil, nil, ErrNoEndpoint
	case o == nil && change == nil:
		return nil, nil, ErrNoOverride
	case o == nil:
		o = new(override)
	}
	return e, o, nil
}

// weight returns the weight of an override after a change.
func (c *Change) weight(o *override) uint32 {
	switch {
	case c == nil:
		return 0
	case c.Weight == nil:
		return o.weight
	}
	return *c.Weight
}

// note carries out a change, but for the weight. The caller holds mu.
func (s *state) note(e *Endpoint, o *override, change *Change) {
	s.overrides[e.text] = o
	o.since = time.Now()
	if change.State != "" {
		s.order(e, o, *change)
	}
	s.log("endpoint ordered by hand", e, o.fields()...)
}

// fields says all that is ordered, and how much of a deadline is left.
func (o *override) fields() (fields []zap.Field) {
	if o.weight > 0 {
		fields = append(fields, zap.Uint32("weight", o.weight))
	}
	if o.state != "" {
		fields = append(fields, zap.String("order", o.state))
	}
	if left := time.Until(o.deadline); left > 0 {
		fields = append(fields, zap.Duration("deadline", left))
	}
	return fields
}

// takeBack ends an override. The caller holds mu.
func (s *state) takeBack(e *Endpoint, o *override) {
	o.stop()
	o.state = ""
	delete(s.overrides, e.text)
	e.holders.reopen()
	s.log("order by hand taken back", e)
}

// log tells of an order. The caller holds mu.
func (s *state) log(message string, e *Endpoint, fields ...zap.Field) {
	s.ruler().logger.Info(message, append(fields, zap.String("endpoint", e.text))...)
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
