package health

import "time"

// Past is what a change of the policy has dropped, and what it may make SetMembers drop, for Cluster.Return. nil is nothing.
type Past struct{ endpoints map[string]pastEndpoint }

// pastEndpoint is one endpoint before the change.
type pastEndpoint struct {
	streaks Streaks
	eject   ejection
	upSince time.Time
	member  bool
	// lifted says that it was unhealthy and isn't any more, ended that its ejection was dropped with the failures before it,
	// forgot are the failures of each source that were.
	lifted, ended bool
	forgot        [sourceCount]int
}

// release lifts what the policy has no detector for, and returns what was before.
func (p *Past) release(c *Cluster, e *Endpoint, cfg *Config) {
	was := pastEndpoint{streaks: e.streaks, eject: e.eject, upSince: e.upSince, member: !e.gone}
	c.release(e, cfg)
	was.lifted, was.ended = was.streaks.Down() && !e.streaks.Down(), was.eject != e.eject
	if !was.lifted {
		for by := range was.forgot {
			was.forgot[by] = was.streaks.failures[by] - e.streaks.failures[by]
		}
	}
	p.endpoints[e.key] = was
}

// Return is Configure with the policy of before, in place of one that rules no longer: what that has dropped is known again, in
// place of what was learnt since, and all else as it is now. SetMembers, which has to follow, takes endpoints that were there
// then for ones that have never been away.
func (c *Cluster) Return(cfg *Config, past *Past, now time.Time) {
	c.enter(now)
	defer c.leave()
	c.cfg.Store(cfg)
	for key, e := range c.byKey {
		if was, known := past.endpoints[key]; known {
			e.regain(&was)
		}
		c.release(e, cfg)
	}
	c.past, c.dirty = past, true
}

// regain puts back what was dropped.
func (e *Endpoint) regain(was *pastEndpoint) {
	if was.lifted {
		e.streaks, e.upSince = was.streaks, was.upSince
	} else if !e.streaks.Down() {
		for by, failures := range was.forgot {
			e.streaks.failures[by] += failures
		}
	}
	if was.ended {
		// The order of somebody who wants it to be used has ended the ejection, too.
		e.eject = was.eject
		if e.override.Mode == Up {
			e.eject.out = false
		}
	}
}

// risen returns since when the weight of an endpoint grows that becomes a member.
func (c *Cluster) risen(key string) time.Time {
	if c.past != nil && c.past.endpoints[key].member {
		return c.past.endpoints[key].upSince
	}
	return c.now
}
