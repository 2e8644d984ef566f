package health

import (
	"slices"
	"time"
)

// tierTally counts the endpoints of a tier: those that weren't taken out by hand and, of them, the available ones.
type tierTally struct{ eligible, available int }

// rebuild makes a new view of the state at c.now. The caller holds mu.
func (c *Cluster) rebuild() {
	c.ejected = 0
	cfg, old := c.cfg.Load(), c.view.Load()
	v := &View{endpoints: c.endpoints, listStamp: c.listStamp, version: 1}
	c.tiers = slices.Grow(c.tiers[:0], c.ranks)[:c.ranks]
	clear(c.tiers)
	c.weights = c.weights[:0]
	for _, e := range c.endpoints {
		v.end(c.survey(e, cfg))
		c.weights = append(c.weights, e.effective(&cfg.SlowStart, c.now))
	}
	c.offer(v, cfg)
	if old != nil {
		v.version = old.version + 1
		if slices.Equal(old.effective, c.weights) {
			v.effective = old.effective
		}
		if old.stance != v.stance {
			c.events.add(Event{At: c.now, Stances: [2]Stance{old.stance, v.stance}})
		}
	}
	if v.effective == nil {
		v.effective = slices.Clone(c.weights)
	}
	c.view.Store(v)
	c.dirty = false
}

// end makes a view end at a time, if that isn't zero, or earlier.
func (v *View) end(at time.Time) {
	if v.until.IsZero() || !at.IsZero() && at.Before(v.until) {
		v.until = at
	}
}

// survey brings one endpoint up to date and returns when it has to be looked at again; zero if it hasn't.
func (c *Cluster) survey(e *Endpoint, cfg *Config) (again time.Time) {
	if e.eject.expire(c.now) {
		c.returned(e)
	}
	if reason := e.judge(&cfg.SlowStart, c.now); reason != e.reason {
		c.events.add(Event{At: c.now, Key: e.key, Reasons: [2]Reason{e.reason, reason}})
		e.reason, e.since = reason, c.now
	}
	if !e.override.Mode.closed() {
		c.tiers[e.rank].eligible++
	}
	if e.reason.Available() {
		c.tiers[e.rank].available++
	}
	if e.eject.out {
		c.ejected++
		return e.eject.until
	}
	switch {
	case cfg.trials() && e.down() && c.now.Before(e.trial.owed):
		return e.trial.next(c.now)
	case e.reason == SlowStarting:
		return e.upSince.Add(cfg.SlowStart.next(c.now.Sub(e.upSince)))
	}
	return time.Time{}
}

// returned is to be called when an ejection has ended.
func (c *Cluster) returned(e *Endpoint) {
	c.dirty = true
	if c.cfg.Load().SlowStart.AfterEjection {
		e.upSince = e.eject.ended
	}
}

// offer fills in what the view offers.
func (c *Cluster) offer(v *View, cfg *Config) {
	var rank int
	v.stance, rank = stance(c.tiers, cfg)
	v.offered, v.turn, v.serving = newBitmap(len(c.endpoints)), none, none
	for i, e := range c.endpoints {
		if e.rank == rank && v.stance <= FailOpen {
			v.serving = i
		}
		if e.reason.Available() {
			v.available++
		}
		tries := cfg.trials() && e.tries(c.now)
		owed := tries && v.stance != Normal && !c.now.Before(e.trial.owed)
		if owed && (v.turn == none || e.before(c.endpoints[v.turn])) {
			v.turn = i
		}
		switch {
		case owed, v.stance == Refusing && tries:
			v.offered.set(i)
			v.try(i)
		case v.stance == Refusing:
		case e.rank == rank && (e.reason.Available() || v.stance == FailOpen && !e.override.Mode.closed()):
			v.offered.set(i)
		case e.rank <= rank && tries:
			v.offered.set(i)
			v.try(i)
		case e.rank > rank && tries:
			v.reserve(i)
			v.try(i)
		case e.rank > rank && e.reason.Available():
			v.reserve(i)
		}
	}
	v.offers, v.spare = v.offered.count(), v.spares.count()
}

// before says whether the trial of an endpoint comes before that of another one: those that wait longest are first.
func (e *Endpoint) before(other *Endpoint) bool {
	if order := e.trial.owed.Compare(other.trial.owed); order != 0 {
		return order < 0
	}
	return e.rank < other.rank
}

// reserve keeps an endpoint for requests that have failed at each of the offered ones.
func (v *View) reserve(i int) {
	if v.spares == nil {
		v.spares = newBitmap(len(v.endpoints))
	}
	v.spares.set(i)
}

// try says that an endpoint is there for one attempt only.
func (v *View) try(i int) {
	if v.trials == nil {
		v.trials = newBitmap(len(v.endpoints))
	}
	v.trials.set(i)
}

// stance chooses the tier that serves. It is the first one in which enough endpoints are available. If there is none, it
// is the one in which most are, all of whose endpoints may be used then.
func stance(tiers []tierTally, cfg *Config) (s Stance, rank int) {
	best := -1
	for rank, t := range tiers {
		switch {
		case t.eligible == 0:
			continue
		case t.available > 0 && t.available*100 >= t.eligible*cfg.PanicPercent:
			return Normal, rank
		case best < 0 || t.available > tiers[best].available:
			best = rank
		}
	}
	switch {
	case best < 0:
		return Empty, 0
	case cfg.Refuse:
		return Refusing, best
	}
	return FailOpen, best
}
