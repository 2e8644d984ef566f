package session

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/caddy-sluice/sluice/internal/prom"
)

// metrics are the collectors of all sessions, one set per process, so that counts survive a reload.
var metrics = newMetrics()

type sessionMetrics struct {
	active    prometheus.Gauge
	ended     *prometheus.CounterVec
	byReason  [closeReasons]prometheus.Counter
	duration  prometheus.Histogram
	bytesIn   prometheus.Counter
	bytesOut  prometheus.Counter
	connected prometheus.Histogram
}

func newMetrics() *sessionMetrics {
	const ns, sub = "caddy", "sluice_session"
	m := &sessionMetrics{
		active: prometheus.NewGauge(prometheus.GaugeOpts{
			Namespace: ns, Subsystem: sub, Name: "active",
			Help: "Connections that are in handlers of ours, or were handed over to Caddy's HTTP app and are open.",
		}),
		ended: prometheus.NewCounterVec(prometheus.CounterOpts{
			Namespace: ns, Subsystem: sub, Name: "closed_total",
			Help: "Connections that have ended, by close reason. Those that were not admitted don't count.",
		}, []string{"reason"}),
		duration: prometheus.NewHistogram(prometheus.HistogramOpts{
			Namespace: ns, Subsystem: sub, Name: "duration_seconds",
			Help: "How long connections have lasted, from accept to close.",
			// From a refused hello to a session of a day.
			Buckets: []float64{.001, .01, .1, 1, 10, 60, 600, 3600, 6 * 3600, 24 * 3600},
		}),
		bytesIn: prometheus.NewCounter(prometheus.CounterOpts{
			Namespace: ns, Subsystem: sub, Name: "received_bytes_total",
			Help: "Bytes from clients that were delivered, counted when the connection ends.",
		}),
		bytesOut: prometheus.NewCounter(prometheus.CounterOpts{
			Namespace: ns, Subsystem: sub, Name: "sent_bytes_total",
			Help: "Bytes to clients that were delivered, counted when the connection ends.",
		}),
		connected: prometheus.NewHistogram(prometheus.HistogramOpts{
			Namespace: ns, Subsystem: sub, Name: "connect_seconds",
			Help: "How long it took to resolve and connect to the upstream, failures included.",
			// From the same machine to the default connect timeout (10s).
			Buckets: []float64{.0001, .0005, .001, .005, .01, .05, .1, .25, .5, 1, 2.5, 5, 10},
		}),
	}
	for r := Open + 1; r < closeReasons; r++ {
		m.byReason[r] = m.ended.WithLabelValues(r.String())
	}
	return m
}

// Register adds the metrics about sessions to a config's registry.
func Register(reg prometheus.Registerer) error {
	return prom.Register(reg, metrics.active, metrics.ended, metrics.duration, metrics.bytesIn, metrics.bytesOut, metrics.connected)
}

// closed counts a session that has ended. One without a reason was only passed on, by a handler that is not ours.
func (m *sessionMetrics) closed(s *Session) {
	reason := s.CloseReason()
	if reason == Open || reason.Refused() {
		return
	}
	m.byReason[reason].Inc()
	m.duration.Observe(time.Since(s.Start).Seconds())
	m.bytesIn.Add(float64(s.BytesIn))
	m.bytesOut.Add(float64(s.BytesOut))
	if s.ConnectTime > 0 {
		m.connected.Observe(s.ConnectTime.Seconds())
	}
}
