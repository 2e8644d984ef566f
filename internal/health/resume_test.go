package health

import (
	"testing"
	"time"
)

// TestResume: endpoints are checked when a schedule before would have checked them, those that wait longest first. New ones
// are spread as at a start, and who comes later isn't known from before.
func TestResume(t *testing.T) {
	const interval = 8 * time.Second
	s := NewSchedule(interval, 1)
	s.Resume(map[string]time.Time{
		"0": t0.Add(6 * time.Second), "1": t0.Add(-time.Second), "2": t0.Add(-2 * time.Second), "9": t0,
	})
	s.Set(keys(4), t0)
	for _, want := range []struct {
		key string
		due time.Duration
	}{
		{"2", -2 * time.Second}, {"1", -time.Second}, {"3", 6 * time.Second},
	} {
		if got := s.Due(want.key); got != t0.Add(want.due) {
			t.Errorf("%s: got due %v, want %v", want.key, got.Sub(t0), want.due)
		}
	}
	now := t0
	for _, want := range []string{"2", "1"} {
		p, _ := s.Next(now)
		if p == nil || p.Key() != want {
			t.Fatalf("got %+v, want %s", p, want)
		}
		now = now.Add(time.Second / 2)
		s.Done(p, now)
	}
	if got, want := s.Due("2"), t0.Add(6*time.Second); got != want {
		t.Errorf("got the next check at %v, want %v", got.Sub(t0), want.Sub(t0))
	}
	s.Set(append(keys(4), "9"), now)
	if got, want := s.Due("9"), now.Add(4*(interval/5)); got != want {
		t.Errorf("got one that has come later at %v, want %v", got.Sub(t0), want.Sub(t0))
	}
	if got := s.Due("10"); !got.IsZero() {
		t.Errorf("got %v for one that isn't there", got)
	}
}
