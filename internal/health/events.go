package health

import (
	"sync/atomic"
	"time"
)

// MaxEvents is how many events are kept until they are taken. More than one change of each endpoint of a large cluster
// fits; of what is more, the newest are lost, and counted.
const MaxEvents = 4096

// Event is a change: of an endpoint, or of the cluster's stance.
type Event struct {
	At time.Time
	// Key is the endpoint's; empty if it is about the stance.
	Key string
	// Reasons are the endpoint's reason before and after.
	Reasons [2]Reason
	// Stances are the stances before and after.
	Stances [2]Stance
}

// eventQueue keeps events in their order.
type eventQueue struct {
	list []Event
	// ready says that there is one. It is read without the lock.
	ready atomic.Bool
	lost  uint64
}

func (q *eventQueue) add(e Event) {
	if len(q.list) >= MaxEvents {
		q.lost++
		return
	}
	q.list = append(q.list, e)
	q.ready.Store(true)
}

// EventsReady says whether there are events to take. It takes no lock.
func (c *Cluster) EventsReady() bool { return c.events.ready.Load() }

// Events appends the events since the last call to dst, and returns it.
func (c *Cluster) Events(dst []Event) []Event {
	c.mu.Lock()
	defer c.mu.Unlock()
	dst = append(dst, c.events.list...)
	clear(c.events.list)
	c.events.list = c.events.list[:0]
	c.events.ready.Store(false)
	return dst
}

// counters count what has happened in a cluster.
type counters struct {
	attempts, ejections, ejectionsRefused, trials             atomic.Uint64
	requestsRefused, attemptsRefused, dialsRefused            atomic.Uint64
	retries, replays, retriesRefused, failOpenPicks, timeouts atomic.Uint64
}

// Stats is what has happened in a cluster since it was made, and what is under way.
type Stats struct {
	// Attempts counts the attempts, retries and replays included. Retries and Replays count these.
	Attempts, Retries, Replays uint64
	// Ejections counts the ejections, EjectionsRefused those that would have been too many at a time.
	Ejections, EjectionsRefused uint64
	// Trials counts the trials that were begun.
	Trials uint64
	// RequestsRefused, AttemptsRefused and DialsRefused count what was above a limit, or not offered any longer.
	RequestsRefused, AttemptsRefused, DialsRefused uint64
	// RetriesRefused counts the retries that were over the budget or the limit.
	RetriesRefused uint64
	// FailOpenPicks counts the attempts that were made in the stance FailOpen.
	FailOpenPicks uint64
	// Timeouts counts the attempts that have failed with Timeout.
	Timeouts uint64
	// EventsLost counts the events that nobody has taken in time.
	EventsLost uint64

	// RequestsActive, RetriesActive, ConnectionsActive and PendingActive are under way. EjectedNow are ejected, as of
	// the last view.
	RequestsActive, RetriesActive, ConnectionsActive, PendingActive int64
	EjectedNow                                                      int
}

// Stats returns what has happened.
func (c *Cluster) Stats() Stats {
	n := &c.stats
	s := Stats{
		Attempts: n.attempts.Load(), Retries: n.retries.Load(), Replays: n.replays.Load(),
		Ejections: n.ejections.Load(), EjectionsRefused: n.ejectionsRefused.Load(), Trials: n.trials.Load(),
		RequestsRefused: n.requestsRefused.Load(), AttemptsRefused: n.attemptsRefused.Load(), DialsRefused: n.dialsRefused.Load(),
		RetriesRefused: n.retriesRefused.Load(), FailOpenPicks: n.failOpenPicks.Load(), Timeouts: n.timeouts.Load(),
	}
	s.RequestsActive, s.RetriesActive = c.requests.load()
	s.ConnectionsActive, s.PendingActive = c.conns.load()
	c.mu.Lock()
	defer c.mu.Unlock()
	s.EjectedNow, s.EventsLost = c.ejected, c.events.lost
	return s
}
