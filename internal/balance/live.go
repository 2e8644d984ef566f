package balance

import "sync/atomic"

// Bars are the reasons why an endpoint can't be chosen, as a set.
type Bars uint32

// The reasons. An endpoint without any is available.
const (
	// Down is the verdict of the health checks.
	Down Bars = 1 << iota
	// Ejected is an outlier's time out.
	Ejected
	// Draining is the operator's will: nothing new.
	Draining
	// Full is a limit reached. It is a hint that saves picks that would be refused; the counter behind the limit
	// decides. Whoever raises it looks at the counter again afterwards and takes it back when there is room, so that
	// it can't outlast what was released meanwhile.
	Full
	// Reserve is where an available endpoint belongs that doesn't serve, since those of a lower tier do. Query.Spill lets a
	// request in that has nothing left to try among those.
	Reserve
	// Yielding is what another endpoint makes the others do whose turn it is. They are chosen only when nothing without it can
	// be that wasn't tried.
	Yielding

	// Health are the reasons that fail open ignores. A drain and a limit hold even then.
	Health = Down | Ejected
)

// FullShare is the share of an endpoint that gets all its weight says: shares are thousandths.
const FullShare = 1000

// cacheLines is the distance at which two processors don't take a counter from each other: two lines of 64 bytes, since
// they are fetched in pairs.
const cacheLines = 128

// Live is what changes about an endpoint from one pick to the next. The cluster owns it and keeps it for as long as it
// knows the endpoint, through any number of sets. The zero value is an available endpoint without load. It is safe for
// concurrent use and must not be copied.
type Live struct {
	load atomic.Int64
	bars atomic.Uint32
	// short is how much of the full share is held back. It is turned round so that the zero value is ready.
	short atomic.Uint32
	_     [cacheLines - 16]byte
}

// Load returns how many picks have not been released.
func (l *Live) Load() int64 { return l.load.Load() }

// Take counts load that no pick has chosen: another attempt at the endpoint of the one before.
func (l *Live) Take() { l.load.Add(1) }

// Release gives back what one pick, or one Take, took. The caller does it once for each pick: the load is never corrected.
func (l *Live) Release() { l.load.Add(-1) }

// Bar adds reasons not to choose the endpoint.
func (l *Live) Bar(b Bars) { l.bars.Or(uint32(b)) }

// Unbar takes reasons away.
func (l *Live) Unbar(b Bars) { l.bars.And(^uint32(b)) }

// Bars returns the reasons not to choose the endpoint.
func (l *Live) Bars() Bars { return Bars(l.bars.Load()) }

// SetShare holds the endpoint to a share of its weight, in thousandths: 1 to FullShare, and what lies outside counts as
// the nearer of them. A slow start raises it step by step. It takes effect with the next pick and nothing is rebuilt.
func (l *Live) SetShare(share int) {
	l.short.Store(uint32(FullShare - min(max(share, 1), FullShare)))
}

// Share returns the share of its weight that the endpoint is held to, in thousandths.
func (l *Live) Share() int { return FullShare - int(l.short.Load()) }
