package sluiceapp

import (
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

// shedding tells the operator that a gate has begun to refuse connections, and that it has stopped. The zero value is
// ready.
type shedding struct {
	// mu guards the fields below.
	mu sync.Mutex
	// count is how many connections were refused since it began; 0 while the gate is open.
	count       uint64
	began, last time.Time
	timer       *time.Timer
}

// refused notes that a connection was refused.
func (s *shedding) refused(sess *session.Session, gate session.CloseReason, logger *zap.Logger) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.last = time.Now()
	s.count++
	if s.count > 1 {
		return
	}
	s.began = s.last
	logger.Warn("refusing connections", zap.String("gate", gateName(gate)), zap.String("listener", sess.Listener.String()))
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
	logger.Info("no more connections refused", zap.String("gate", gateName(gate)),
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
