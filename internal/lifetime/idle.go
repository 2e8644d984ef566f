package lifetime

import "time"

// idleWatch finds out whether a connection is idle; Watch says how.
type idleWatch struct {
	// limit is the idle limit, step is 1/8 of it.
	limit, step time.Duration
	// start is when the connection began. No byte counts as older.
	start time.Time
	// look is the time before which there is nothing to see.
	look time.Time
	// suspect says that the last byte is old, or that its age isn't known. The fields below are valid then.
	suspect bool
	// moved is what had been moved at the last look.
	moved int64
	// end is when the connection is idle if nothing moves.
	end time.Time
	// blind says that the age of the last byte doesn't tell when something moved last.
	blind bool
}

// begin sets the watch to its start.
func (i *idleWatch) begin(limit time.Duration, now time.Time) {
	*i = idleWatch{limit: limit, step: max(limit/8, 1), start: now, look: now}
}

// next returns how long to wait for the next look; 0 if the connection is idle.
func (i *idleWatch) next(now time.Time, a Activity) time.Duration {
	if left := i.look.Sub(now); left > 0 {
		return left
	}
	wait := i.examine(now, a)
	i.look = now.Add(wait)
	return wait
}

// examine is a look at the activity. It returns how long to wait for the next one; 0 if the connection is idle.
func (i *idleWatch) examine(now time.Time, a Activity) time.Duration {
	known := a.Age >= 0
	age := min(a.Age, now.Sub(i.start))
	if known && age < i.limit-i.step {
		i.suspect = false
		return i.limit - i.step - age
	}
	switch {
	case !i.suspect:
		i.suspected(now, known, age, a.Moved)
	case a.Moved != i.moved:
		i.moved, i.end, i.blind = a.Moved, now.Add(i.limit), true
	case known:
		// A byte may have arrived that could not be moved yet.
		i.end = later(i.end, now.Add(i.limit-age))
	}
	left := max(i.end.Sub(now), 0)
	if i.blind {
		return min(left, i.step)
	}
	return left
}

// suspected is the first look at a connection that may be idle.
func (i *idleWatch) suspected(now time.Time, known bool, age time.Duration, moved int64) {
	i.suspect, i.moved, i.blind = true, moved, !known
	i.end = now.Add(i.limit)
	if known {
		// If this look comes late, something must still have the time to move before the next.
		i.end = later(now.Add(i.limit-age), now.Add(max(i.step/2, 1)))
	}
}

// later returns the later of two times.
func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}
