package ipacl

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/caddy-sluice/sluice/internal/prom"
)

// metrics are the collectors of all handlers, one set per process, so that counts survive a reload.
var metrics = newMetrics()

type aclMetrics struct{ rejected prometheus.Counter }

func newMetrics() *aclMetrics {
	return &aclMetrics{prometheus.NewCounter(prometheus.CounterOpts{
		Namespace: "caddy", Subsystem: "sluice_ip_acl", Name: "rejected_total",
		Help: "Connections that were closed because their client may not connect.",
	})}
}

func (m *aclMetrics) register(reg prometheus.Registerer) error { return prom.Register(reg, m.rejected) }
