package cluster

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/caddy-sluice/sluice/internal/balance"
	"github.com/caddy-sluice/sluice/internal/guarddial"
	"github.com/caddy-sluice/sluice/internal/health"
	"github.com/caddy-sluice/sluice/internal/netguard"
	"github.com/caddy-sluice/sluice/modules/balancers"
	"github.com/caddy-sluice/sluice/modules/discovery"
)

// foundAt returns endpoints at these places of a network.
func foundAt(places ...int) (list []discovery.Endpoint) {
	for _, i := range places {
		list = append(list, discovery.Endpoint{Host: fmt.Sprintf("198.51.100.%d", i), Port: 80, Weight: 1})
	}
	return list
}

// scripted is a source that is told what to answer, every second.
type scripted struct {
	// server is part of its identity, not of its subject.
	server string
	mu     sync.Mutex
	found  []discovery.Endpoint
	err    error
	slow   time.Duration
}

func (s *scripted) Lookup(ctx context.Context, _ []discovery.Endpoint) ([]discovery.Endpoint, time.Duration, error) {
	s.mu.Lock()
	found, err, slow := s.found, s.err, s.slow
	s.mu.Unlock()
	select {
	case <-ctx.Done():
		return nil, time.Second, ctx.Err()
	case <-time.After(slow):
		return found, time.Second, err
	}
}

func (s *scripted) Identity() string { return "scripted" + s.server }
func (s *scripted) String() string   { return "scripted" }
func (s *scripted) Subject() string  { return "scripted" }

// Names implements discovery.DNS.
func (s *scripted) Names() func(context.Context, string) ([]netip.Addr, error) {
	if s.server == "" {
		return nil
	}
	return func(context.Context, string) ([]netip.Addr, error) { return nil, errors.New("asked " + s.server) }
}

func (s *scripted) set(found []discovery.Endpoint, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.found, s.err = found, err
}

// finding returns settings with a source.
func finding(s discovery.Source) settings {
	return settings{sources: []discovery.Source{s}, policy: health.Config{
		Passive: health.Passive{Thresholds: health.Thresholds{Fall: 1, Rise: 1}, RetryAfter: time.Hour},
	}}
}

// TestDiscovery checks that what is found at first counts when the start returns, that a failure leaves what was found, that
// an answer without endpoints doesn't, and that what is known about an endpoint stays.
func TestDiscovery(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		from := &scripted{found: foundAt(1, 2)}
		c := started(t, finding(from))
		if n := len(c.state.roster.Load().endpoints); n != 2 {
			t.Errorf("got %d endpoints at the start, want 2", n)
		}
		bad := settle(t, c, Outcome{Kind: health.Connect})
		for range 10 {
			time.Sleep(time.Second) // virtual time: lookups that find the same
			if e := settle(t, c, Outcome{}); e == bad || e.Trusted() {
				t.Errorf("got %s, trusted %v", e.Address(), e.Trusted())
			}
		}
		from.set(nil, errNoAnswer)
		time.Sleep(10 * time.Second) // virtual time
		if n := len(c.state.roster.Load().endpoints); n != 2 || c.state.lookupFailures.Load() < 9 {
			t.Errorf("got %d endpoints after %d failures, want 2", n, c.state.lookupFailures.Load())
		}
		from.set(nil, nil)
		time.Sleep(2 * time.Second) // virtual time
		if n := len(c.state.roster.Load().endpoints); n != 0 {
			t.Errorf("got %d endpoints, want none", n)
		}
		from.set(foundAt(1, 2), nil)
		time.Sleep(2 * time.Second) // virtual time
		if n := len(c.state.roster.Load().endpoints); n != 2 || bad.health.Load() == nil || settle(t, c, Outcome{}) == bad {
			t.Errorf("got %d endpoints, the bad one among them", n)
		}
		StopAll([]*Cluster{c})
	})
}

// TestDiscoveryIsSlow checks that a start waits for a while only, and that an answer after it counts.
func TestDiscoveryIsSlow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begin := time.Now()
		c := started(t, finding(&scripted{found: foundAt(1), slow: 5 * time.Second}))
		if waited := time.Since(begin); waited != firstLookup {
			t.Errorf("waited for %v, want %v", waited, firstLookup)
		}
		time.Sleep(6 * time.Second) // virtual time
		if n := len(c.state.roster.Load().endpoints); n != 1 {
			t.Errorf("got %d endpoints, want 1", n)
		}
		StopAll([]*Cluster{c})
	})
}

