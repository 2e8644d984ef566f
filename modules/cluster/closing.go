package cluster

import (
	"time"

	"go.uber.org/zap"

	"github.com/caddy-sluice/sluice/internal/health"
)

// ending is a plan to end what goes on at an endpoint. Plans are told apart by their addresses: a timer that has gone off
// may get its turn after its plan was taken back.
type ending struct {
	timer *time.Timer
	wait  time.Duration
}

// endAfter makes a plan, which f carries out.
func (s *state) endAfter(wait time.Duration, f func(*ending)) *ending {
	end := &ending{wait: wait}
	end.timer = time.AfterFunc(wait, func() { f(end) })
	return end
}

// evict ends what goes on at an endpoint, if that is still planned, and returns how much it was.
func (s *state) evict(e *Endpoint, why Cause, planned func() bool) int {
	s.mu.Lock()
	var told []func(Cause)
	if planned() {
		told = e.holders.stop(why)
	}
	s.mu.Unlock()
	for _, f := range told {
		f(why)
	}
	return len(told)
}

// watch plans the end of what goes on at an endpoint that isn't healthy, or takes the plan back. A plan of a config that
// had another time is made anew, also if it was carried out.
func (s *state) watch(c *Cluster, e *Endpoint, reason health.Reason) {
	s.mu.Lock()
	defer s.mu.Unlock()
	wait, end := c.set.closeAfter, s.closing[e]
	if reason.Unhealthy() && end != nil && end.wait == wait {
		return
	}
	s.spare(e)
	if reason.Unhealthy() && wait > 0 {
		s.closing[e] = s.endAfter(wait, func(end *ending) { s.closeAt(e, end) })
	}
}

// watchAll does the same for all endpoints: the config before may have had other plans, or none.
func (c *Cluster) watchAll(now time.Time) {
	for _, known := range c.state.health.Statuses(now) {
		if e := c.state.known(known.Key); e != nil {
			c.state.watch(c, e, known.Reason)
		}
	}
}

// spare takes the plan back to end what goes on at an endpoint, if there is one. The caller holds mu.
func (s *state) spare(e *Endpoint) {
	if end := s.closing[e]; end != nil {
		end.timer.Stop()
		delete(s.closing, e)
	}
}

// closeAt ends what goes on at an endpoint that has been unhealthy for long enough, if that is still the plan.
func (s *state) closeAt(e *Endpoint, end *ending) {
	ended := s.evict(e, Unhealthy, func() bool { return s.closing[e] == end })
	s.mu.Lock()
	ruler := s.ruler()
	s.mu.Unlock()
	if ended > 0 && ruler != nil {
		ruler.logger.Warn("ending connections to an unhealthy endpoint", zap.String("endpoint", e.text), zap.Int("connections", ended))
	}
}
