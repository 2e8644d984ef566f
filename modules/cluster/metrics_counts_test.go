package cluster

import (
	"errors"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/caddy-sluice/sluice/internal/balance"
	"github.com/caddy-sluice/sluice/internal/health"
	"github.com/caddy-sluice/sluice/modules/balancers"
)

// counts returns what is counted of the cluster that is called like the test, as far as it isn't zero.
func counts(t *testing.T) map[string]float64 {
	t.Helper()
	all := scrape(t)
	maps.DeleteFunc(all, func(name string, value float64) bool {
		family, _, _ := strings.Cut(name, " ")
		return value == 0 || family != "events_total" && family != "refused_total" && family != "lookups_total"
	})
	return all
}

// connectFailure is a failure that may be tried again.
var connectFailure = Failure{Outcome: Outcome{Kind: health.Connect}, Repeatable: true, Eligible: true}

// failOne lets the first attempt of a request fail.
func failOne(t *testing.T, c *Cluster) *Request {
	t.Helper()
	r, l := lease(t, c)
	l.Fail(connectFailure)
	return r
}

// full returns settings of one endpoint with these limits, in a cluster with those.
func full(own, all health.Limits) settings {
	set := settings{static: static(1), policy: health.Config{Limits: all}}
	set.static[0].limits = own
	return set
}

// retrying has a budget of one retry, trying has trials at once, keyed wants a key.
var (
	retrying = settings{static: static(1, 1), policy: health.Config{Retry: health.Retry{
		Max: 3, On: health.KindSet(health.Connect), Budget: health.Budget{Percent: 1, Min: 1},
	}}}
	trying = settings{static: static(1, 1), balancer: by(balance.First), policy: health.Config{
		Passive: health.Passive{Thresholds: health.Thresholds{Rise: 1, Fall: 1}, RetryAfter: time.Nanosecond},
	}}
	keyed = settings{static: static(1), balancer: policy{
		Config: balance.Config{Policy: balance.Maglev}, key: balancers.Key{Source: balancers.Header, Name: "X"},
	}}
)

// counted are things that happen, and what is counted then.
var counted = []struct {
	name string
	set  settings
	do   func(*testing.T, *Cluster)
	want map[string]float64
}{
	{"retry", retrying, func(t *testing.T, c *Cluster) {
		if err := failOne(t, c).Pick(new(Lease), Key{}); err != nil {
			t.Fatal(err)
		}
	}, map[string]float64{"events_total retry": 1}},
	{"retries", retrying, func(t *testing.T, c *Cluster) {
		for range 4 {
			failOne(t, c)
		}
	}, map[string]float64{"events_total retry": 1, "refused_total retries": 3}},
	{"replay", retrying, func(t *testing.T, c *Cluster) {
		r, l := lease(t, c)
		l.Fail(stale)
		r.Repick(l, stale)
	}, map[string]float64{"events_total replay": 1}},
	{"ejection", settings{static: static(1, 1, 1), policy: ejecting}, func(t *testing.T, c *Cluster) {
		for range 3 {
			settle(t, c, Outcome{Kind: health.Connect})
		}
	}, map[string]float64{"events_total ejection": 1, "events_total ejection_refused": 2}},
	{"trial", trying, func(t *testing.T, c *Cluster) {
		settle(t, c, Outcome{Kind: health.Connect})
		settle(t, c, Outcome{})
	}, map[string]float64{"events_total trial": 1}},
	{"fail open", settings{static: static(1), policy: falling}, func(t *testing.T, c *Cluster) {
		for range 3 {
			settle(t, c, Outcome{Kind: health.Connect})
		}
	}, map[string]float64{"events_total fail_open_pick": 1}},
	{"timeout", settings{static: static(1)}, func(t *testing.T, c *Cluster) {
		settle(t, c, Outcome{Kind: health.Timeout})
	}, map[string]float64{"events_total per_try_timeout": 1}},
	{"keyless", keyed, func(t *testing.T, c *Cluster) { settle(t, c, Outcome{}) }, map[string]float64{"events_total keyless_pick": 1}},
	{"event lost", settings{static: static(1)}, func(_ *testing.T, c *Cluster) {
		c.state.news.add(make([]notice, maxNews+2)...)
	}, map[string]float64{"events_total event_lost": 2}},
	{"requests", full(health.Limits{}, health.Limits{Requests: 1}), func(t *testing.T, c *Cluster) {
		admit(t, c)
		for range 2 {
			if c.Admit(new(Request)) == nil {
				t.Error("admitted one more than there may be")
			}
		}
	}, map[string]float64{"refused_total requests": 2}},
	{"attempts", full(health.Limits{Requests: 1}, health.Limits{}), func(t *testing.T, c *Cluster) {
		lease(t, c)
		if admit(t, c).Pick(new(Lease), Key{}) == nil {
			t.Error("picked an endpoint that is full")
		}
	}, map[string]float64{"refused_total attempts": 1}},
	{"connections", full(health.Limits{Connections: 1}, health.Limits{}), func(t *testing.T, c *Cluster) {
		_, l := lease(t, c)
		if c.Count(new(Conn), l.Endpoint()) != nil || c.Count(new(Conn), l.Endpoint()) == nil {
			t.Error("want one connection, and no more")
		}
	}, map[string]float64{"refused_total connections": 1}},
	{"no endpoint", settings{}, func(t *testing.T, c *Cluster) {
		if admit(t, c).Pick(new(Lease), Key{}) == nil {
			t.Error("picked an endpoint that isn't there")
		}
	}, map[string]float64{"refused_total no_endpoint": 1}},
	{"lookups", settings{}, func(_ *testing.T, c *Cluster) {
		c.state.countLookup(nil)
		c.state.countLookup(errors.New("no answer"))
		c.state.countLookup(errors.New("no answer"))
	}, map[string]float64{"lookups_total found": 1, "lookups_total failed": 2}},
}

// TestEachCountCountsOneThing checks that what happens is counted where it belongs, and nowhere else.
func TestEachCountCountsOneThing(t *testing.T) {
	for _, row := range counted {
		t.Run(row.name, func(t *testing.T) {
			c := running(t, row.set)
			row.do(t, c)
			if got := counts(t); !maps.Equal(got, row.want) {
				t.Errorf("got %v, want %v", got, row.want)
			}
		})
	}
}