// TestReloadLooksFirst checks that a reload with another source leaves what is there until the new source has answered, and
// that a failure leaves the endpoints that were found for the same thing elsewhere.
func TestReloadLooksFirst(t *testing.T) {
	for _, tc := range []struct {
		name string
		err  error
		want string
	}{
		{"answer", nil, "198.51.100.3:80 198.51.100.4:80"},
		{"failure", errNoAnswer, "198.51.100.1:80 198.51.100.2:80"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				before := started(t, finding(&scripted{found: foundAt(1, 2)}))
				next := &scripted{server: "other", slow: time.Second, err: tc.err}
				if tc.err == nil {
					next.found = foundAt(3, 4)
				}
				after := handle(t, finding(next))
				go func() {
					time.Sleep(time.Second / 2) // virtual time: the lookup goes on
					if got := addressesOf(before); got != "198.51.100.1:80 198.51.100.2:80" {
						t.Errorf("got %s before the answer", got)
					}
				}()
				if err := StartAll([]*Cluster{after}); err != nil {
					t.Fatal(err)
				}
				StopAll([]*Cluster{before})
				if got := addressesOf(after); got != tc.want {
					t.Errorf("got %s, want %s", got, tc.want)
				}
				StopAll([]*Cluster{after})
			})
		})
	}
}

// addressesOf returns the addresses that a cluster chooses from.
func addressesOf(c *Cluster) string {
	var list []string
	for _, e := range c.state.roster.Load().endpoints {
		list = append(list, e.Address())
	}
	return strings.Join(list, " ")
}

// TestFirstAnswerIsNoUse checks that endpoints that can't be used don't keep a cluster from starting.
func TestFirstAnswerIsNoUse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		set := finding(&scripted{found: foundAt(1)})
		set.static, set.balancer = static(1), few{}
		c := started(t, set)
		if n := len(c.state.roster.Load().endpoints); n != 1 || len(c.state.found) != 0 {
			t.Errorf("got %d endpoints, %d answers, want the one that is configured", n, len(c.state.found))
		}
		StopAll([]*Cluster{c})
	})
}

// few is a balancer that refuses lists of more than one.
type few struct{ policy }

func (f few) Prepare(list []balancers.Endpoint, before balancers.Picker) (balancers.Picker, error) {
	if len(list) > 1 {
		return nil, errRefused
	}
	return f.policy.Prepare(list, before)
}

// TestNaming checks that the name of an endpoint is looked up where its source says, and as it was written.
func TestNaming(t *testing.T) {
	set := finding(&scripted{server: "ns.test"})
	absolute := member{trusted: true, weight: 1}
	if err := absolute.parseAddress("Web.Example.:80", netguard.DNS); err != nil {
		t.Fatal(err)
	}
	set.static = []member{absolute}
	c := running(t, set)
	c.take(set.sources[0], []discovery.Endpoint{{Host: "api.example", Port: 80, Weight: 1}, {Host: "web.example", Port: 80, Weight: 1}}, nil)
	list := c.state.roster.Load().endpoints
	if len(list) != 2 || list[0].Address() != "web.example:80" || list[1].Address() != "api.example:80" {
		t.Fatalf("got %s, want each name once", addressesOf(c))
	}
	system := guarddial.Dialer{Lookup: func(_ context.Context, host string) ([]netip.Addr, error) {
		return nil, errors.New("asked the system for " + host)
	}}
	for i, want := range []string{"asked the system for web.example.", "asked ns.test"} {
		if _, err := list[i].Dialer(&system).Resolve(t.Context(), list[i].Host(), true); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %q", list[i].Address(), err, want)
		}
	}
	if _, err := c.Dial(t.Context(), list[1]); err == nil || !strings.Contains(err.Error(), "asked ns.test") {
		t.Errorf("got %v", err)
	}
}

