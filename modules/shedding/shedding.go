// Package shedding tells the operator that connections or requests are refused, and that it is over. That is two lines,
// however many are refused: there may be one for each that comes, just when there is too much to do.
package shedding

import (
	"sync"
	"time"

	"go.uber.org/zap"
)

// Calm is how long nothing must have been refused until it is over. Strangers can bring a limit to refuse: two lines in this
// time are all that they can write into the log by that.
const Calm = time.Minute

// Why it is over, for the log. With overConfig the next config may refuse as well, and may have said so before.
const (
	overQuiet  = "quiet"
	overConfig = "config_gone"
)

// Watch is over one thing that refuses, under one config. The exported fields are set before it is used. It is safe.
type Watch struct {
	// Requests says that it refuses requests; else it refuses connections.
	Requests bool
	// Subject says what it is. It is on each line.
	Subject zap.Field

	// mu guards the fields below.
	mu sync.Mutex
	// count is how many were refused since it began; 0 while none is.
	count       uint64
	began, last time.Time
	timer       *time.Timer
	logger      *zap.Logger
	stopped     bool
}

// Refused notes that one was refused. If none was before, the log says so, with the details of this one.
func (w *Watch) Refused(logger *zap.Logger, details ...zap.Field) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.stopped {
		return
	}
	w.last = time.Now()
	w.count++
	if w.count > 1 {
		return
	}
	w.began, w.logger = w.last, logger
	message := "refusing connections"
	if w.Requests {
		message = "refusing requests"
	}
	logger.Warn(message, append([]zap.Field{w.Subject}, details...)...)
	w.timer = time.AfterFunc(Calm, w.look)
}

// look says that it is over, or comes back later.
func (w *Watch) look() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.count == 0 {
		return // stopped while this waited
	}
	if left := Calm - time.Since(w.last); left > 0 {
		w.timer.Reset(left)
		return
	}
	w.over(overQuiet)
}

// over says that it is over. mu is held.
func (w *Watch) over(reason string) {
	message := "no more connections refused"
	if w.Requests {
		message = "no more requests refused"
	}
	w.logger.Info(message, w.Subject, zap.String("reason", reason),
		zap.Uint64("refused", w.count), zap.Duration("duration", w.last.Sub(w.began)))
	w.count = 0
}

// Stop ends the watch: the config is not in use any more. What has begun is over by that, and what still comes is not in the
// log.
func (w *Watch) Stop() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.stopped = true
	if w.count == 0 {
		return
	}
	w.timer.Stop()
	w.over(overConfig)
}
