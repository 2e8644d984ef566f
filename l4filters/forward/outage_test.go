package forward

import (
	"testing"
	"time"
)

// TestOutage checks that the first failure is told at once, and the others together, from time to time.
func TestOutage(t *testing.T) {
	var o outage
	start := time.Now()
	for _, tc := range []struct {
		after    time.Duration
		failures int
		warn     bool
	}{
		{0, 1, true},
		{time.Second, 1, false},
		{warnEvery - 1, 2, false},
		{warnEvery, 3, true},
		{warnEvery + 1, 1, false},
		{time.Hour, 2, true},
		{2 * time.Hour, 1, true},
	} {
		if failures, warn := o.fails(start.Add(tc.after)); failures != tc.failures || warn != tc.warn {
			t.Errorf("after %v: got %d, %v, want %d, %v", tc.after, failures, warn, tc.failures, tc.warn)
		}
	}
}
