package cluster

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"

	"github.com/caddy-sluice/sluice/internal/balance"
	"github.com/caddy-sluice/sluice/internal/health"
)

// scrape returns the metrics of the cluster that is called like the test: by name, and by the labels beside its own.
func scrape(t *testing.T) map[string]float64 {
	t.Helper()
	registry := prometheus.NewPedanticRegistry()
	if err := registry.Register(metrics); err != nil {
		t.Fatal(err)
	}
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	all := make(map[string]float64)
	for _, family := range families {
		for _, m := range family.Metric {
			if labels, ours := labelsOf(t, m); ours {
				all[family.GetName()[len("caddy_sluice_cluster_"):]+labels] = m.GetGauge().GetValue() + m.GetCounter().GetValue()
			}
		}
	}
	return all
}

// labelsOf returns the labels of a metric beside its cluster, and whether it is that of the test.
func labelsOf(t *testing.T, m *dto.Metric) (text string, ours bool) {
	t.Helper()
	for _, label := range m.Label {
		if label.GetName() != "cluster" {
			text += " " + label.GetValue()
		} else if ours = label.GetValue() == t.Name(); !ours {
			return "", false
		}
	}
	return text, true
}

// TestZ127_MetricsReconcile checks that attempts are the sum of their outcomes, that nothing is under way at the end, and
// that a reload changes none of it.
func TestZ127_MetricsReconcile(t *testing.T) {
	set := settings{static: static(1, 1, 1), policy: ejecting}
	set.policy.Retry = health.DefaultRetry()
	c := running(t, set)
	kinds := []health.Kind{health.Success, health.Answer, health.Connect, health.Reset, health.Timeout, health.Stale, health.Aborted}
	for i := range 700 {
		settle(t, c, Outcome{Kind: kinds[i%len(kinds)], Status: 200})
	}
	check := func(when string) {
		t.Helper()
		sum, all := 0.0, scrape(t)
		for name, value := range all {
			switch {
			case strings.HasPrefix(name, "attempts_total "):
				sum += value
			case strings.HasPrefix(name, "attempts_active"), strings.HasPrefix(name, "connections"), name == "requests_active",
				name == "retries_active":
				if value != 0 {
					t.Errorf("%s: %s: got %v, want 0", when, name, value)
				}
			}
		}
		if sum != 700 || all["events_total ejection"] != 1 || all["endpoints_ejected"] != 1 || all["panic"] != 0 {
			t.Errorf("%s: got %v attempts, %v", when, sum, all)
		}
	}
	check("before")
	running(t, set)
	c.stop()
	check("after a reload")
}

// TestZ128_LabelsOnlyFromConfig checks that what clients send makes no series.
func TestZ128_LabelsOnlyFromConfig(t *testing.T) {
	c := running(t, settings{static: static(1, 1), balancer: by(balance.Maglev)})
	before := len(scrape(t))
	for i := range 1000 {
		var l Lease
		r := admit(t, c)
		if err := r.Pick(&l, HashKey(fmt.Sprintf("host%d.example", i))); err != nil {
			t.Fatal(err)
		}
		l.Done(health.Answered(100 + i%500))
		r.Finish()
	}
	if after := len(scrape(t)); after != before || before == 0 {
		t.Errorf("got %d series, want %d", after, before)
	}
}

// TestRefusalsAreCounted checks that each thing that stands in the way has a count.
func TestRefusalsAreCounted(t *testing.T) {
	set := settings{static: static(1), policy: health.Config{Limits: health.Limits{Requests: 2}}}
	set.static[0].limits = health.Limits{Requests: 1, Connections: 1}
	c := running(t, set)
	r, l := lease(t, c)
	other := admit(t, c)
	for range 2 { // the first by the counter, the second by the bar
		if err := other.Pick(new(Lease), Key{}); err == nil {
			t.Error("picked an endpoint that is full")
		}
	}
	if err := c.Admit(new(Request)); err == nil {
		t.Error("admitted more requests than there may be")
	}
	var one, two Conn
	if c.Count(&one, l.Endpoint()) != nil || c.Count(&two, l.Endpoint()) == nil {
		t.Error("counted more connections than there may be")
	}
	all := scrape(t)
	if all["refused_total attempts"] != 2 || all["refused_total requests"] != 1 || all["refused_total connections"] != 1 ||
		all["refused_total no_endpoint"] != 0 {
		t.Errorf("got %v", all)
	}
	one.Close()
	l.Done(Outcome{})
	orderAt(t, l.Endpoint(), Change{State: "drain"})
	if err := r.Pick(l, Key{}); err == nil {
		t.Error("picked a drained endpoint")
	}
	if all := scrape(t); all["refused_total no_endpoint"] != 1 || all["panic"] != 1 {
		t.Errorf("got %v", all)
	}
}

