package cluster

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/caddyserver/caddy/v2/modules/caddyevents"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/caddy-sluice/sluice/internal/balance"
	"github.com/caddy-sluice/sluice/internal/health"
	"github.com/caddy-sluice/sluice/modules/hostport"
)

// watched starts a cluster of two endpoints, or of those that the settings have, whose keeper is at work. Its logger notes
// all from Info on.
func watched(t *testing.T, set settings) (*Cluster, *emitted, *observer.ObservedLogs) {
	t.Helper()
	set.balancer = by(balance.First)
	if set.static == nil {
		set.static = static(1, 1)
	}
	c := handle(t, set)
	core, logs := observer.New(zap.InfoLevel)
	c.logger = zap.New(core)
	if err := StartAll([]*Cluster{c}); err != nil {
		t.Fatal(err)
	}
	synctest.Wait()
	logs.TakeAll()
	events := c.events.(*emitted)
	events.take()
	return c, events, logs
}

// falling is a policy by which an endpoint is down after two failures, and up again after one success.
var falling = health.Config{Passive: health.Passive{Thresholds: health.Thresholds{Rise: 1, Fall: 2}, RetryAfter: time.Minute}}

// lines returns the lines that were logged since the last call.
func lines(logs *observer.ObservedLogs) (list []string) {
	for _, entry := range logs.TakeAll() {
		list = append(list, entry.Message)
	}
	return list
}

// checkTold checks what was emitted and logged.
func checkTold(t *testing.T, events *emitted, logs *observer.ObservedLogs, names []string, messages ...string) {
	t.Helper()
	synctest.Wait()
	if got := events.take(); !slices.Equal(got, names) {
		t.Errorf("got events %q, want %q", got, names)
	}
	if got := lines(logs); !slices.Equal(got, messages) {
		t.Errorf("got lines %q, want %q", got, messages)
	}
}

// TestChangesAreToldOnce checks that each change is logged and emitted once, however many failures there are.
func TestChangesAreToldOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, events, logs := watched(t, settings{policy: falling})
		const first, second = " 192.0.2.1:1000", " 192.0.2.1:1001"
		settle(t, c, Outcome{Kind: health.Reset})
		checkTold(t, events, logs, nil)
		settle(t, c, Outcome{Kind: health.Reset})
		checkTold(t, events, logs, []string{eventDown + first}, "endpoint is not available")
		settle(t, c, Outcome{})
		checkTold(t, events, logs, nil)
		for range 20 { // fails open after two
			settle(t, c, Outcome{Kind: health.Reset})
		}
		checkTold(t, events, logs, []string{eventDown + second, eventPanic}, "endpoint is not available",
			"too few endpoints are available: using all, whatever is known about their health")
		settle(t, c, Outcome{})
		checkTold(t, events, logs, []string{eventUp + first}, "endpoint is available", "enough endpoints are available")
		orderAt(t, c.state.endpoints[second[1:]], Change{State: "up"})
		checkTold(t, events, logs, []string{eventUp + second}, "endpoint ordered by hand", "endpoint is available")
		orderAt(t, c.state.endpoints[second[1:]], Change{State: "drain"})
		checkTold(t, events, logs, []string{eventDown + second}, "endpoint ordered by hand", "endpoint taken out by hand")
		StopAll([]*Cluster{c})
	})
}

// TestEjectionIsTold checks that an ejection is told, and its end as well, though nobody makes a request.
func TestEjectionIsTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, events, logs := watched(t, settings{policy: ejecting})
		e := settle(t, c, Outcome{Kind: health.Timeout})
		checkTold(t, events, logs, []string{eventEjected + " " + e.Address()}, "endpoint is not available")
		if st := c.state.status().Endpoints[0]; st.Cause != "timeout" || st.EjectedUntil == nil || time.Until(*st.EjectedUntil) != time.Hour {
			t.Errorf("got %+v", st)
		}
		time.Sleep(time.Hour - 1) // virtual time
		checkTold(t, events, logs, nil)
		time.Sleep(time.Millisecond) // virtual time
		checkTold(t, events, logs, []string{eventUp + " " + e.Address()}, "endpoint is available")
		StopAll([]*Cluster{c})
	})
}

// TestCloseOnUnhealthy checks that what goes on at an endpoint is told to stop when it has been unhealthy for a while, but
// not if it has recovered, and not if another config has no such rule.
func TestCloseOnUnhealthy(t *testing.T) {
	set := settings{policy: falling, closeAfter: 10 * time.Second}
	for _, row := range []struct {
		name   string
		within func(*testing.T, *Cluster) *Cluster
		want   []Cause
	}{
		{"unhealthy", nil, []Cause{Unhealthy}},
		{"recovered", func(t *testing.T, c *Cluster) *Cluster {
			orderAt(t, c.state.roster.Load().endpoints[0], Change{State: "up"})
			return c
		}, nil},
		{"config without it", func(t *testing.T, c *Cluster) *Cluster {
			next, _, _ := watched(t, settings{policy: falling})
			StopAll([]*Cluster{c})
			return next
		}, nil},
		{"config with it", func(t *testing.T, c *Cluster) *Cluster {
			next, _, _ := watched(t, set)
			StopAll([]*Cluster{c})
			return next
		}, []Cause{Unhealthy}},
	} {
		t.Run(row.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c, _, _ := watched(t, set)
				var heard told
				_, l := lease(t, c)
				heard.on(l)
				settle(t, c, Outcome{Kind: health.Reset})
				settle(t, c, Outcome{Kind: health.Reset})
				time.Sleep(10*time.Second - 1) // virtual time
				if synctest.Wait(); !heard.is() {
					t.Errorf("told %v before the time", heard.causes)
				}
				if row.within != nil {
					c = row.within(t, c)
				}
				time.Sleep(time.Minute) // virtual time
				if synctest.Wait(); !heard.is(row.want...) {
					t.Errorf("told %v, want %v", heard.causes, row.want)
				}
				l.Done(Outcome{})
				StopAll([]*Cluster{c})
			})
		})
	}
}

