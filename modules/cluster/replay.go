package cluster

import (
	"slices"
	"time"

	"github.com/caddy-sluice/sluice/internal/health"
)

// Repick leases the endpoint of a lease once more that was settled with the decision to replay; f is the failure that it
// was decided for. The answer is Replay then. If the endpoint is out by now, or has no room, it is what to do instead, as
// of Fail, and there is no lease.
func (r *Request) Repick(l *Lease, f Failure) Decision {
	now := time.Now()
	s, e := r.cluster.state, l.endpoint
	roster, view := s.look(now)
	if place := slices.Index(roster.endpoints, e); place >= 0 && (view.Offers(place) || view.Spares(place)) {
		e.live.Take()
		if r.try(l, e, view, place, now) == health.Granted {
			return Decision{Action: health.Replay}
		}
	}
	r.pass(e)
	d := r.request.Missed(&l.attempt, f, s.random(), now)
	r.failed = r.failed || d.Action == health.Again // the failure counts as one after all
	return d
}

// Crowded settles the lease of an attempt that Count has refused a connection because of the endpoint. That says nothing
// about its health. The request counts it as tried, and nobody picks it until a connection of it or an attempt at it has
// ended. If it was a retry, the next pick is the same one.
func (l *Lease) Crowded() {
	e := l.endpoint
	if !l.attempt.Crowded(time.Now()) {
		return
	}
	l.settled(Outcome{Kind: health.Aborted})
	l.request.pass(e)
	e.barWhile(e.health.Load().Crowded)
}
