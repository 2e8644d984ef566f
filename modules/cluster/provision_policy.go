package cluster

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/caddyserver/caddy/v2"

	"github.com/caddy-sluice/sluice/internal/health"
)

const (
	// maxStreak is the longest streak: more would take an hour of checks.
	maxStreak = 1000
	// maxBudgetMin is the most that retries without a budget may be: more is no budget at all.
	maxBudgetMin = 1000
	// maxAggression makes the weight grow to four fifths in the first tenth of the time.
	maxAggression = 10
	// defaultBodyLimit is room for forms and calls of APIs, maxBodyLimit is what a request may take of the memory.
	defaultBodyLimit = 64 << 10
	maxBodyLimit     = 16 << 20
)

// The words of on_no_endpoint.
const (
	failOpen = "fail_open"
	refuse   = "refuse"
)

// setStance takes what happens when few endpoints are available, and when one is new.
func (c *Config) setStance(_ caddy.Context, s *settings) error {
	switch c.OnNoEndpoint {
	case "", failOpen:
	case refuse:
		s.policy.Refuse = true
	default:
		return fmt.Errorf("on_no_endpoint: %q is not known; must be one of fail_open, refuse", c.OnNoEndpoint)
	}
	if err := takeNumbers(number{"panic_threshold", &c.PanicThreshold, &s.policy.PanicPercent, 0, 100, 0}); err != nil {
		return err
	}
	if c.SlowStart == nil {
		return nil
	}
	if !s.balancer.Traits().Ramps {
		return errors.New("slow_start: has no effect with this balance: maglev, ring_hash and first don't heed weights that grow")
	}
	if err := c.SlowStart.apply(&s.policy.SlowStart); err != nil {
		return fmt.Errorf("slow_start.%w", err)
	}
	return nil
}

// apply checks the settings and sets what they come to.
func (s *SlowStart) apply(to *health.SlowStart) error {
	if s.Window == 0 {
		return errors.New("window: is required")
	}
	to.AfterEjection, to.Aggression = s.AfterEjection, 1
	if s.Aggression != nil {
		to.Aggression = *s.Aggression
	}
	if math.IsNaN(to.Aggression) || to.Aggression < 1 || to.Aggression > maxAggression {
		return fmt.Errorf("aggression: %v is out of range, 1 to %d", to.Aggression, maxAggression)
	}
	if err := takeDurations(duration{"window", s.Window, &to.Window, time.Second, 0}); err != nil {
		return err
	}
	return takeNumbers(number{"min_percent", s.MinPercent, &to.MinPercent, 1, 100, health.DefaultMinWeightPercent})
}

// setDetectors takes what traffic says about the health of endpoints.
func (c *Config) setDetectors(_ caddy.Context, s *settings) error {
	if c.Passive != nil {
		if err := c.Passive.apply(&s.policy.Passive, c.Health != nil); err != nil {
			return fmt.Errorf("passive.%w", err)
		}
	}
	if c.Outlier == nil {
		return nil
	}
	if c.Outlier.CheckUnejects && c.Health == nil {
		return errors.New("outlier.check_unejects: has no meaning without health")
	}
	if err := c.Outlier.apply(&s.policy.Outlier); err != nil {
		return fmt.Errorf("outlier.%w", err)
	}
	return nil
}

// apply checks the settings and sets what they come to. active says whether there are active checks.
func (p *Passive) apply(to *health.Passive, active bool) (err error) {
	rise := 1
	if active {
		rise = 2
	}
	if active && p.RetryAfter != 0 {
		return errors.New("retry_after: has no meaning with health")
	}
	statuses := p.UnhealthyStatus
	if len(statuses) == 0 {
		statuses = []string{"5xx"}
	}
	if to.Statuses, err = health.ParseStatuses(statuses); err != nil {
		return fmt.Errorf("unhealthy_status%w", err)
	}
	if err := takeDurations(duration{"retry_after", p.RetryAfter, &to.RetryAfter, shortest, health.DefaultRetryAfter}); err != nil {
		return err
	}
	return takeNumbers(
		number{"rise", p.Rise, &to.Rise, 1, maxStreak, rise},
		number{"fall", p.Fall, &to.Fall, 1, maxStreak, 5},
	)
}

