package sluiceapp

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/caddy-sluice/sluice/internal/permit"
	"github.com/caddy-sluice/sluice/internal/prom"
)

// metrics are the collectors of the app, one set per process, so that counts survive a reload.
var metrics = newMetrics()

type appMetrics struct {
	refusals    *prometheus.CounterVec
	rejected    [gateCount]prometheus.Counter
	connections prometheus.GaugeFunc
	preread     prometheus.GaugeFunc
}

func newMetrics() *appMetrics {
	m := &appMetrics{
		refusals: prometheus.NewCounterVec(prometheus.CounterOpts{
			Namespace: "caddy", Subsystem: "sluice_admission", Name: "rejected_total",
			Help: "Connections that were not admitted, by the gate that refused them.",
		}, []string{"gate"}),
		connections: gauge("sluice_admission", "connections", "Connections that have been admitted and are open.",
			func() *permit.Gauge { return &shared().process }),
		preread: gauge("sluice_preread", "memory_bytes", "Memory for the first bytes of connections that are not decided.",
			func() *permit.Gauge { return &shared().preread }),
	}
	for gate := firstGate; gate <= lastGate; gate++ {
		m.rejected[gate-firstGate] = m.refusals.WithLabelValues(gateName(gate))
	}
	return m
}

// gauge returns a collector that shows how many permits are held.
func gauge(subsystem, name, help string, held func() *permit.Gauge) prometheus.GaugeFunc {
	return prometheus.NewGaugeFunc(prometheus.GaugeOpts{Namespace: "caddy", Subsystem: subsystem, Name: name, Help: help},
		func() float64 { return float64(held().Load()) })
}

// Register adds the metrics of the app to a config's registry.
func Register(reg prometheus.Registerer) error {
	return prom.Register(reg, metrics.refusals, metrics.connections, metrics.preread)
}