// TestEverythingAtOnce picks, settles, reloads, orders, finds and scrapes at the same time: for the race detector.
func TestEverythingAtOnce(t *testing.T) {
	set := settings{static: static(1, 1, 1), policy: falling}
	set.sources = append(set.sources, source("x"))
	set.static[0].limits.Requests = 2
	set.closeAfter = time.Millisecond
	c := running(t, set)
	var all sync.WaitGroup
	for i := range 4 {
		all.Go(func() { work(t, c, i) })
	}
	all.Go(func() {
		for i := range 100 {
			key := c.set.static[i%3].String()
			state := []string{"drain", "up", "disabled"}[i/3%3]
			if err := Override(t.Name(), key, Change{State: state}); err != nil {
				t.Error(err)
			}
			_ = Restore(t.Name(), key) // the only one who orders
		}
	})
	all.Go(func() {
		for i := range 100 {
			c.state.mu.Lock()
			ruler := c.state.ruler()
			c.state.mu.Unlock()
			ruler.take(source("x"), foundAt(1, 2+i%2), nil)
			scrape(t)
		}
	})
	last := c
	for range 20 {
		next := handle(t, set)
		if err := StartAll([]*Cluster{next}); err != nil {
			t.Fatal(err)
		}
		last.stop()
		last = next
	}
	all.Wait()
	last.stop()
	if stats := c.state.health.Stats(); stats.RequestsActive != 0 || stats.RetriesActive != 0 || stats.ConnectionsActive != 0 {
		t.Errorf("got %+v at the end", stats)
	}
	for _, e := range c.state.endpoints {
		if e.live.Load() != 0 || e.live.Bars()&balance.Full != 0 || e.holders.first != nil {
			t.Errorf("%s: got load %d, bars %v", e.text, e.live.Load(), e.live.Bars())
		}
	}
}

// work makes requests of all sorts.
func work(t *testing.T, c *Cluster, i int) {
	var heard told
	for n := range 1000 {
		var r Request
		var l Lease
		var k Conn
		if err := c.Admit(&r); err != nil {
			t.Error(err)
			return
		}
		if r.Pick(&l, Key{}) == nil {
			if n%3 == 0 {
				heard.on(&l)
			}
			if c.Count(&k, l.Endpoint()) == nil {
				k.Connected()
				k.Close()
			}
			if (n+i)%5 == 0 {
				l.Fail(Failure{Outcome: Outcome{Kind: health.Reset}, Repeatable: true, Reused: n%2 == 0})
			} else {
				l.Done(Outcome{})
			}
		}
		r.Finish()
	}
}

// TestZ66_ChargesEnd checks that a request that is given up while it waits for its retry is no retry any more, and that the
// wait is what the policy says.
func TestZ66_ChargesEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		set := settings{static: static(1, 1), policy: health.Config{Retry: health.DefaultRetry()}}
		set.policy.Retry.Backoff = health.Backoff{Base: 25 * time.Millisecond, Cap: time.Second}
		c := running(t, set)
		r, l := lease(t, c)
		d := l.Fail(Failure{Outcome: Outcome{Kind: health.Connect}, Repeatable: true, Eligible: true})
		if d.Action != health.Again || d.Delay < 1 || d.Delay >= 25*time.Millisecond || c.state.health.Stats().RetriesActive != 1 {
			t.Errorf("got %+v, %+v", d, c.state.health.Stats())
		}
		r.Finish()
		if n := c.state.health.Stats().RetriesActive; n != 0 {
			t.Errorf("got %d retries after the request has ended, want none", n)
		}
	})
}
