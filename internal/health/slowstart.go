package health

import (
	"math"
	"time"
)

// DefaultMinWeightPercent is the share of its weight that an endpoint starts with, if SlowStart.MinPercent is 0: with
// less, it might get no request within the window.
const DefaultMinWeightPercent = 10

// slowStartFloor is the age that younger endpoints count as.
const slowStartFloor = time.Second

// slowStartSteps is how many times the weights are looked at in a window.
const slowStartSteps = 100

// SlowStart lets the weight of an endpoint grow after it has come back or was added. The zero value doesn't.
type SlowStart struct {
	// Window is how long the weight grows.
	Window time.Duration
	// MinPercent is the share of its weight that an endpoint has at least. 0 means DefaultMinWeightPercent.
	MinPercent int
	// Aggression bends the curve: with 1, and with 0, it is a line; with more the weight grows faster at first.
	Aggression float64
	// AfterEjection lets the weight grow after an ejection too.
	AfterEjection bool
}

// Factor returns the share of its weight that an endpoint has at an age: from MinPercent to 1.
func (s *SlowStart) Factor(age time.Duration) float64 {
	if age >= s.Window {
		return 1
	}
	share := float64(max(age, slowStartFloor)) / float64(s.Window)
	if s.Aggression > 0 && s.Aggression != 1 {
		share = math.Pow(share, 1/s.Aggression)
	}
	least := s.MinPercent
	if least <= 0 {
		least = DefaultMinWeightPercent
	}
	return min(max(share, float64(least)/100), 1)
}

// next returns the age above the one given at which to look at the weight again.
func (s *SlowStart) next(age time.Duration) time.Duration {
	step := max(s.Window/slowStartSteps, time.Millisecond)
	return min((age/step+1)*step, s.Window)
}
