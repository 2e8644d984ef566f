package sluiceapp

import (
	"fmt"
	"strings"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/caddy-sluice/sluice/modules/session"
)

// The gates are close reasons that follow each other.
const (
	firstGate = session.AdmissionMemory
	lastGate  = session.AdmissionSourceIP
	gateCount = lastGate - firstGate + 1
)

// gateName returns the name of a gate in metrics and logs.
func gateName(gate session.CloseReason) string {
	return strings.TrimPrefix(gate.String(), "admission_")
}

// calm is how long a gate must have refused nothing until it counts as open again. Strangers can make a gate refuse: two
// lines in this time are all that they can write into the log by that.
const calm = time.Minute

// shedding tells the operator that a gate has begun to refuse connections or requests, and that it has stopped. The zero
// value is ready, for connections.
type shedding struct {
	requests bool

	// mu guards the fields below.
	mu sync.Mutex
	// count is how many were refused since it began; 0 while the gate is open.
	count       uint64
	began, last time.Time
	timer       *time.Timer
}

// refused notes that a connection or a request was refused.
func (s *shedding) refused(listener fmt.Stringer, gate session.CloseReason, logger *zap.Logger) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.last = time.Now()
	s.count++
	if s.count > 1 {
		return
	}
	s.began = s.last
	message := "refusing connections"
	if s.requests {
		message = "refusing requests"
	}
	logger.Warn(message, zap.String("gate", gateName(gate)), zap.Stringer("listener", listener))
	s.timer = time.AfterFunc(calm, func() { s.look(gate, logger) })
}

// look says that it has stopped, or comes back later.
func (s *shedding) look(gate session.CloseReason, logger *zap.Logger) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if left := calm - time.Since(s.last); left > 0 {
		s.timer.Reset(left)
		return
	}
	message := "no more connections refused"
	if s.requests {
		message = "no more requests refused"
	}
	logger.Info(message, zap.String("gate", gateName(gate)),
		zap.Uint64("refused", s.count), zap.Duration("duration", s.last.Sub(s.began)))
	s.count = 0
}

// stop ends the watch: the config is not in use any more.
func (s *shedding) stop() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.timer != nil {
		s.timer.Stop()
	}
}
