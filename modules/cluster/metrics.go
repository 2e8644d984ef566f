package cluster

import (
	"github.com/caddyserver/caddy/v2"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/caddy-sluice/sluice/internal/health"
	"github.com/caddy-sluice/sluice/internal/prom"
)

// metrics is the collector of all clusters, one per process. What it shows is counted in the states, so that it survives
// a reload, and ends with the cluster or the endpoint.
var metrics collector

// collector reads the counts of the clusters in use when it is asked.
type collector struct{}

func desc(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc("caddy_sluice_cluster_"+name, help, append([]string{"cluster"}, labels...), nil)
}

// The metrics of clusters and, with the label endpoint, of endpoints.
var (
	descAttempts = desc("attempts_total", "Attempts that were settled, by what became of them.", "endpoint", "outcome")
	descActive   = desc("attempts_active", "Attempts under way.", "endpoint")
	descConns    = desc("connections", "Connections that are being made or serve.", "endpoint")
	descUp       = desc("endpoint_available", "1 if the endpoint is available, else 0.", "endpoint")
	descWeight   = desc("endpoint_weight", "The weight that counts now.", "endpoint")
	descChecks   = desc("checks_total", "Active checks, by their result.", "endpoint", "result")

	descRequests  = desc("requests_active", "Requests and sessions under way.")
	descPending   = desc("connections_pending", "Connections that are being made.")
	descRetriesOn = desc("retries_active", "Retries that wait or are under way.")
	descEjected   = desc("endpoints_ejected", "Endpoints that are ejected.")
	descStance    = desc("panic", "1 if too few endpoints are available, else 0.")
	descEvents    = desc("events_total", "What has happened in the cluster, by kind.", "kind")
	descRefused   = desc("refused_total", "Requests, attempts, dials and retries that were not let through, by what stood in the way.", "limit")
	descLookups   = desc("lookups_total", "Answers of discovery, by their result.", "result")
)

// register adds the metrics to a config's registry.
func register(ctx caddy.Context) error { return prom.Register(ctx.GetMetricsRegistry(), metrics) }

// Describe implements prometheus.Collector.
func (collector) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{
		descAttempts, descActive, descConns, descUp, descWeight, descChecks, descRequests, descPending, descRetriesOn,
		descEjected, descStance, descEvents, descRefused, descLookups,
	} {
		ch <- d
	}
}

// Collect implements prometheus.Collector.
func (collector) Collect(ch chan<- prometheus.Metric) {
	for _, s := range inUse() {
		s.collect(ch)
	}
}

func (s *state) collect(ch chan<- prometheus.Metric) {
	st, stats := s.status(), s.health.Stats()
	gauge := func(d *prometheus.Desc, value float64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, value, append([]string{s.name}, labels...)...)
	}
	count := func(d *prometheus.Desc, value uint64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, float64(value), append([]string{s.name}, labels...)...)
	}
	gauge(descRequests, float64(st.Requests))
	gauge(descPending, float64(st.Pending))
	gauge(descRetriesOn, float64(st.Retries))
	gauge(descEjected, float64(st.Ejected))
	gauge(descStance, oneIf(st.Stance != health.Normal.String()))
	for kind, n := range map[string]uint64{
		"retry": stats.Retries, "replay": stats.Replays, "ejection": stats.Ejections, "ejection_refused": stats.EjectionsRefused,
		"trial": stats.Trials, "fail_open_pick": stats.FailOpenPicks, "per_try_timeout": stats.Timeouts, "keyless_pick": s.keyless.Load(),
		"event_lost": stats.EventsLost + s.news.dropped(),
	} {
		count(descEvents, n, kind)
	}
	for limit, n := range map[string]uint64{
		"requests": stats.RequestsRefused, "attempts": stats.AttemptsRefused + s.crowded.Load(), "connections": stats.DialsRefused,
		"retries": stats.RetriesRefused, "no_endpoint": s.refused.Load(),
	} {
		count(descRefused, n, limit)
	}
	count(descLookups, s.lookups.Load(), "found")
	count(descLookups, s.lookupFailures.Load(), "failed")
	for i := range st.Endpoints {
		e := &st.Endpoints[i]
		gauge(descActive, float64(e.Active), e.Address)
		gauge(descConns, float64(e.Connections), e.Address)
		gauge(descUp, oneIf(e.Available && e.Member), e.Address)
		gauge(descWeight, e.EffectiveWeight, e.Address)
		if known := s.known(e.Address); known != nil {
			for kind := range kinds {
				count(descAttempts, known.outcomes[kind].Load(), e.Address, health.Kind(kind).String())
			}
			count(descChecks, known.passed.Load(), e.Address, "passed")
			count(descChecks, known.failed.Load(), e.Address, "failed")
		}
	}
}

func oneIf(yes bool) float64 {
	if yes {
		return 1
	}
	return 0
}