// TestCloseStartsWithConfig checks that a config that has the rule, after one that hasn't, holds it for endpoints that
// are unhealthy already.
func TestCloseStartsWithConfig(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		before, _, _ := watched(t, settings{policy: falling})
		var heard told
		_, l := lease(t, before)
		heard.on(l)
		settle(t, before, Outcome{Kind: health.Reset})
		settle(t, before, Outcome{Kind: health.Reset})
		after, _, _ := watched(t, settings{policy: falling, closeAfter: time.Second})
		StopAll([]*Cluster{before})
		time.Sleep(time.Minute) // virtual time
		if synctest.Wait(); !heard.is(Unhealthy) {
			t.Errorf("told %v, want one word", heard.causes)
		}
		l.Done(Outcome{})
		StopAll([]*Cluster{after})
	})
}

// TestDestructStopsTimers checks that nothing is told when no config has the cluster any more.
func TestDestructStopsTimers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newState("gone")
		c := &Cluster{name: "gone", set: &settings{closeAfter: time.Second}, state: s, logger: zap.NewNop()}
		e := newEndpoint(hostport.Address{Host: "192.0.2.1", Port: 80})
		s.watch(c, e, health.Ejected)
		o := new(override)
		s.overrides[e.text] = o
		s.order(e, o, Change{State: "drain", Deadline: time.Second})
		l := &Lease{endpoint: e}
		var heard told
		heard.on(l)
		if err := s.Destruct(); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute) // virtual time
		if synctest.Wait(); !heard.is() || len(s.closing) > 0 {
			t.Errorf("told %v, %d timers", heard.causes, len(s.closing))
		}
	})
}

// TestEventsHaveCaddysName checks that the names are such that Caddy takes them, and that its events app is what emits them.
func TestEventsHaveCaddysName(t *testing.T) {
	var _ emitter = (*caddyevents.App)(nil)
	for _, name := range []string{eventUp, eventDown, eventEjected, eventPanic} {
		if !strings.HasPrefix(name, "cluster.") || strings.ToLower(name) != name {
			t.Errorf("got %q", name)
		}
	}
}

// TestOnlyFailuresWarn checks that an endpoint that is unavailable for another reason than before is no warning, and that a
// cluster without an endpoint that can be used says why, and what it was before only if that differs.
func TestOnlyFailuresWarn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		set := settings{policy: falling, static: static(1)}
		set.policy.Outlier = health.Outlier{ConsecutiveFailures: 1, Time: time.Hour, MaxPercent: 100}
		c, _, logs := watched(t, set)
		e := c.state.roster.Load().endpoints[0]
		settle(t, c, Outcome{Kind: health.Reset}) // ejected
		settle(t, c, Outcome{Kind: health.Reset}) // unhealthy too
		checkLines(t, logs, "warn: endpoint is not available",
			"error: too few endpoints are available: using all, whatever is known about their health after normal",
			"info: endpoint is still not available")
		orderAt(t, e, Change{State: "drain"})
		checkLines(t, logs, "info: endpoint ordered by hand", "info: endpoint taken out by hand",
			"warn: no endpoint can be used: all were taken out by hand after fail_open")
		StopAll([]*Cluster{c})
	})
}

// TestEmptyIsNoChange checks that a cluster that begins without endpoints says what it is, and not what it was.
func TestEmptyIsNoChange(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := handle(t, settings{})
		core, logs := observer.New(zap.InfoLevel)
		c.logger = zap.New(core)
		if err := StartAll([]*Cluster{c}); err != nil {
			t.Fatal(err)
		}
		checkLines(t, logs, "warn: no endpoint can be used: there is none")
		StopAll([]*Cluster{c})
	})
}

// checkLines checks what was logged since the last call, with its level, and the stance before if a line has one.
func checkLines(t *testing.T, logs *observer.ObservedLogs, want ...string) {
	t.Helper()
	synctest.Wait()
	var got []string
	for _, entry := range logs.TakeAll() {
		line := entry.Level.String() + ": " + entry.Message
		if fields := entry.ContextMap(); fields["stance"] != nil && fields["before"] != nil {
			line += fmt.Sprint(" after ", fields["before"])
		}
		got = append(got, line)
	}
	if !slices.Equal(got, want) {
		t.Errorf("got lines %q, want %q", got, want)
	}
}
