package load

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/caddy-sluice/sluice/bench/internal/proc"
)

func TestInterleave(t *testing.T) {
	target := startBackend(t)
	o := Options{Kind: Rate, Conns: 1, Count: 2, Reply: 8, Limit: 10 * time.Second}
	samples, err := Interleave(t.Context(), []Job{{target, o}, {target, o}}, 3)
	if err != nil || len(samples) != 2 {
		t.Fatalf("got %d samples, %v, want 2", len(samples), err)
	}
	for i, s := range samples {
		if len(s.Rate) != 3 || len(s.P99) != 3 || s.Failed != 0 {
			t.Errorf("job %d: got %+v, want 3 rounds without failures", i, s)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Interleave(ctx, []Job{{target, o}}, 1); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: got %v, want %v", err, context.Canceled)
	}
}

func TestSampleAdd(t *testing.T) {
	var s Sample
	cpu := proc.CPU{Total: 40 * time.Millisecond, User: 10 * time.Millisecond, System: 30 * time.Millisecond}
	s.add(Result{Units: 20, Wall: 2 * time.Second, CPU: cpu, P50: time.Millisecond, P99: time.Second})
	failure := errors.New("refused")
	s.add(Result{Failed: 4, Err: failure, CPU: cpu})
	s.add(Result{Failed: 1, Err: errors.New("later")})
	if !slices.Equal(s.CPU, []float64{0.002}) || !slices.Equal(s.Rate, []float64{10}) || !slices.Equal(s.UserShare, []float64{0.25}) {
		t.Errorf("got %+v, want 2 ms a unit, 10 units a second, a quarter in user space", s)
	}
	if s.Failed != 5 || s.Err != failure {
		t.Errorf("got %d failures with %v, want 5 with %v", s.Failed, s.Err, failure)
	}
}
