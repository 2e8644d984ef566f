package cluster

import (
	"errors"
	"maps"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/caddy-sluice/sluice/internal/balance"
	"github.com/caddy-sluice/sluice/internal/health"
)

// told notes what a lease is told.
type told struct {
	mu     sync.Mutex
	causes []Cause
}

func (t *told) on(l *Lease) {
	l.OnStop(func(why Cause) {
		t.mu.Lock()
		defer t.mu.Unlock()
		t.causes = append(t.causes, why)
	})
}

// is says whether these were the causes.
func (t *told) is(causes ...Cause) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return slices.Equal(t.causes, causes)
}

// clear forgets them.
func (t *told) clear() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.causes = nil
}

// count returns how many there were.
func (t *told) count() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.causes)
}

// orderAt orders something for an endpoint of the cluster that is called like the test.
func orderAt(t *testing.T, e *Endpoint, change Change) {
	t.Helper()
	if err := Override(t.Name(), e.Address(), change); err != nil {
		t.Fatal(err)
	}
}

func restore(t *testing.T, e *Endpoint) {
	t.Helper()
	if err := Restore(t.Name(), e.Address()); err != nil {
		t.Fatal(err)
	}
}

// TestZ130_DrainAndRestore checks that a drained endpoint gets nothing new while what goes on there goes on, also when
// nothing else is left, and that it comes back when the order is taken back.
func TestZ130_DrainAndRestore(t *testing.T) {
	c := running(t, settings{static: static(1, 1), balancer: by(balance.First)})
	var held []*Lease
	var heard told
	for range 5 {
		_, l := lease(t, c)
		heard.on(l)
		held = append(held, l)
	}
	first := held[0].Endpoint()
	orderAt(t, first, Change{State: "drain"})
	second := settle(t, c, Outcome{})
	if second == first {
		t.Error("a drained endpoint was picked")
	}
	orderAt(t, second, Change{State: "drain"})
	r, refused := admit(t, c), (*Refused)(nil)
	if err := r.Pick(new(Lease), Key{}); !errors.As(err, &refused) || refused.Why != health.NoEndpoint {
		t.Errorf("got %v, want a refusal: a drain holds even when nothing else is left", err)
	}
	if load := first.live.Load(); load != 5 || !heard.is() {
		t.Errorf("got load %d, and %d leases told to stop, want 5 and none", load, len(heard.causes))
	}
	for _, l := range held {
		l.Done(Outcome{})
	}
	restore(t, first)
	if e := settle(t, c, Outcome{}); e != first {
		t.Errorf("got %v, want the endpoint that is back", e.Address())
	}
	if err := Restore(t.Name(), first.Address()); !errors.Is(err, ErrNoOverride) {
		t.Errorf("got %v, want %v", err, ErrNoOverride)
	}
}

// TestDrainDeadline checks that what goes on at a drained endpoint is told to stop at the deadline, and not before, and
// that it isn't if the order was taken back.
func TestDrainDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := running(t, settings{static: static(1)})
		var heard told
		_, l := lease(t, c)
		heard.on(l)
		orderAt(t, l.Endpoint(), Change{State: "drain", Deadline: 30 * time.Second})
		restore(t, l.Endpoint())
		time.Sleep(time.Minute) // virtual time
		if synctest.Wait(); !heard.is() {
			t.Errorf("got %v after the order was taken back", heard.causes)
		}
		orderAt(t, l.Endpoint(), Change{State: "drain", Deadline: 30 * time.Second})
		time.Sleep(30*time.Second - 1) // virtual time
		if synctest.Wait(); !heard.is() {
			t.Errorf("got %v before the deadline", heard.causes)
		}
		time.Sleep(time.Nanosecond) // virtual time
		if synctest.Wait(); !heard.is(Drained) {
			t.Errorf("got %v at the deadline, want one word", heard.causes)
		}
		l.Done(Outcome{})
	})
}

// TestDisabled checks that what goes on at an endpoint that is turned off is told to stop at once, and what comes late as
// well; and that neither is told after it was settled.
func TestDisabled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := running(t, settings{static: static(1)})
		var heard, settled, late told
		_, l := lease(t, c)
		_, gone := lease(t, c)
		_, slow := lease(t, c)
		heard.on(l)
		settled.on(gone)
		gone.Done(Outcome{})
		orderAt(t, l.Endpoint(), Change{State: "disabled"})
		synctest.Wait()
		late.on(slow)
		if !heard.is(Drained) || !settled.is() || !late.is(Drained) {
			t.Errorf("got %v, %v, %v, want one word, none, one word", heard.causes, settled.causes, late.causes)
		}
		l.Done(Outcome{})
		slow.Done(Outcome{})
		if first := l.Endpoint().holders.first; first != nil {
			t.Error("a lease is still on the list")
		}
	})
}

// TestDisabledAndUpAtOnce checks that an order that was replaced before it was carried out tells nobody: neither those
// who are there nor those who come.
func TestDisabledAndUpAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := running(t, settings{static: static(1)})
		var heard, after told
		_, l := lease(t, c)
		heard.on(l)
		orderAt(t, l.Endpoint(), Change{State: "drain", Deadline: time.Second})
		o := c.state.overrides[l.Endpoint().Address()]
		end := o.end
		orderAt(t, l.Endpoint(), Change{State: "up"})
		c.state.empty(l.Endpoint(), o, end) // the timer had gone off, and waited for the lock
		_, next := lease(t, c)
		after.on(next)
		if !heard.is() || !after.is() {
			t.Errorf("got %v and %v, want nothing", heard.causes, after.causes)
		}
		l.Done(Outcome{})
		next.Done(Outcome{})
	})
}

