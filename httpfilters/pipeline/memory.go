package pipeline

import (
	"go.uber.org/zap"

	"github.com/caddy-sluice/sluice/internal/bodypipe"
)

// warnOfMemory says so if the memory of all bodies together may not do for a single one.
func (h *Handler) warnOfMemory() {
	// What is held grows in steps, and while it moves to a larger place both are there.
	const places = 2
	largest := h.largestBody()
	if places*largest <= h.budget.Limit {
		return
	}
	h.logger.Warn("body_memory may be too small for a single body, which takes up to twice its size while it is read",
		zap.Int64("body_memory", h.budget.Limit), zap.Int64("largest_body", largest), zap.Int64("needed", places*largest))
}

// largestBody returns how many bytes of one body are held back at most, 0 if nothing is.
func (h *Handler) largestBody() (largest int64) {
	skip := bodypipe.Set(0).With(h.upstreamPlace())
	if h.plans.bound != nil || h.plans.selected != nil {
		skip = 0
	}
	for _, t := range []bodypipe.Terms{h.plans.request.Terms(skip), h.plans.response.Terms(0)} {
		if t.Mode == Buffer {
			largest = max(largest, t.Hold)
		}
	}
	return largest
}
