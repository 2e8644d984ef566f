package cluster

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/caddyserver/caddy/v2"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"

	"github.com/caddy-sluice/sluice/internal/balance"
	"github.com/caddy-sluice/sluice/internal/health"
	"github.com/caddy-sluice/sluice/modules/balancers"
	"github.com/caddy-sluice/sluice/modules/discovery"
)

// gated emits events that each wait for a word.
type gated struct {
	emitted
	pass chan struct{}
}

func (g *gated) Emit(ctx caddy.Context, name string, data map[string]any) caddy.Event {
	<-g.pass
	return g.emitted.Emit(ctx, name, data)
}

// handovers is how often what depends on the choice of a select is done.
const handovers = 30

// TestKeeperHandover has keepers that are busy while a config takes over from another: the end of an ejection is told on
// time all the same, though nobody makes a request.
func TestKeeperHandover(t *testing.T) {
	for range handovers {
		synctest.Test(t, func(t *testing.T) {
			policy := health.Config{Outlier: health.Outlier{ConsecutiveFailures: 1, Time: time.Hour, MaxPercent: 100}}
			set := settings{policy: policy, static: static(1, 1, 1, 1), balancer: by(balance.First)}
			slow := []*gated{{pass: make(chan struct{}, 9)}, {pass: make(chan struct{}, 9)}}
			var list []*Cluster
			for i := range slow {
				c := handle(t, set)
				c.events = slow[i]
				if err := StartAll([]*Cluster{c}); err != nil {
					t.Fatal(err)
				}
				synctest.Wait()
				orderAt(t, c.state.roster.Load().endpoints[i], Change{State: "drain"})
				synctest.Wait() // it waits at the gate, if it is the one that keeps
				list = append(list, c)
			}
			e := settle(t, list[1], Outcome{Kind: health.Connect})
			for _, g := range slow {
				for range 9 {
					g.pass <- struct{}{}
				}
				synctest.Wait()
			}
			time.Sleep(time.Hour + time.Second) // virtual time
			synctest.Wait()
			if got := slow[1].take(); !slices.Contains(got, eventUp+" "+e.Address()) {
				t.Fatalf("got %q, want the end of the ejection", got)
			}
			StopAll(list)
		})
	}
}

// TestOldKeeperMakesNoPlans has a keeper that is busy while a config with another time to close takes over: what the keeper
// has yet to tell doesn't take back the plan of the new one.
func TestOldKeeperMakesNoPlans(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		set := settings{
			policy: health.Config{Active: health.Thresholds{Rise: 1, Fall: 1}}, static: static(1, 1, 1), balancer: by(balance.First),
		}
		before, slow := handle(t, set), &gated{pass: make(chan struct{})}
		before.events = slow
		if err := StartAll([]*Cluster{before}); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		_, l := lease(t, before)
		var heard told
		heard.on(l)
		h, other := before.state.health, before.state.roster.Load().endpoints[1]
		h.Override(other.text, health.Override{Mode: health.Drain}, time.Now())
		h.Check(l.Endpoint().health.Load(), false, time.Now())
		before.state.poke()
		synctest.Wait() // it waits with the first event, and has taken the second
		set.closeAfter = time.Second
		after := started(t, set)
		synctest.Wait()
		close(slow.pass)
		time.Sleep(time.Minute) // virtual time
		if synctest.Wait(); !heard.is(Unhealthy) {
			t.Errorf("told %v, want one word", heard.causes)
		}
		l.Done(Outcome{})
		StopAll([]*Cluster{before, after})
	})
}

// TestChecksHandover has checks that are busy while a config pauses and goes on: endpoints that are found then are checked.
func TestChecksHandover(t *testing.T) {
	for range handovers {
		synctest.Test(t, func(t *testing.T) {
			pass := make(chan struct{})
			core, _ := observer.New(zap.DebugLevel)
			set := checking(failing(errNoAnswer), 1)
			set.sources = []discovery.Source{source("x")}
			c := handle(t, set)
			c.logger = zap.New(core, zap.Hooks(func(line zapcore.Entry) error {
				if line.Message == "health check failed" {
					<-pass
				}
				return nil
			}))
			if err := StartAll([]*Cluster{c}); err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
			next := started(t, settings{static: static(1)})
			StopAll([]*Cluster{next})
			synctest.Wait() // the checks of both runs of c wait
			if err := c.take(source("x"), foundAt(7), nil); err != nil {
				t.Fatal(err)
			}
			pass <- struct{}{} // those of the first run
			synctest.Wait()
			close(pass)
			time.Sleep(time.Minute) // virtual time
			for _, e := range c.state.status().Endpoints {
				if e.LastCheck == nil {
					t.Fatalf("%s was not checked", e.Address)
				}
			}
			StopAll([]*Cluster{c})
		})
	}
}

