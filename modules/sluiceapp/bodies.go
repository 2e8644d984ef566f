package sluiceapp

import (
	"fmt"

	"github.com/caddy-sluice/sluice/internal/bodypipe"
)

const (
	// defaultBodyMemory is room for 25 bodies of the default limit, or four of the largest.
	defaultBodyMemory = 256 << 20
	minBodyMemory     = 1 << 20
	maxBodyMemory     = 1 << 40
)

// provisionBodies checks the memory for bodies and sets the default.
func (a *App) provisionBodies() error {
	if a.BodyMemory == 0 {
		a.BodyMemory = defaultBodyMemory
	}
	if a.BodyMemory < minBodyMemory || a.BodyMemory > maxBodyMemory {
		return fmt.Errorf("body_memory: %d is out of range, 1MiB to 1TiB", a.BodyMemory)
	}
	return nil
}

// BodyBudget returns what all bodies together may take that HTTP filters hold back.
func (a *App) BodyBudget() bodypipe.Budget {
	return bodypipe.Budget{Held: &a.state.bodies, Limit: a.BodyMemory}
}