// TestOverrideSurvivesReload checks that orders hold for the config after, and are shown.
func TestOverrideSurvivesReload(t *testing.T) {
	set := settings{static: static(1, 1)}
	before := running(t, set)
	e, weight := settle(t, before, Outcome{}), uint32(7)
	orderAt(t, e, Change{State: "drain", Weight: &weight})
	after := running(t, set)
	before.stop()
	for range 20 {
		if settle(t, after, Outcome{}) == e {
			t.Fatal("a drained endpoint was picked")
		}
	}
	for _, s := range after.state.status().Endpoints {
		if s.Address != e.Address() {
			continue
		}
		if s.Override == nil || s.Override.State != "drain" || s.Override.Weight != 7 || s.Weight != 7 || s.State != "drained" {
			t.Errorf("got %+v, %+v", s, s.Override)
		}
	}
}

// TestRestoreReopens checks that what comes back after it was disabled takes leases that last.
func TestRestoreReopens(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := running(t, settings{static: static(1)})
		e := settle(t, c, Outcome{})
		orderAt(t, e, Change{State: "disabled"})
		synctest.Wait()
		restore(t, e)
		var heard told
		_, l := lease(t, c)
		heard.on(l)
		if synctest.Wait(); !heard.is() {
			t.Errorf("got %v, want nothing: the endpoint is back", heard.causes)
		}
		l.Done(Outcome{})
	})
}

// TestOverrideIsLogged checks that the line about an order has all that stands, and nothing else.
func TestOverrideIsLogged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, _, logs := watched(t, settings{})
		e, weight := c.state.roster.Load().endpoints[1], uint32(3)
		for i, row := range []struct {
			change Change
			want   map[string]any
		}{
			{Change{Weight: &weight}, map[string]any{"weight": weight}},
			{Change{State: "drain", Deadline: time.Minute}, map[string]any{"weight": weight, "order": "drain", "deadline": time.Minute}},
			{Change{Weight: &weight}, map[string]any{"weight": weight, "order": "drain", "deadline": 50 * time.Second}},
			{Change{Weight: &weight}, map[string]any{"weight": weight, "order": "drain", "deadline": 40 * time.Second}},
			{Change{State: "up"}, map[string]any{"weight": weight, "order": "up"}},
		} {
			orderAt(t, e, row.change)
			row.want["endpoint"] = e.Address()
			lines := logs.FilterMessage("endpoint ordered by hand").All()
			if got := lines[len(lines)-1].ContextMap(); len(lines) != i+1 || !maps.Equal(got, row.want) {
				t.Errorf("order %d: got %v in line %d, want %v", i+1, got, len(lines), row.want)
			}
			time.Sleep(10 * time.Second) // virtual time
		}
		StopAll([]*Cluster{c})
	})
}

// TestOverrideWeight checks that a weight that was ordered counts.
func TestOverrideWeight(t *testing.T) {
	c := running(t, settings{static: static(1, 1), balancer: by(balance.RoundRobin)})
	e, weight := settle(t, c, Outcome{}), uint32(9)
	orderAt(t, e, Change{Weight: &weight})
	n := 0
	for range 100 {
		if settle(t, c, Outcome{}) == e {
			n++
		}
	}
	if n != 90 {
		t.Errorf("got %d of 100, want 90", n)
	}
}

// TestOverrideUp checks that an endpoint that is ordered up is used whatever is known about it, and isn't ejected.
func TestOverrideUp(t *testing.T) {
	c := running(t, settings{static: static(1), policy: health.Config{
		Refuse: true, Outlier: health.Outlier{ConsecutiveFailures: 1, Time: time.Hour, MaxPercent: 100},
	}})
	e := settle(t, c, Outcome{Kind: health.Reset})
	if err := admit(t, c).Pick(new(Lease), Key{}); err == nil {
		t.Error("an ejected endpoint was picked")
	}
	orderAt(t, e, Change{State: "up"})
	for range 3 {
		settle(t, c, Outcome{Kind: health.Reset})
	}
	if got := reasons(c); got[0] != "healthy" {
		t.Errorf("got %v", got)
	}
}

// TestOverrideErrors checks what is refused.
func TestOverrideErrors(t *testing.T) {
	c := running(t, settings{static: static(1)})
	zero, huge := uint32(0), uint32(health.MaxWeight+1)
	address := settle(t, c, Outcome{}).Address()
	for _, row := range []struct {
		name, cluster, endpoint string
		change                  Change
		want                    error
	}{
		{"no such cluster", "other", address, Change{State: "up"}, ErrNoCluster},
		{"no such endpoint", t.Name(), "192.0.2.9:1", Change{State: "up"}, ErrNoEndpoint},
		{"no such state", t.Name(), address, Change{State: "down"}, nil},
		{"weight of nothing", t.Name(), address, Change{Weight: &zero}, nil},
		{"weight too large", t.Name(), address, Change{Weight: &huge}, nil},
		{"deadline of another state", t.Name(), address, Change{State: "up", Deadline: time.Second}, nil},
		{"negative deadline", t.Name(), address, Change{State: "drain", Deadline: -1}, nil},
	} {
		err := Override(row.cluster, row.endpoint, row.change)
		if err == nil || row.want != nil && !errors.Is(err, row.want) {
			t.Errorf("%s: got %v, want %v", row.name, err, row.want)
		}
	}
	if len(c.state.overrides) > 0 {
		t.Errorf("got %d overrides, want none", len(c.state.overrides))
	}
}
