package cluster

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/caddy-sluice/sluice/internal/health"
)

// TestFailedStartForgetsNothing checks that a config without the detectors, and without some endpoints, of the one before
// leaves no trace when it stops again, since something else of it couldn't start.
func TestFailedStartForgetsNothing(t *testing.T) {
	slow := settings{static: static(1, 1, 1)}
	slow.policy.SlowStart = health.SlowStart{Window: time.Minute}
	for _, row := range []struct {
		name  string
		set   settings
		learn func(*testing.T, *Cluster)
		want  string
	}{
		{"checks", checking(failing(errNoAnswer), 2), nil, "unhealthy_active"},
		{"passive", settings{static: static(1, 1), policy: falling}, func(t *testing.T, c *Cluster) {
			settle(t, c, Outcome{Kind: health.Connect})
			settle(t, c, Outcome{Kind: health.Connect})
			settle(t, c, Outcome{Kind: health.Connect})
		}, "unhealthy_passive"},
		{"ejection", settings{static: static(1, 1), policy: ejecting}, func(t *testing.T, c *Cluster) {
			settle(t, c, Outcome{Kind: health.Connect})
		}, "ejected"},
		{"slow start", slow, nil, "healthy"},
	} {
		t.Run(row.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				before := started(t, row.set)
				time.Sleep(time.Hour) // virtual time
				synctest.Wait()
				if row.learn != nil {
					row.learn(t, before)
				}
				if want := reasons(before); !slices.Contains(want, row.want) {
					t.Fatalf("got %q", want)
				}
				for range 2 {
					checkFailedStart(t, before)
				}
				StopAll([]*Cluster{before})
			})
		})
	}
}

// checkFailedStart starts and stops a config that has an endpoint and nothing else.
func checkFailedStart(t *testing.T, before *Cluster) {
	t.Helper()
	want, weights := reasons(before), weightsOf(before)
	after := started(t, settings{static: static(1)})
	if got := slices.Compact(reasons(after)); !slices.Equal(got, []string{"healthy"}) {
		t.Errorf("got %q of the new config", got)
	}
	StopAll([]*Cluster{after})
	if got := reasons(before); !slices.Equal(got, want) || !slices.Equal(weightsOf(before), weights) {
		t.Errorf("got %q, %v, want %q, %v", got, weightsOf(before), want, weights)
	}
}

func weightsOf(c *Cluster) (list []float64) {
	for _, e := range c.state.status().Endpoints {
		list = append(list, float64(e.EffectiveWeight))
	}
	return list
}

// TestReloadForgets checks that a config that stays drops what it has no detectors for, whatever order the others stop in.
func TestReloadForgets(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		first := started(t, settings{static: static(1, 1), policy: ejecting})
		settle(t, first, Outcome{Kind: health.Connect})
		second := started(t, settings{static: static(1, 1)})
		third := started(t, settings{static: static(1, 1)})
		StopAll([]*Cluster{second})
		StopAll([]*Cluster{third})
		if got := reasons(first); !slices.Contains(got, "ejected") {
			t.Errorf("got %q, want what the first one knew", got)
		}
		last := started(t, settings{static: static(1, 1)})
		StopAll([]*Cluster{first})
		if got := reasons(last); slices.Contains(got, "ejected") || last.past != nil {
			t.Errorf("got %q, and %v to go back to", got, last.past)
		}
		StopAll([]*Cluster{last})
	})
}
