package health

// Source is who has seen how an endpoint does.
type Source uint8

const (
	// ByCheck means a check that was made for its own sake.
	ByCheck Source = iota
	// ByTraffic means an attempt to serve.
	ByTraffic
	sourceCount
)

// Thresholds are the lengths of the streaks that change an endpoint's health. 0 means that the streak doesn't.
type Thresholds struct {
	// Rise is how many successes in a row make an endpoint healthy.
	Rise int
	// Fall is how many failures in a row make it unhealthy.
	Fall int
}

// Streaks is the health of an endpoint, found from successes and failures in a row. Each source brings its own thresholds.
// The zero value is healthy. It is used by one goroutine at a time.
//
// While the endpoint is healthy, the failures of each source are counted, and a success ends those of its own source: an
// endpoint with traffic would never be found out by its checks otherwise, nor one with checks by its traffic. Failures of
// all sources add up, so that two who see half of it see enough together.
//
// While it isn't healthy, successes are counted, and a failure ends them. What checks took down comes back by checks alone:
// its traffic, which goes on where all endpoints are used, doesn't have to fail for the same reason as they do, and would
// bring it back after each of their verdicts. A change of health ends all streaks.
type Streaks struct {
	// failures are those of each source.
	failures  [sourceCount]int
	successes int
	down      bool
	source    Source
}

// Record takes a result of a source, and says whether the health has changed with it.
func (s *Streaks) Record(ok bool, by Source, t Thresholds) bool {
	switch {
	case s.deaf(by):
	case ok && s.down:
		s.successes++
		return s.change(s.successes, t.Rise, by)
	case ok:
		s.failures[by] = 0
	case s.down:
		s.successes = 0
	default:
		s.failures[by]++
		return s.change(s.failing(), t.Fall, by)
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

// deaf says whether results of a source say nothing by now.
func (s *Streaks) deaf(by Source) bool { return s.down && s.source == ByCheck && by != ByCheck }

// failing returns the failures of all sources.
func (s *Streaks) failing() (n int) {
	for _, failures := range s.failures {
		n += failures
	}
	return n
}

// forget drops the failures of a source that is no more: nothing else would end them.
func (s *Streaks) forget(by Source) { s.failures[by] = 0 }

// stirred says whether a success of traffic would change something.
func (s *Streaks) stirred() bool { return s.failures[ByTraffic] > 0 || s.down && !s.deaf(ByTraffic) }
