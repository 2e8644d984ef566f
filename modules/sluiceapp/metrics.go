package sluiceapp

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/caddy-sluice/sluice/internal/permit"
	"github.com/caddy-sluice/sluice/internal/prom"
	"github.com/caddy-sluice/sluice/modules/session"
)

// metrics are the collectors of the app, one set per process, so that counts survive a reload.
var metrics = newMetrics()

type appMetrics struct {
	refusals    *prometheus.CounterVec
	rejected    [gateCount]prometheus.Counter
	connections prometheus.GaugeFunc
	preread     prometheus.GaugeFunc
	bodies      prometheus.GaugeFunc

	requestRefusals  *prometheus.CounterVec
	rejectedRequests [gateCount]prometheus.Counter
	requests         prometheus.GaugeFunc
}

func newMetrics() *appMetrics {
	m := &appMetrics{
		refusals: prometheus.NewCounterVec(prometheus.CounterOpts{
			Namespace: "caddy", Subsystem: "sluice_admission", Name: "rejected_total",
			Help: "Connections that were not admitted, by the gate that refused them.",
		}, []string{"gate"}),
		connections: gauge("sluice_admission", "connections", "Connections that have been admitted and are open.",
			func(s *state) *permit.Gauge { return &s.process }),
		preread: gauge("sluice_preread", "memory_bytes", "Memory for the first bytes of connections that are not decided.",
			func(s *state) *permit.Gauge { return &s.preread }),
		bodies: gauge("sluice_filters", "body_memory_bytes", "Memory for bodies that HTTP filters hold back.",
			func(s *state) *permit.Gauge { return &s.bodies }),
		requestRefusals: prometheus.NewCounterVec(prometheus.CounterOpts{
			Namespace: "caddy", Subsystem: "sluice_admission", Name: "requests_rejected_total",
			Help: "HTTP requests that were not admitted, by the gate that refused them.",
		}, []string{"gate"}),
		requests: gauge("sluice_admission", "requests", "HTTP requests that have been admitted and are not over.",
			func(s *state) *permit.Gauge { return &s.requests }),
	}
	for gate := firstGate; gate <= lastGate; gate++ {
		m.rejected[gate-firstGate] = m.refusals.WithLabelValues(gateName(gate))
		if gate != session.AdmissionPrereadMemory { // it has no part in requests
			m.rejectedRequests[gate-firstGate] = m.requestRefusals.WithLabelValues(gateName(gate))
		}
	}
	return m
}

// gauge returns a collector that shows how many permits are held.
func gauge(subsystem, name, help string, held func(*state) *permit.Gauge) prometheus.GaugeFunc {
	read := func() (n float64) {
		states.Range(func(_, value any) bool {
			n = float64(held(value.(*state)).Load())
			return true
		})
		return n
	}
	return prometheus.NewGaugeFunc(prometheus.GaugeOpts{Namespace: "caddy", Subsystem: subsystem, Name: name, Help: help}, read)
}

// Register adds the metrics of the app to a config's registry.
func Register(reg prometheus.Registerer) error {
	return prom.Register(reg, metrics.refusals, metrics.connections, metrics.preread, metrics.bodies,
		metrics.requestRefusals, metrics.requests)
}
