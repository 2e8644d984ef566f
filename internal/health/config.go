package health

import (
	"errors"
	"fmt"
	"time"
)

// DefaultRetryAfter is how long an endpoint that attempts have found unhealthy rests before it gets a trial.
const DefaultRetryAfter = 30 * time.Second

// ErrConfig is what every error of Config.Validate is.
var ErrConfig = errors.New("out of range")

// Passive says when attempts to serve change an endpoint's health. The zero value is off.
type Passive struct {
	Thresholds
	// Statuses are the statuses of answers that are failures.
	Statuses StatusSet
	// RetryAfter is how long an endpoint that attempts have found unhealthy rests in a cluster without active checks.
	// Then it is offered for one attempt at a time, a trial, until it is healthy or fails again.
	RetryAfter time.Duration
}

// Config is the policy of a cluster. It isn't changed after it was given to a Cluster. The zero value has no checks, no
// limits and no retries.
type Config struct {
	// Active are the thresholds of active checks. They are on if Fall isn't 0.
	Active   Thresholds
	Passive  Passive
	Outlier  Outlier
	Limits   Limits
	Retry    Retry
	Timeouts Timeouts

	SlowStart SlowStart
	// PanicPercent is the share of endpoints below which there is a panic: too few are available to carry the load. 0
	// means that there is one only if none is.
	PanicPercent int
	// Refuse offers no endpoint in a panic. Without it all are offered, whatever is known about their health.
	Refuse bool
}

// trials says whether endpoints come back by trials.
func (c *Config) trials() bool { return c.Active.Fall <= 0 && c.Passive.Fall > 0 }

// passive says whether attempts count for an endpoint's health.
func (c *Config) passive() bool { return c.Passive.Fall > 0 || c.Passive.Rise > 0 }

// passiveThresholds returns the thresholds of attempts. Where nothing else makes an endpoint healthy, one success does.
func (c *Config) passiveThresholds() Thresholds {
	t := c.Passive.Thresholds
	if c.trials() {
		t.Rise = max(t.Rise, 1)
	}
	return t
}

// sees says whether an outcome is a failure, and whether it is a success, for any detector that is on.
func (c *Config) sees(o Outcome) (fails, succeeds bool) {
	if c.passive() {
		v := o.judge(&c.Passive.Statuses)
		fails, succeeds = v == bad, v == good
	}
	if c.Outlier.ConsecutiveFailures > 0 {
		v := o.judge(&c.Outlier.Statuses)
		fails, succeeds = fails || v == bad, succeeds || v == good
	}
	return fails, succeeds
}

// bound is a number, and the range that it must be in.
type bound struct {
	name          string
	got, low, top int64
	on            bool
}

// check says whether the number is out of its range.
func (b *bound) check() error {
	if !b.on || b.got >= b.low && b.got <= b.top {
		return nil
	}
	if b.top == longest {
		return fmt.Errorf("%s %v: must be %v to %v: %w", b.name, time.Duration(b.got), time.Duration(b.low), time.Duration(b.top), ErrConfig)
	}
	return fmt.Errorf("%s %d: must be %d to %d: %w", b.name, b.got, b.low, b.top, ErrConfig)
}

const (
	// most is the largest count. A pair has room for twice as many.
	most = 1 << 31
	// longest is the longest time. Nobody waits for more than a day.
	longest = int64(24 * time.Hour)
)

// Validate says what is out of range. Names are those of the settings.
func (c *Config) Validate() error {
	o, r, s := &c.Outlier, &c.Retry, &c.SlowStart
	active := c.Active != Thresholds{}
	for _, b := range []bound{
		{"rise", int64(c.Active.Rise), 1, most, active},
		{"fall", int64(c.Active.Fall), 1, most, active},
		{"passive rise", int64(c.Passive.Rise), 0, most, true},
		{"passive fall", int64(c.Passive.Fall), 0, most, true},
		{"retry_after", int64(c.Passive.RetryAfter), 1, longest, c.trials()},
		{"consecutive_failures", int64(o.ConsecutiveFailures), 0, most, true},
		{"ejection_time", int64(o.Time), 1, longest, o.ConsecutiveFailures > 0},
		{"max_ejection_time", int64(o.MaxTime), int64(o.Time), longest, o.ConsecutiveFailures > 0 && o.MaxTime != 0},
		{"max_ejection_percent", int64(o.MaxPercent), 1, 100, o.ConsecutiveFailures > 0},
		{"max_connections", c.Limits.Connections, 0, most, true},
		{"max_pending", c.Limits.Pending, 0, most, true},
		{"max_requests", c.Limits.Requests, 0, most, true},
		{"max_retries", c.Limits.Retries, 0, most, true},
		{"max", int64(r.Max), 0, MaxRetries, true},
		{"backoff", int64(r.Backoff.Base), 0, longest, true},
		{"backoff cap", int64(r.Backoff.Cap), int64(r.Backoff.Base), longest, true},
		{"backoff base", int64(r.Backoff.Base), 1, longest, r.Backoff.Cap != 0},
		{"budget", int64(r.Budget.Percent), 1, 100, r.Max > 0},
		{"min", int64(r.Budget.Min), 0, most, true},
		{"slow_start", int64(s.Window), 0, longest, true},
		{"slow_start min_percent", int64(s.MinPercent), 0, 100, true},
		{"panic_threshold", int64(c.PanicPercent), 0, 100, true},
	} {
		if err := b.check(); err != nil {
			return err
		}
	}
	return nil
}
