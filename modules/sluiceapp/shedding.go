package sluiceapp

import (
	"strings"

	"go.uber.org/zap"

	"github.com/caddy-sluice/sluice/modules/session"
	"github.com/caddy-sluice/sluice/modules/shedding"
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

// sheds tell the operator what the gates refuse.
type sheds [gateCount]shedding.Watch

// prepare says what the gates are for, before the first refuses.
func (s *sheds) prepare(requests bool) {
	for i := range s {
		s[i].Requests = requests
		s[i].Subject = zap.String("gate", gateName(firstGate+session.CloseReason(i)))
	}
}

// stop ends the watch: the config is not in use any more.
func (s *sheds) stop() {
	for i := range s {
		s[i].Stop()
	}
}