// TestCloseIsChanged checks that a config with another time to close holds it for endpoints that are unhealthy already,
// also where the time of the config before is over; and that one with the same time changes nothing.
func TestCloseIsChanged(t *testing.T) {
	for _, row := range []struct {
		name          string
		before, after time.Duration
		want          []Cause
	}{
		{"switched on", 0, time.Second, []Cause{Unhealthy}},
		{"shorter", time.Hour, time.Second, []Cause{Unhealthy}},
		{"longer, and over", time.Second, 10 * time.Second, []Cause{Unhealthy}},
		{"the same, and over", time.Second, time.Second, nil},
		{"switched off", time.Minute, 0, nil},
	} {
		t.Run(row.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				before, _, _ := watched(t, settings{policy: falling, closeAfter: row.before})
				first, second := lease2(t, before)
				settle(t, before, Outcome{Kind: health.Reset})
				settle(t, before, Outcome{Kind: health.Reset})
				time.Sleep(5 * time.Second) // virtual time
				first.Done(Outcome{Kind: health.Aborted})
				var heard told
				heard.on(second)
				after, _, _ := watched(t, settings{policy: falling, closeAfter: row.after})
				StopAll([]*Cluster{before})
				time.Sleep(20 * time.Second) // virtual time
				if synctest.Wait(); !heard.is(row.want...) {
					t.Errorf("told %v, want %v", heard.causes, row.want)
				}
				second.Done(Outcome{Kind: health.Aborted})
				StopAll([]*Cluster{after})
			})
		})
	}
}

// lease2 leases the same endpoint twice.
func lease2(t *testing.T, c *Cluster) (first, second *Lease) {
	t.Helper()
	_, first = lease(t, c)
	_, second = lease(t, c)
	return first, second
}

// limited is a balancer that refuses weights above 5.
type limited struct{ policy }

func (l limited) Prepare(list []balancers.Endpoint, before balancers.Picker) (balancers.Picker, error) {
	if slices.ContainsFunc(list, func(e balancers.Endpoint) bool { return e.Weight > 5 }) {
		return nil, errRefused
	}
	return l.policy.Prepare(list, before)
}

// TestRefusedOrder checks that an order which the balancer refuses leaves no trace.
func TestRefusedOrder(t *testing.T) {
	c := running(t, settings{static: static(1, 1), balancer: limited{}})
	core, logs := observer.New(zap.InfoLevel)
	c.logger = zap.New(core)
	e, four, six := c.state.roster.Load().endpoints[0], uint32(4), uint32(6)
	if err := Override(t.Name(), e.text, Change{Weight: &six, State: "drain"}); !errors.Is(err, errRefused) {
		t.Errorf("got %v, want %v", err, errRefused)
	}
	if st := c.state.status().Endpoints[0]; st.Override != nil || st.Weight != 1 || st.State != "healthy" || len(c.state.overrides) > 0 {
		t.Errorf("got %+v, %+v after a refused order", st, st.Override)
	}
	orderAt(t, e, Change{Weight: &four})
	if err := Override(t.Name(), e.text, Change{Weight: &six}); !errors.Is(err, errRefused) {
		t.Errorf("got %v, want %v", err, errRefused)
	}
	if st := c.state.status().Endpoints[0]; st.Override == nil || st.Override.Weight != 4 || st.Weight != 4 {
		t.Errorf("got %+v, %+v, want the order before", st, st.Override)
	}
	restore(t, e)
	if got := lines(logs); !slices.Equal(got, []string{"endpoint ordered by hand", "order by hand taken back"}) {
		t.Errorf("got %q", got)
	}
}

// TestStartErrorNamesCluster checks that the error of a start names the cluster and the field.
func TestStartErrorNamesCluster(t *testing.T) {
	c := handle(t, settings{static: static(1), balancer: refusing{}})
	err := StartAll([]*Cluster{c})
	if want := "clusters." + t.Name() + ".balance: "; err == nil || !strings.HasPrefix(err.Error(), want) {
		t.Errorf("got %v, want %q", err, want)
	}
}

// TestFirstStartIsQuiet checks that a cluster that starts well writes nothing.
func TestFirstStartIsQuiet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		core, logs := observer.New(zap.InfoLevel)
		c := handle(t, settings{static: static(1)})
		c.logger = zap.New(core)
		if err := StartAll([]*Cluster{c}); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if got := lines(logs); len(got) > 0 {
			t.Errorf("got %q, want nothing", got)
		}
		StopAll([]*Cluster{c})
	})
}

// TestCause checks what is said of a failure: a word, and the text of its error, in bounds.
func TestCause(t *testing.T) {
	long := strings.Repeat("ä", maxCause)
	for _, row := range []struct {
		outcome Outcome
		err     error
		want    string
	}{
		{Outcome{Kind: health.Connect}, errNoAnswer, "connect: " + errNoAnswer.Error()},
		{Outcome{Kind: health.Timeout}, context.DeadlineExceeded, "timeout: context deadline exceeded"},
		{Outcome{Kind: health.Reset}, nil, "reset"},
		{health.Answered(503), nil, "answer: status 503"},
		{Outcome{Kind: health.Malformed}, errors.New(long), "malformed: " + long[:196] + "…"},
	} {
		policy := ejecting
		policy.Outlier.Statuses.Add(500, 599)
		c := running(t, settings{static: static(1, 1), policy: policy, balancer: by(balance.First)})
		_, l := lease(t, c)
		l.Because(row.err)
		l.Done(row.outcome)
		if got := l.Endpoint().cause(health.Ejected); got != row.want {
			t.Errorf("got %q, want %q", got, row.want)
		}
		// The lease is used again: the text is gone.
		r := admit(t, c)
		if err := r.Pick(l, Key{}); err != nil {
			t.Fatal(err)
		}
		l.Done(Outcome{Kind: health.Reset})
		if got := l.Endpoint().cause(health.Ejected); got != "reset" {
			t.Errorf("got %q, want no text of another attempt", got)
		}
		c.stop()
	}
}
