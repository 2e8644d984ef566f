package health

// Source is who has seen how an endpoint does.
type Source uint8

const (
	// ByCheck means a check that was made for its own sake.
	ByCheck Source = iota
	// ByTraffic means an attempt to serve.
	ByTraffic
)

// Thresholds are the lengths of the streaks that change an endpoint's health. 0 means that the streak doesn't.
type Thresholds struct {
	// Rise is how many successes in a row make an endpoint healthy.
	Rise int
	// Fall is how many failures in a row make it unhealthy.
	Fall int
}

// Streaks is the health of an endpoint, found from successes and failures in a row. One pair of streaks serves all
// sources: each source brings its own thresholds, and what one has seen goes on counting for the other. The zero value
// is healthy. It is used by one goroutine at a time.
//
// Failures are counted while the endpoint is healthy, successes while it isn't. A result of the other kind ends a streak,
// and so does a change of health.
type Streaks struct {
	successes, failures int
	down                bool
	source              Source
}

// Record takes a result of a source, and says whether the health has changed with it.
func (s *Streaks) Record(ok bool, by Source, t Thresholds) bool {
	switch {
	case ok && s.down:
		s.successes++
		return s.change(s.successes, t.Rise, by)
	case ok:
		s.failures = 0
	case s.down:
		s.successes = 0
	default:
		s.failures++
		return s.change(s.failures, t.Fall, by)
	}
	return false
}

// change turns the health over if a streak is long enough.
func (s *Streaks) change(streak, threshold int, by Source) bool {
	if threshold <= 0 || streak < threshold {
		return false
	}
	*s = Streaks{down: !s.down, source: by}
	return true
}

// Down says whether the endpoint is unhealthy.
func (s *Streaks) Down() bool { return s.down }

// Source returns who has seen the result with which the health changed last.
func (s *Streaks) Source() Source { return s.source }

// stirred says whether a success would change something.
func (s *Streaks) stirred() bool { return s.down || s.failures > 0 }
