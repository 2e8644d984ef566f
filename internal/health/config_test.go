package health

import (
	"errors"
	"strings"
	"testing"
	"time"
)

// whole is a policy that sets everything.
func whole() *Config {
	c := &Config{
		Active: Thresholds{2, 3}, Passive: Passive{Thresholds: Thresholds{2, 5}, RetryAfter: DefaultRetryAfter},
		Outlier: outlier(5), Limits: Limits{1, 2, 3, 4}, Retry: retries(5), PanicPercent: 25,
		Timeouts: Timeouts{time.Second, time.Minute}, SlowStart: SlowStart{Window: time.Minute},
	}
	c.Outlier.MaxTime = 5 * time.Minute
	return c
}

func TestValidate(t *testing.T) {
	for _, tc := range []struct {
		name   string
		change func(*Config)
		want   string
	}{
		{"as_it_is", func(*Config) {}, ""},
		{"nothing", func(c *Config) { *c = Config{} }, ""},
		{"Z70_no_retry", func(c *Config) { c.Retry = Retry{} }, ""},
		{"Z70_five_retries", func(c *Config) { c.Retry.Max = 5 }, ""},
		{"Z70_six_retries", func(c *Config) { c.Retry.Max = 6 }, "max 6: must be 0 to 5"},
		{"Z70_cap_below_base", func(c *Config) { c.Retry.Backoff.Cap = 24 * time.Millisecond }, "backoff cap 24ms: must be 25ms to 24h0m0s"},
		{"Z70_base_of_nothing", func(c *Config) { c.Retry.Backoff.Base = 0 }, "backoff base"},
		{"no_backoff", func(c *Config) { c.Retry.Backoff = Backoff{} }, ""},
		{"Z62_a_limit_below_0", func(c *Config) { c.Limits.Pending = -1 }, "max_pending"},
		{"rise_without_fall", func(c *Config) { c.Active.Fall = 0 }, "fall 0"},
		{"fall_without_rise", func(c *Config) { c.Active.Rise = 0 }, "rise 0"},
		{"trials_without_rest", func(c *Config) { c.Active, c.Passive.RetryAfter = Thresholds{}, 0 }, "retry_after"},
		{"ejection_of_no_time", func(c *Config) { c.Outlier.Time = 0 }, "ejection_time"},
		{"ejection_that_shrinks", func(c *Config) { c.Outlier.MaxTime = time.Second }, "max_ejection_time"},
		{"ejection_of_0_percent", func(c *Config) { c.Outlier.MaxPercent = 0 }, "max_ejection_percent"},
		{"ejection_of_101_percent", func(c *Config) { c.Outlier.MaxPercent = 101 }, "max_ejection_percent"},
		{"budget_of_0_percent", func(c *Config) { c.Retry.Budget.Percent = 0 }, "budget"},
		{"budget_without_minimum", func(c *Config) { c.Retry.Budget.Min = 0 }, ""},
		{"panic_at_101_percent", func(c *Config) { c.PanicPercent = 101 }, "panic_threshold"},
		{"slow_start_of_no_time", func(c *Config) { c.SlowStart.Window = -1 }, "slow_start"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			c := whole()
			tc.change(c)
			err := c.Validate()
			if (err == nil) != (tc.want == "") || err != nil && (!errors.Is(err, ErrConfig) || !strings.Contains(err.Error(), tc.want)) {
				t.Errorf("got %v, want %q", err, tc.want)
			}
		})
	}
}
