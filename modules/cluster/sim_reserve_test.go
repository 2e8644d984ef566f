package cluster

import (
	"slices"
	"time"

	"github.com/caddy-sluice/sluice/internal/balance"
	"github.com/caddy-sluice/sluice/internal/health"
)

// reserve returns the endpoints in reserve that a pick may choose: if attempts have failed, and have at all that are offered,
// those that have room and weren't tried.
func (s *sim) reserve(r *simRequest) (choices []*Endpoint) {
	if len(r.lost) == 0 && !r.retried {
		return nil
	}
	roster, view := s.s.look(time.Now())
	known := s.s.health.Statuses(time.Now())
	for i, e := range roster.endpoints {
		tried := slices.Contains(r.failed, e)
		switch {
		case view.Offers(i) && !slices.Contains(r.lost, e):
			if tried {
				s.seen["no room, no reserve"]++
			}
			return nil
		case view.Spares(i) && !tried && hasRoom(view.Endpoint(i), &known[i], s.limits(e), r.charged) && e.live.Bars()&balance.Full == 0:
			choices = append(choices, e)
		}
	}
	if len(choices) > 0 {
		s.seen["reserve"]++
		lowest := slices.MinFunc(choices, func(a, b *Endpoint) int { return int(a.tier) - int(b.tier) }).tier
		choices = slices.DeleteFunc(choices, func(e *Endpoint) bool { return e.tier > lowest })
	}
	return choices
}

// checkBars: the picker takes an endpoint that is offered, one in reserve if it has to, and no other.
func (s *sim) checkBars(e *Endpoint, view *health.View, i int) {
	want := balance.Down
	switch {
	case view.Offers(i) && view.Spares(i):
		s.t.Errorf("%s: offered and in reserve", e.text)
	case view.Offers(i) && view.Yields(i):
		want = balance.Yielding
	case view.Offers(i):
		want = 0
	case view.Spares(i):
		want = balance.Reserve
	}
	if got := e.live.Bars() & (balance.Down | balance.Reserve | balance.Yielding); got != want {
		s.t.Errorf("%s: got bars %b, want %b", e.text, got, want)
	}
	if known := s.statusOf(e); view.Spares(i) && !known.Reason.Available() && !known.Trial {
		s.t.Errorf("%s: in reserve, and %v", e.text, known.Reason)
	}
	if view.Yields(i) && view.Stance() == health.Normal {
		s.t.Errorf("%s: yields though enough are available", e.text)
	}
}