// TestDiscoveryAfterReload checks that what was found holds for the config after, whatever the source says then, and that
// the answers of sources that are gone are dropped.
func TestDiscoveryAfterReload(t *testing.T) {
	before := running(t, finding(source("x")))
	before.take(source("x"), foundAt(1, 2), nil)
	after := running(t, finding(source("x")))
	before.stop()
	if n := len(after.state.roster.Load().endpoints); n != 2 {
		t.Errorf("got %d endpoints, want 2", n)
	}
	// A late answer for a config that is gone is none.
	before.take(source("x"), foundAt(1, 2, 3), nil)
	if n := len(after.state.roster.Load().endpoints); n != 2 {
		t.Errorf("got %d endpoints, want 2", n)
	}
	other := running(t, finding(source("y")))
	after.stop()
	if n := len(other.state.found); n != 0 {
		t.Errorf("got answers of %d sources, want none", n)
	}
}

// TestZ28_SameAnswerSameTable checks that an answer that is the same makes nothing anew, and that a changed one makes one
// roster.
func TestZ28_SameAnswerSameTable(t *testing.T) {
	prepared := new(prepares)
	set := finding(source("x"))
	set.balancer = prepared
	c := running(t, set)
	for range 10 {
		c.take(source("x"), foundAt(1, 2, 3), nil)
	}
	if n := prepared.n; n != 2 {
		t.Errorf("got %d tables for a start and an answer, want 2", n)
	}
	c.take(source("x"), foundAt(1, 2), nil)
	if n := prepared.n; n != 3 {
		t.Errorf("got %d tables after another answer, want 3", n)
	}
}

// prepares counts how many times a table is made.
type prepares struct {
	policy
	n int
}

func (p *prepares) Prepare(list []balancers.Endpoint, before balancers.Picker) (balancers.Picker, error) {
	p.n++
	return p.policy.Prepare(list, before)
}

// TestZ28_PicksDuringChanges checks that picks while endpoints come and go see the old ones or the new ones.
func TestZ28_PicksDuringChanges(t *testing.T) {
	set := finding(source("x"))
	set.balancer = policy{Config: balance.Config{Policy: balance.Maglev, TableSize: 1009}}
	c := running(t, set)
	c.take(source("x"), foundAt(1, 2, 3), nil)
	var users sync.WaitGroup
	for i := range 4 {
		users.Go(func() {
			for range 2000 {
				var r Request
				var l Lease
				if c.Admit(&r) != nil || r.Pick(&l, Key{hash: uint64(i), set: true}) != nil {
					t.Error("refused")
					return
				}
				l.Done(Outcome{})
				r.Finish()
			}
		})
	}
	for i := range 200 {
		c.take(source("x"), foundAt(1, 2, 3+i%2), nil)
	}
	users.Wait()
	for _, e := range c.state.endpoints {
		if load := e.live.Load(); load != 0 {
			t.Errorf("%s: got load %d at the end", e.Address(), load)
		}
	}
}

// TestZ99_ManyRefreshes checks that addresses that change all the time don't fill the memory: what is known about those
// that are gone is kept for a while only, and of so many at most.
func TestZ99_ManyRefreshes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		set := finding(source("x"))
		set.closeAfter = 24 * time.Hour
		c := running(t, set)
		for i := range 100_000 {
			c.refreshed(t, i)
			time.Sleep(10 * time.Second) // virtual time
		}
		c.checkKept(t, int(health.RetainGone/(10*time.Second))+2)
		for i := range 3000 {
			c.refreshed(t, i)
		}
		c.checkKept(t, 1026)
	})
}

// refreshed lets a source find one endpoint, another one for each number, which fails at times.
func (c *Cluster) refreshed(t *testing.T, i int) {
	t.Helper()
	host := fmt.Sprintf("10.%d.%d.%d", i>>16&255, i>>8&255, i&255)
	c.take(source("x"), []discovery.Endpoint{{Host: host, Port: 80, Weight: 1}}, nil)
	if i%10 == 0 {
		settle(t, c, Outcome{Kind: health.Connect})
		c.tellAll(nil)
	}
}

// checkKept checks that no more endpoints are kept, with all that belongs to them.
func (c *Cluster) checkKept(t *testing.T, most int) {
	t.Helper()
	s := c.state
	kept := len(s.health.Statuses(time.Now()))
	if len(s.endpoints) > most || kept != len(s.endpoints) || len(s.found) != 1 || len(s.closing) > kept || len(s.closing) == 0 {
		t.Errorf("got %d endpoints, %d known to health, %d answers, %d timers, want at most %d endpoints, and timers for some",
			len(s.endpoints), kept, len(s.found), len(s.closing), most)
	}
}
