package health

import (
	"container/heap"
	"time"
)

// DefaultParallelChecks is how many checks of a cluster go on at a time: enough for dozens of endpoints with the usual
// interval, and few enough that an outage, where each takes as long as it may, doesn't use up file descriptors.
const DefaultParallelChecks = 8

// Schedule says which endpoint is to be checked when. First checks are spread over one interval, the first one at once;
// what is due while too many are under way waits for its turn. No endpoint is checked twice at a time. It is used by one
// goroutine at a time.
type Schedule struct {
	interval time.Duration
	parallel int
	underWay int
	byKey    map[string]*Probe
	waiting  probes
	// resumed are the times at which a schedule before has left endpoints. It is dropped by the first Set.
	resumed map[string]time.Time
}

// Probe is one endpoint in a Schedule.
type Probe struct {
	key string
	due time.Time
	// order is the place in the list of keys: the first is checked first.
	order int
	// at is the place in the queue; -1 while the check is under way.
	at int
	// gone says that the endpoint is no longer to be checked.
	gone bool
}

// Key returns what the endpoint is known by.
func (p *Probe) Key() string { return p.key }

// NewSchedule returns a schedule without endpoints, for checks every interval, and parallel of them at a time at most.
func NewSchedule(interval time.Duration, parallel int) *Schedule {
	return &Schedule{interval: interval, parallel: max(parallel, 1), byKey: make(map[string]*Probe)}
}

// Resume gives the times at which endpoints were to be checked by a schedule of the same interval, before the first Set.
func (s *Schedule) Resume(due map[string]time.Time) { s.resumed = due }

// Due returns when an endpoint is to be checked next, or was, if its check is under way; zero if there is no such endpoint.
func (s *Schedule) Due(key string) time.Time {
	if p := s.byKey[key]; p != nil {
		return p.due
	}
	return time.Time{}
}

// Set replaces the endpoints. Those that stay keep their time, and a check that is under way. Without keys the schedule
// has stopped: no result counts any longer.
func (s *Schedule) Set(keys []string, now time.Time) {
	old := s.byKey
	s.byKey = make(map[string]*Probe, len(keys))
	s.waiting = s.waiting[:0]
	for i, key := range keys {
		p := old[key]
		if p == nil {
			p = &Probe{key: key, due: s.first(i, len(keys), now)}
			if due, known := s.resumed[key]; known {
				p.due = due
			}
		}
		delete(old, key)
		p.order = i
		s.byKey[key] = p
		if p.at >= 0 {
			p.at = len(s.waiting)
			s.waiting = append(s.waiting, p)
		}
	}
	for _, p := range old {
		p.gone = true
	}
	s.resumed = nil
	heap.Init(&s.waiting)
}

// first returns when an endpoint is checked of which nothing is known.
func (s *Schedule) first(place, total int, now time.Time) time.Time {
	return now.Add(s.interval / time.Duration(total) * time.Duration(place))
}

// Next returns an endpoint whose check is to begin now. If there is none it returns nil, and when to ask again; the zero
// time means after the next Done or Set.
func (s *Schedule) Next(now time.Time) (p *Probe, again time.Time) {
	if len(s.waiting) == 0 || s.underWay >= s.parallel {
		return nil, time.Time{}
	}
	if due := s.waiting[0].due; now.Before(due) {
		return nil, due
	}
	s.underWay++
	return heap.Pop(&s.waiting).(*Probe), time.Time{}
}

// Done ends a check, and says whether its result counts. Whoever couldn't make the check, for want of file descriptors
// for example, calls it too, and has no result.
func (s *Schedule) Done(p *Probe, now time.Time) bool {
	s.underWay--
	if p.gone {
		return false
	}
	if p.due = p.due.Add(s.interval); p.due.Before(now) {
		// It was late by more than a whole interval. What was missed isn't made up for.
		p.due = now
	}
	heap.Push(&s.waiting, p)
	return true
}

// probes is a queue by due time, then by order. It is a heap.Interface.
type probes []*Probe

func (q probes) Len() int { return len(q) }

func (q probes) Less(i, j int) bool {
	if q[i].due.Equal(q[j].due) {
		return q[i].order < q[j].order
	}
	return q[i].due.Before(q[j].due)
}

func (q probes) Swap(i, j int) {
	q[i], q[j] = q[j], q[i]
	q[i].at, q[j].at = i, j
}

// Push appends to the queue.
func (q *probes) Push(x any) {
	p := x.(*Probe)
	p.at = len(*q)
	*q = append(*q, p)
}

// Pop removes the last of the queue.
func (q *probes) Pop() any {
	last := len(*q) - 1
	p := (*q)[last]
	(*q)[last] = nil
	*q = (*q)[:last]
	p.at = -1
	return p
}
