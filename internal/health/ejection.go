package health

import "time"

// Defaults of Outlier, those of zoxy.
const (
	DefaultConsecutiveFailures = 5
	DefaultEjectionTime        = 30 * time.Second
	DefaultMaxEjectionPercent  = 50
)

// DecayInterval is how long an endpoint must have been back for its next ejection to be one step shorter, where
// ejections grow. It is the interval at which Envoy looks for outliers.
const DecayInterval = 10 * time.Second

// Outlier says when an endpoint is ejected: not offered for a while, because attempts at it fail.
type Outlier struct {
	// ConsecutiveFailures is how many failures in a row lead to an ejection; 0 means that there are none.
	ConsecutiveFailures int
	// Time is how long an ejection lasts.
	Time time.Duration
	// MaxTime, if it isn't 0, lets ejections grow: each lasts Time longer than the one before, but not longer than
	// MaxTime, and Time shorter again for each DecayInterval that the endpoint has been back.
	MaxTime time.Duration
	// MaxPercent is the largest share of the endpoints that may be ejected at a time, the new one counted.
	MaxPercent int
	// Statuses are the statuses of answers that are failures. None is without it.
	Statuses StatusSet
	// CheckUnejects lets an active check that passes end the ejection.
	CheckUnejects bool
}

// allows says whether one more endpoint may be ejected.
func (o *Outlier) allows(ejected, total int) bool { return (ejected+1)*100 <= total*o.MaxPercent }

// ejection is what outlier detection knows about one endpoint.
type ejection struct {
	// failures is the streak. It is kept when an ejection is refused, so that the next failure tries again.
	failures int
	out      bool
	// until is when the ejection ends, ended when the last one did.
	until, ended time.Time
	// multiplier is the length of the last ejection in units of Outlier.Time, where ejections grow.
	multiplier int
}

// record takes a verdict, and says whether the endpoint is due for an ejection.
func (e *ejection) record(v verdict, threshold int) bool {
	switch v {
	case good:
		e.failures = 0
	case bad:
		e.failures++
		return !e.out && e.failures >= threshold
	}
	return false
}

// begin ejects the endpoint.
func (e *ejection) begin(o *Outlier, now time.Time) {
	e.failures, e.out = 0, true
	e.until = now.Add(e.grow(o, now))
}

// grow returns how long the ejection that begins now lasts.
func (e *ejection) grow(o *Outlier, now time.Time) time.Duration {
	if o.MaxTime <= 0 {
		e.multiplier = 0
		return o.Time
	}
	e.multiplier -= int(min(now.Sub(e.ended)/DecayInterval, time.Duration(e.multiplier)))
	if time.Duration(e.multiplier)*o.Time < o.MaxTime+o.Time {
		e.multiplier++
	}
	return min(time.Duration(e.multiplier)*o.Time, o.MaxTime)
}

// expire ends the ejection if its time is over, and says whether it has.
func (e *ejection) expire(now time.Time) bool {
	return e.out && !now.Before(e.until) && e.end(e.until)
}

// end ends the ejection, if there is one, and says whether there was.
func (e *ejection) end(at time.Time) bool {
	if !e.out {
		return false
	}
	e.out, e.ended = false, at
	return true
}
