package cluster

import (
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap/zaptest/observer"

	"github.com/caddy-sluice/sluice/internal/health"
)

// TestServingTierIsTold checks that one line says when the backups begin to serve, although an endpoint before them is
// available, and one when that ends, over a reload too; and that the status has the tier.
func TestServingTierIsTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		set := settings{policy: falling, static: static(1, 1, 1)}
		set.policy.PanicPercent, set.static[2].backup = 60, true
		c, events, logs := watched(t, set)
		all := c.state.roster.Load().endpoints
		checkTier(t, c, 0)
		settle(t, c, Outcome{Kind: health.Reset})
		settle(t, c, Outcome{Kind: health.Reset})
		const begins, ends = "served by the backups: too few of those before them are available", "no longer served by the backups"
		checkTold(t, events, logs, []string{eventDown + " " + all[0].Address()}, "endpoint is not available", begins)
		checkTier(t, c, backupTier)
		if e := settle(t, c, Outcome{}); e != all[2] {
			t.Errorf("got %s, want the backup", e.Address())
		}
		after, events, logs := watched(t, set)
		StopAll([]*Cluster{c})
		orderAt(t, all[0], Change{State: "up"})
		checkTold(t, events, logs, []string{eventUp + " " + all[0].Address()}, "endpoint ordered by hand", "endpoint is available", ends)
		checkTier(t, after, 0)
		checkTierEnds(t, after, logs, begins, ends)
		StopAll([]*Cluster{after})
	})
}

// checkTierEnds checks that the backups no longer serve when nothing does.
func checkTierEnds(t *testing.T, c *Cluster, logs *observer.ObservedLogs, begins, ends string) {
	t.Helper()
	for i, want := range []string{"", begins, ends} {
		orderAt(t, c.state.roster.Load().endpoints[i], Change{State: "drain"})
		synctest.Wait()
		got := ""
		for _, line := range lines(logs) {
			if line == begins || line == ends {
				got += line
			}
		}
		if got != want {
			t.Errorf("%d endpoints are out: got %q, want %q", i+1, got, want)
		}
	}
	checkTier(t, c, -1)
}

// checkTier checks which tier the status says to serve; -1: none.
func checkTier(t *testing.T, c *Cluster, want int) {
	t.Helper()
	got := -1
	if tier := c.state.status().ServingTier; tier != nil {
		got = int(*tier)
	}
	if got != want {
		t.Errorf("got tier %d, want %d", got, want)
	}
}

// TestTrialIsNoService checks that an endpoint that is offered for a trial where all are refused doesn't serve.
func TestTrialIsNoService(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		set := settings{policy: falling, static: static(1)}
		set.policy.Refuse = true
		c, _, _ := watched(t, set)
		settle(t, c, Outcome{Kind: health.Reset})
		settle(t, c, Outcome{Kind: health.Reset})
		time.Sleep(set.policy.Passive.RetryAfter) // virtual time
		if view := c.state.health.View(time.Now()); view.Offered() != 1 || view.Stance() != health.Refusing {
			t.Errorf("got %d offered, stance %v, want a trial while all are refused", view.Offered(), view.Stance())
		}
		checkTier(t, c, -1)
		StopAll([]*Cluster{c})
	})
}
