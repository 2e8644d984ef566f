package cluster

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/caddy-sluice/sluice/internal/balance"
	"github.com/caddy-sluice/sluice/internal/health"
)

// TestBackupComesBack has a first endpoint that is dead, and another one that has failed once: a backup, or the second in a
// list of which the first is chosen. When its rest is over, it gets its trial, even if no request is tried again, and then
// it serves. That all are used meanwhile changes nothing about it.
func TestBackupComesBack(t *testing.T) {
	for name, refuse := range map[string]bool{"fail_open": false, "refuse": true} {
		for kind, backup := range map[string]bool{"backup": true, "second": false} {
			t.Run(name+" "+kind, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					set := settings{policy: falling, static: static(1, 1), balancer: by(balance.First)}
					set.policy.Passive.Fall, set.policy.Refuse, set.static[1].backup = 1, refuse, backup
					c := running(t, set)
					all := c.state.roster.Load().endpoints
					settle(t, c, Outcome{Kind: health.Connect})
					if e := settle(t, c, Outcome{}); e != all[1] {
						t.Fatalf("got %s, want the other one", e.Address())
					}
					settle(t, c, Outcome{Kind: health.Reset})
					failed := 0
					for reasons(c)[1] != "healthy" {
						time.Sleep(set.policy.Passive.RetryAfter + time.Second) // virtual time
						r, l := lease(t, c)
						if l.Endpoint() == all[0] {
							l.Done(Outcome{Kind: health.Connect})
							failed++
						}
						l.Done(Outcome{})
						if r.Finish(); failed > 1 {
							t.Fatalf("got %d attempts at what is dead, and none at what works", failed)
						}
					}
				})
			})
		}
	}
}
