package cluster

import (
	"testing"

	"github.com/caddy-sluice/sluice/internal/balance"
	"github.com/caddy-sluice/sluice/internal/health"
)

// TestReplayCounts checks that the metrics count replays that were made, at the same endpoint or at another one, and none that
// was only decided on.
func TestReplayCounts(t *testing.T) {
	for _, tc := range []struct {
		name      string
		on        health.Kind
		endpoints int
		out       bool
		action    health.Action
		want      float64
	}{
		{"made", health.Connect, 2, false, health.Replay, 1},
		{"moved", health.Connect, 2, true, health.Move, 1},
		{"became a retry", health.Reset, 2, true, health.Again, 0},
		{"nowhere to go", health.Connect, 1, true, health.Stop, 0},
	} {
		t.Run(tc.name, func(t *testing.T) {
			weights := []uint32{1, 1}[:tc.endpoints]
			c := running(t, settings{static: static(weights...), balancer: by(balance.First), policy: retryingOn(tc.on)})
			r, l := lease(t, c)
			if d := l.Fail(stale); d.Action != health.Replay {
				t.Fatalf("got %+v, want a replay", d)
			}
			if tc.out {
				orderAt(t, l.Endpoint(), Change{State: "drain"})
			}
			d := r.Repick(l, stale)
			if d.Action != tc.action {
				t.Fatalf("got %+v, want %v", d, tc.action)
			}
			if d.Action == health.Again || d.Action == health.Move {
				if err := r.Pick(l, Key{}); err != nil {
					t.Fatal(err)
				}
			}
			l.Done(Outcome{})
			if got := counts(t)["events_total replay"]; got != tc.want {
				t.Errorf("got %v replays, want %v", got, tc.want)
			}
		})
	}
}
