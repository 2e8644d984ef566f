// Package health knows which endpoints of a cluster can be used, and how much may be asked of them. It is told what
// became of checks and attempts, and at which time; it keeps no clock, throws no dice and does no I/O.
//
// A Cluster holds the state of its endpoints. Its answer is a View, which never changes and is read without a lock; a
// new one replaces it when something has changed, or when its time is over. A Request, its Attempts and their Conns are
// counted while they go on; each is settled once, whoever comes first.
//
// What is counted is that of the whole process, however many configurations there are.
package health

import (
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// Cluster is the health of a set of endpoints. It is safe for concurrent use.
//
// Times that are given to it should come from one clock. One that is a little older than another one does no harm: where
// the order matters, the cluster's time doesn't go back.
type Cluster struct {
	cfg  atomic.Pointer[Config]
	view atomic.Pointer[View]
	// requests counts the requests under way and, of them, the ones that are being retried.
	requests pair
	// conns counts the connections that are being made or serve and, of them, the ones that are being made.
	conns pair
	stats counters

	// mu guards what follows, and the endpoints' state.
	mu sync.Mutex
	// now is the latest time that was given.
	now       time.Time
	endpoints []*Endpoint
	listStamp uint64
	// byKey has the endpoints, and those that are gone but whose state is kept.
	byKey map[string]*Endpoint
	// past is what the next SetMembers goes back to; nil if it doesn't.
	past *Past
	// ranks is the number of tiers there are.
	ranks int
	// ejected is how many of the endpoints are ejected.
	ejected int
	// dirty says that the view no longer holds.
	dirty bool
	// tiers and weights are memory for the making of a view.
	tiers   []tierTally
	weights []uint32
	events  eventQueue
}

// NewCluster returns a cluster without endpoints.
func NewCluster(cfg *Config, now time.Time) *Cluster {
	c := &Cluster{byKey: make(map[string]*Endpoint), now: now}
	c.cfg.Store(cfg)
	c.rebuild()
	return c
}

// Configure replaces the policy. Counts, streaks and ejections stay, except those that nothing would ever lift. They are in
// what it returns.
func (c *Cluster) Configure(cfg *Config, now time.Time) *Past {
	c.enter(now)
	defer c.leave()
	c.cfg.Store(cfg)
	past := &Past{make(map[string]pastEndpoint, len(c.byKey))}
	for _, e := range c.byKey {
		past.release(c, e, cfg)
	}
	c.dirty = true
	return past
}

// release lifts the state of an endpoint that belongs to detectors which the policy doesn't have.
func (c *Cluster) release(e *Endpoint, cfg *Config) {
	active := cfg.Active.Fall > 0
	checked := active || e.streaks.Source() == ByTraffic && cfg.trials()
	if e.streaks.Down() && !checked {
		e.streaks = Streaks{}
		e.upSince = c.now
	}
	if cfg.Outlier.ConsecutiveFailures <= 0 {
		e.eject.end(c.now)
		e.eject.failures = 0
	}
	if !active {
		e.streaks.forget(ByCheck)
	}
	if !cfg.passive() {
		e.streaks.forget(ByTraffic)
	}
	e.note()
}

// note keeps stirred as it should be. The caller holds mu.
func (e *Endpoint) note() { e.stirred.Store(e.streaks.stirred() || e.eject.failures > 0) }

// View returns which endpoints are offered.
func (c *Cluster) View(now time.Time) *View {
	if v := c.view.Load(); !v.due(now) {
		return v
	}
	c.enter(now)
	defer c.leave()
	return c.view.Load()
}

// Timeless says that time alone changes nothing by now: who asks for the view need not know what time it is.
func (c *Cluster) Timeless() bool { return c.view.Load().until.IsZero() }

// Endpoint returns the endpoint of a key; nil if it isn't known. It may be one that is no longer a member.
func (c *Cluster) Endpoint(key string) *Endpoint {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.byKey[key]
}

// Check takes the result of an active check of an endpoint, and says whether its health has changed with it.
func (c *Cluster) Check(e *Endpoint, ok bool, now time.Time) bool {
	c.enter(now)
	defer c.leave()
	cfg := c.cfg.Load()
	// A check that a configuration before has begun may end when there are no checks any more.
	changed := cfg.Active.Fall > 0 && c.record(e, ok, ByCheck, cfg.Active)
	if ok && cfg.Outlier.CheckUnejects && e.eject.end(c.now) {
		e.eject.failures = 0
		c.returned(e)
		changed = true
	}
	e.note()
	return changed
}

// Override orders something for the endpoint of a key, and says whether it is known. The zero value takes the order
// back. An order stays while the endpoint is away.
func (c *Cluster) Override(key string, o Override, now time.Time) bool {
	c.enter(now)
	defer c.leave()
	e := c.byKey[key]
	if e == nil {
		return false
	}
	if e.override.Mode.closed() && !o.Mode.closed() {
		e.upSince = c.now
	}
	if o.Mode == Up {
		e.eject.end(c.now)
	}
	e.override, c.dirty = o, true
	e.closed.Store(o.Mode.closed())
	return true
}

// Statuses returns what is known about all endpoints: the members in their order, then those that are gone.
func (c *Cluster) Statuses(now time.Time) []Status {
	c.enter(now)
	defer c.leave()
	cfg := c.cfg.Load()
	all := make([]Status, 0, len(c.byKey))
	for _, e := range c.endpoints {
		all = append(all, e.status(cfg, c.now))
	}
	for _, e := range c.byKey {
		if e.gone {
			e.eject.expire(c.now)
			all = append(all, e.status(cfg, c.now))
		}
	}
	slices.SortFunc(all[len(c.endpoints):], func(a, b Status) int { return strings.Compare(a.Key, b.Key) })
	return all
}

// enter takes the lock and brings the state up to a time. leave is its other end.
func (c *Cluster) enter(now time.Time) {
	c.mu.Lock()
	if now.After(c.now) {
		c.now = now
	}
	if c.view.Load().due(c.now) {
		c.rebuild()
	}
}

// leave makes a new view, if something has changed, and gives the lock back.
func (c *Cluster) leave() {
	if c.dirty {
		c.rebuild()
	}
	c.mu.Unlock()
}
