package health

import "time"

// settle takes the outcome of an attempt. Most are successes of endpoints without any failure: they take no lock.
func (c *Cluster) settle(e *Endpoint, trial uint64, o Outcome, now time.Time) {
	if trial == 0 && c.quiet(e, o) {
		return
	}
	c.enter(now)
	defer c.leave()
	if trial != 0 {
		c.tried(e, trial)
	}
	cfg := c.cfg.Load()
	if cfg.passive() {
		c.attempted(e, o.judge(&cfg.Passive.Statuses), cfg)
	}
	if threshold := cfg.Outlier.ConsecutiveFailures; threshold > 0 && e.eject.record(o.judge(&cfg.Outlier.Statuses), threshold) {
		c.ejectMaybe(e, &cfg.Outlier)
	}
	e.note()
}

// quiet says whether an outcome changes nothing that is known about an endpoint.
func (c *Cluster) quiet(e *Endpoint, o Outcome) bool {
	fails, succeeds := c.cfg.Load().sees(o)
	return !fails && !(succeeds && e.stirred.Load())
}

// attempted takes the verdict on an attempt for the endpoint's health. While the endpoint is unhealthy, a failure puts
// its next trial off, and a success asks for the next one at once.
func (c *Cluster) attempted(e *Endpoint, v verdict, cfg *Config) {
	if v == neutral || c.record(e, v == good, ByTraffic, cfg.passiveThresholds()) || !e.streaks.Down() || e.streaks.deaf(ByTraffic) {
		return
	}
	if v == good {
		e.trial.put(c.now)
		c.dirty = true
		return
	}
	// The view knows when the next trial was due: it has to be told of an earlier time, not of a later one.
	at := c.now.Add(cfg.Passive.RetryAfter)
	c.dirty = c.dirty || !c.now.Before(e.trial.at) || at.Before(e.trial.at)
	e.trial.put(at)
}

// record puts a result into the streaks, and says whether the health has changed with it.
func (c *Cluster) record(e *Endpoint, ok bool, by Source, t Thresholds) bool {
	if !e.streaks.Record(ok, by, t) {
		return false
	}
	c.dirty = true
	if !e.streaks.Down() {
		e.upSince = c.now
		return true
	}
	e.trial.put(c.now.Add(c.cfg.Load().Passive.RetryAfter))
	e.trial.taken = false
	return true
}

// ejectMaybe ejects an endpoint, unless too many are. One that is used or taken out by hand isn't.
func (c *Cluster) ejectMaybe(e *Endpoint, o *Outlier) {
	if e.gone || e.override.Mode != Auto {
		return
	}
	if !o.allows(c.ejected, len(c.endpoints)) {
		c.stats.ejectionsRefused.Add(1)
		return
	}
	e.eject.begin(o, c.now)
	c.ejected++
	c.dirty = true
	c.stats.ejections.Add(1)
}

// claim takes the trial of an endpoint for an attempt. It returns its number, which is 0 if the endpoint needs none by
// now, and whether the attempt may be made.
func (c *Cluster) claim(e *Endpoint, now time.Time) (trial uint64, ok bool) {
	c.enter(now)
	defer c.leave()
	if e.reason.Available() {
		return 0, true
	}
	if !c.cfg.Load().trials() || !e.tries(c.now) {
		return 0, false
	}
	e.trial.number++
	e.trial.taken, c.dirty = true, true
	c.stats.trials.Add(1)
	return e.trial.number, true
}

// tried ends a trial, if it is still the one that is under way.
func (c *Cluster) tried(e *Endpoint, trial uint64) {
	if e.trial.taken && e.trial.number == trial {
		e.trial.taken, c.dirty = false, true
		e.trial.wait(c.now.Add(c.cfg.Load().Passive.RetryAfter))
	}
}
