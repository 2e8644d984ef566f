package forward

import "github.com/prometheus/client_golang/prometheus"

// dynamicLabel stands for all upstreams that depend on the connection: their addresses may be the clients' words.
const dynamicLabel = "dynamic"

// metrics are the collectors of all forwards, one set per process, so that counts survive a reload.
var metrics = newMetrics()

type forwardMetrics struct {
	limited *prometheus.CounterVec
}

func newMetrics() *forwardMetrics {
	return &forwardMetrics{limited: prometheus.NewCounterVec(prometheus.CounterOpts{
		Namespace: "caddy", Subsystem: "sluice_forward", Name: "limited_total",
		Help: "Connections closed because their client had as many to this upstream as it may.",
	}, []string{"upstream"})}
}