// apply checks the settings and sets what they come to.
func (o *Outlier) apply(to *health.Outlier) (err error) {
	if to.Statuses, err = health.ParseStatuses(o.FailureStatus); err != nil {
		return fmt.Errorf("failure_status%w", err)
	}
	to.CheckUnejects = o.CheckUnejects
	if err := takeNumbers(
		number{"consecutive_failures", o.ConsecutiveFailures, &to.ConsecutiveFailures, 1, maxStreak, health.DefaultConsecutiveFailures},
		number{"max_ejection_percent", o.MaxEjectionPercent, &to.MaxPercent, 1, 100, health.DefaultMaxEjectionPercent},
	); err != nil {
		return err
	}
	if err := takeDurations(duration{"ejection_time", o.EjectionTime, &to.Time, shortest, health.DefaultEjectionTime}); err != nil {
		return err
	}
	return takeDurations(duration{"max_ejection_time", o.MaxEjectionTime, &to.MaxTime, to.Time, 0})
}

// setRetry takes which failures are tried again.
func (c *Config) setRetry(_ caddy.Context, s *settings) error {
	s.methods = map[string]bool{"GET": true, "HEAD": true, "OPTIONS": true}
	s.bodyLimit = defaultBodyLimit
	if c.Retry == nil {
		s.policy.Retry = health.DefaultRetry()
		return nil
	}
	if err := c.Retry.apply(s); err != nil {
		return fmt.Errorf("retry.%w", err)
	}
	return nil
}

// apply checks the settings and sets what they come to.
func (r *Retry) apply(s *settings) error {
	to := &s.policy.Retry
	if r.Max == 0 {
		return fmt.Errorf("max: is required, 1 to %d", health.MaxRetries)
	}
	if limit := r.BodyLimit; limit != nil {
		if *limit < 0 || *limit > maxBodyLimit {
			return fmt.Errorf("body_limit: %d is out of range, 0 to %d", *limit, maxBodyLimit)
		}
		s.bodyLimit = *limit
	}
	if err := takeNumbers(
		number{"max", &r.Max, &to.Max, 1, health.MaxRetries, 0},
		number{"budget_percent", r.BudgetPercent, &to.Budget.Percent, 1, 100, health.DefaultBudgetPercent},
		number{"budget_min", r.BudgetMin, &to.Budget.Min, 0, maxBudgetMin, health.DefaultBudgetMin},
	); err != nil {
		return err
	}
	if err := r.applyCauses(to); err != nil {
		return err
	}
	if err := r.applyMethods(s); err != nil {
		return err
	}
	b := &to.Backoff
	if err := takeDurations(duration{"backoff_base", r.BackoffBase, &b.Base, shortest, health.DefaultBackoffBase}); err != nil {
		return err
	}
	return takeDurations(duration{"backoff_cap", r.BackoffCap, &b.Cap, b.Base, max(health.DefaultBackoffCap, b.Base)})
}

// causes are the words for the failures that can be tried again.
var causes = map[string]health.Kind{
	"connect_failure": health.Connect, "reset": health.Reset, "per_try_timeout": health.Timeout,
}

func (r *Retry) applyCauses(to *health.Retry) (err error) {
	var kinds []health.Kind
	for i, word := range r.On {
		kind, ok := causes[word]
		if !ok {
			return fmt.Errorf("on[%d]: %q is not known; must be one of connect_failure, reset, per_try_timeout", i, word)
		}
		kinds = append(kinds, kind)
	}
	if len(kinds) == 0 {
		kinds = []health.Kind{health.Connect, health.Reset, health.Timeout}
	}
	if to.Statuses, err = health.ParseStatuses(r.Status); err != nil {
		return fmt.Errorf("status%w", err)
	}
	if len(r.Status) > 0 {
		kinds = append(kinds, health.Answer)
	}
	to.On = health.KindSet(kinds...)
	return nil
}

// knownMethods are those of requests that a cluster may be told to try again. CONNECT isn't one: its connection is the
// request.
var knownMethods = []string{"DELETE", "GET", "HEAD", "OPTIONS", "PATCH", "POST", "PROPFIND", "PUT", "REPORT", "TRACE"}

func (r *Retry) applyMethods(s *settings) error {
	if len(r.Methods) == 0 {
		return nil
	}
	s.methods = make(map[string]bool, len(r.Methods))
	for i, method := range r.Methods {
		if !slices.Contains(knownMethods, method) {
			return fmt.Errorf("methods[%d]: %q is not known; must be one of %s", i, method, strings.Join(knownMethods, ", "))
		}
		s.methods[method] = true
	}
	return nil
}
