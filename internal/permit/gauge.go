// Package permit counts what is in use and refuses what would be one too many. Nothing in it waits.
//
// A limit is given with each call: it is policy and comes from a configuration, while the count goes on when the
// configuration is replaced. A count may therefore stand above a limit that has just been lowered; then nothing is
// granted until enough has been given back.
package permit

import "sync/atomic"

// Gauge counts permits. The zero value is ready. It is safe for concurrent use and must not be copied.
type Gauge struct {
	held atomic.Int64
}

// TryAcquire takes n permits, if no more than limit are held afterwards, and reports whether it did. A limit of 0 or
// less is none: the permits are counted only. n must not be negative.
func (g *Gauge) TryAcquire(n, limit int64) bool {
	if limit <= 0 {
		g.held.Add(n)
		return true
	}
	for {
		held := g.held.Load()
		if n > limit-held {
			return false
		}
		if g.held.CompareAndSwap(held, held+n) {
			return true
		}
	}
}

// Release gives n permits back. The caller gives back what it took, once: the count is never corrected.
func (g *Gauge) Release(n int64) { g.held.Add(-n) }

// Load returns how many permits are held.
func (g *Gauge) Load() int64 { return g.held.Load() }
