package l4sni

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/caddy-sluice/sluice/internal/preread"
	"github.com/caddy-sluice/sluice/internal/prom"
	"github.com/caddy-sluice/sluice/modules/session"
)

// metrics are the collectors of the preread, one set per process, so that counts survive a reload. No label value
// comes from a client.
var metrics = newMetrics()

type prereadMetrics struct {
	active   prometheus.Gauge
	routed   prometheus.Counter
	rejected *prometheus.CounterVec
	fallback *prometheus.CounterVec
	duration prometheus.Histogram
	size     prometheus.Histogram
	records  prometheus.Histogram
}

func newMetrics() *prereadMetrics {
	const ns, sub = "caddy", "sluice_preread"
	m := &prereadMetrics{
		active: prometheus.NewGauge(prometheus.GaugeOpts{
			Namespace: ns, Subsystem: sub, Name: "active",
			Help: "Connections between accept and hand-over: neither rejected, nor connected to their upstream, nor closed.",
		}),
		routed: prometheus.NewCounter(prometheus.CounterOpts{
			Namespace: ns, Subsystem: sub, Name: "routed_total",
			Help: "Connections for which a route was found.",
		}),
		rejected: prometheus.NewCounterVec(prometheus.CounterOpts{
			Namespace: ns, Subsystem: sub, Name: "rejected_total",
			Help: "Connections closed because the preread found no route, by reason.",
		}, []string{"reason"}),
		fallback: prometheus.NewCounterVec(prometheus.CounterOpts{
			Namespace: ns, Subsystem: sub, Name: "fallback_total",
			Help: "Connections without a route that a fallback took, by reason.",
		}, []string{"reason"}),
		duration: prometheus.NewHistogram(prometheus.HistogramOpts{
			Namespace: ns, Subsystem: sub, Name: "duration_seconds",
			Help: "Time from accept to hand-over, the connect to the upstream included.",
			// From a hello that is there at once, over round trips, to the default deadline (5s) and connect timeout (10s).
			Buckets: []float64{.0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 15},
		}),
		size: prometheus.NewHistogram(prometheus.HistogramOpts{
			Namespace: ns, Subsystem: sub, Name: "hello_size_bytes",
			Help: "Length of the ClientHello.",
			// 512: before post-quantum key shares; 2048: with one; 16384: one full record; 32768: the default cap.
			Buckets: []float64{256, 512, 1024, 1536, 2048, 3072, 4096, 8192, 16384, 32768},
		}),
		records: prometheus.NewHistogram(prometheus.HistogramOpts{
			Namespace: ns, Subsystem: sub, Name: "hello_records",
			Help:    "Number of TLS records in which the ClientHello came.",
			Buckets: []float64{1, 2, 3, 4, 8, 16, 64, 256, 1024},
		}),
	}
	for reason := range preread.Reasons() {
		m.rejected.WithLabelValues(reason.String())
	}
	return m
}

func (m *prereadMetrics) register(reg prometheus.Registerer) error {
	return prom.Register(reg, m.active, m.routed, m.rejected, m.fallback, m.duration, m.size, m.records)
}

// begin counts a connection as under way until it has a place to go or has ended.
func (m *prereadMetrics) begin(sess *session.Session) {
	m.active.Inc()
	sess.OnReject(m.reject)
	sess.OnHandover(func() {
		m.active.Dec()
		m.duration.Observe(time.Since(sess.Start).Seconds())
		if sess.Hello != nil {
			m.size.Observe(float64(sess.Hello.Size))
			m.records.Observe(float64(sess.Hello.Records))
		}
	})
}

// reject counts a connection that was closed for its preread reason.
func (m *prereadMetrics) reject(r preread.Reason) { m.rejected.WithLabelValues(r.String()).Inc() }
