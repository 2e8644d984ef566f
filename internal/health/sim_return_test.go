package health

import "slices"

// modelPast is an endpoint before a change of the policy, and what that has dropped.
type modelPast struct {
	was           modelEndpoint
	lifted, ended bool
	forgot        []modelResult
}

// configure replaces the policy: half the time for good, else until something else of the same config has failed.
func (s *sim) configure() {
	if s.failing {
		return
	}
	before, listed := s.m.cfg, s.listed
	past, modelled := s.change()
	if oneIn(s.r, 2) {
		return
	}
	s.failing = true
	s.members()
	s.compare()
	for range s.r.IntN(6) {
		s.step()
		s.compare()
	}
	s.failing = false
	s.note("return, members %+v", listed)
	s.c.Return(before, past, s.now)
	s.m.goBack(before, modelled)
	s.setMembers(listed)
	s.seen.returns++
}

// change makes up another policy.
func (s *sim) change() (*Past, map[string]modelPast) {
	cfg := makeConfig(s.r)
	s.note("configure %+v", *cfg)
	return s.c.Configure(cfg, s.now), s.m.configure(cfg)
}

// configure takes another policy, and returns what was before.
func (m *model) configure(cfg *Config) map[string]modelPast {
	m.cfg = cfg
	past := make(map[string]modelPast)
	for key, e := range m.all {
		p := modelPast{was: *e}
		active, attempts := cfg.Active.Fall > 0, cfg.Passive.Fall > 0
		if e.down && !active && (e.byCheck || !attempts) {
			e.down, e.results, e.up, p.lifted = false, nil, m.now, true
		}
		if cfg.Outlier.ConsecutiveFailures == 0 {
			e.failures, p.ended = 0, true
			if e.out {
				e.out, e.end = false, m.now
			}
		}
		if !e.down {
			var kept []modelResult
			for _, r := range e.results {
				if r.check && !active || !r.check && !attempts && cfg.Passive.Rise == 0 {
					p.forgot = append(p.forgot, r)
				} else {
					kept = append(kept, r)
				}
			}
			e.results = kept
		}
		past[key] = p
	}
	return past
}

// goBack takes the policy of before again. Nothing is dropped by that which was known then, nor which was found since.
func (m *model) goBack(cfg *Config, past map[string]modelPast) {
	for key, p := range past {
		e := m.all[key]
		switch {
		case p.lifted:
			e.down, e.byCheck, e.results, e.up = true, p.was.byCheck, p.was.results, p.was.up
		case !e.down:
			e.results = slices.Concat(p.forgot, e.results)
		}
		if p.ended {
			e.failures, e.out, e.until, e.end = p.was.failures, p.was.out && e.override.Mode != Up, p.was.until, p.was.end
		}
	}
	m.configure(cfg)
	m.to(m.now) // an ejection may have ended meanwhile
	m.past = past
}
