package pipeline

import (
	"errors"
	"net/http"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/caddy-sluice/sluice/internal/bodypipe"
	"github.com/caddy-sluice/sluice/internal/prom"
)

// reason says why a request did not go its way, or what became of a filter that failed.
type reason uint8

// The reasons.
const (
	// byFilter is that a filter refused it.
	byFilter reason = iota
	bodyTooLarge
	bodyMemory
	bodyTimeout
	bodyMalformed
	clientGone
	responseInvalid
	connected
	// What follows counts as an error.
	filterFailed
	passedOver
	panicked
	reasonCount
)

// reasonNames are the names in metrics.
var reasonNames = [reasonCount]string{
	"filter", "body_too_large", "body_memory", "body_timeout", "body_malformed", "client_gone", "response_invalid",
	"connect", "request_failed", "passed_over", "panic",
}

// rejections counts requests that did not go their way, failures filters that failed; counters has all by reason.
var (
	rejections = prometheus.NewCounterVec(prometheus.CounterOpts{
		Namespace: "caddy", Subsystem: "sluice_filters", Name: "rejected_total",
		Help: "Requests that a pipeline ended, by reason.",
	}, []string{"reason"})
	failures = prometheus.NewCounterVec(prometheus.CounterOpts{
		Namespace: "caddy", Subsystem: "sluice_filters", Name: "failures_total",
		Help: "Failures of filters, by what came of them.",
	}, []string{"result"})
	counters = newCounters()
)

func newCounters() (all [reasonCount]prometheus.Counter) {
	for r, name := range reasonNames {
		vec := rejections
		if reason(r) >= filterFailed {
			vec = failures
		}
		all[r] = vec.WithLabelValues(name)
	}
	return all
}

// count counts.
func count(r reason) {
	if r < reasonCount {
		counters[r].Inc()
	}
}

// reasonOf returns the reason that an error is, reasonCount if it is counted already.
func reasonOf(err error) reason {
	var tooLarge *http.MaxBytesError
	var bad *malformed
	var wrong *invalid
	switch {
	case errors.Is(err, bodypipe.ErrTooLarge), errors.As(err, &tooLarge):
		return bodyTooLarge
	case errors.Is(err, bodypipe.ErrBudget):
		return bodyMemory
	case errors.Is(err, errClientGone):
		return clientGone
	case errors.Is(err, errStalled):
		return bodyTimeout
	case errors.Is(err, errConnect):
		return connected
	case errors.As(err, &bad):
		return bodyMalformed
	case errors.As(err, &wrong):
		return responseInvalid
	case isCrash(err):
		return reasonCount
	case isRefusal(err):
		return byFilter
	}
	return filterFailed
}

// isCrash reports whether an error is that of a filter that panicked.
func isCrash(err error) bool {
	_, crashed := errors.AsType[crash](err)
	return crashed
}

// register adds the metrics to the registry of a config.
func register(reg prometheus.Registerer) error { return prom.Register(reg, rejections, failures) }
