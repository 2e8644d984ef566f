package validaterequest

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/caddy-sluice/sluice/internal/prom"
)

// refusals counts refused requests; rejected has its counters by reason.
var (
	refusals = prometheus.NewCounterVec(prometheus.CounterOpts{
		Namespace: "caddy", Subsystem: "sluice_validate_request", Name: "rejected_total",
		Help: "Requests that were refused, by reason.",
	}, []string{"reason"})
	rejected = newRejected()
)

func newRejected() (counters [reasonCount]prometheus.Counter) {
	for r := inOrder + 1; r < reasonCount; r++ {
		counters[r] = refusals.WithLabelValues(r.String())
	}
	return counters
}

// register adds the metrics to the registry of a config.
func register(reg prometheus.Registerer) error { return prom.Register(reg, refusals) }
