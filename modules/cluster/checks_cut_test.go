package cluster

import (
	"context"
	"testing"
	"time"

	"github.com/caddy-sluice/sluice/internal/health"
	"github.com/caddy-sluice/sluice/modules/healthchecks"
)

// TestCheckCutShortStaysDue checks that a check which the end of its config has cut short is due at once for the next one,
// whichever of the two is heard of first.
func TestCheckCutShortStaysDue(t *testing.T) {
	c := running(t, settings{static: static(1)})
	e := c.state.roster.Load().endpoints[0]
	for range 32 { // a select takes either
		ctx, cancel := context.WithCancel(t.Context())
		k := &checks{Cluster: c, schedule: health.NewSchedule(time.Hour, 1), done: make(chan checked, 1)}
		now := time.Now()
		k.schedule.Resume(map[string]time.Time{e.text: now})
		k.reseat()
		probe, _ := k.schedule.Next(now)
		if probe == nil {
			t.Fatal("no check is due")
		}
		k.leave(e, now)
		cancel()
		k.done <- checked{probe, e, checkResult{at: now, err: healthchecks.ErrNotMade}}
		k.run(ctx, nil)
		if at := e.due.Load().at; !at.Equal(now) {
			t.Fatalf("got a check due in %v, want one at once", at.Sub(now))
		}
	}
}
