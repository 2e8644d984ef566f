package health

import (
	"testing"
	"time"
)

// TestTrialOfOneThatIsBack: an endpoint that is well again by the time its trial is taken needs none.
func TestTrialOfOneThatIsBack(t *testing.T) {
	r := newRig(t, &Config{Retry: retries(2), Passive: Passive{Thresholds: Thresholds{1, 1}, RetryAfter: time.Second}}, 2)
	r.try(r.admit(), 0).Done(Outcome{Kind: Connect}, r.now)
	r.now = r.now.Add(2 * time.Second)
	v := r.c.View(r.now)
	for _, trial := range []bool{true, false} {
		var request Request
		var a Attempt
		r.c.Admit(&request, r.now)
		if got := request.Try(&a, v, 0, r.now); got != Granted || a.Trial() != trial {
			t.Errorf("got %v, trial %v, want an attempt, trial %v", got, a.Trial(), trial)
		}
		a.Done(Outcome{}, r.now) // it is back, and the view doesn't know
	}
}
