// Package bodypipe decides what happens to one direction of an HTTP body on its way past a list of filters: what each
// filter sees, what is held back, what goes on, and when the body is refused. It reads and writes nothing itself. The
// caller pushes what it has read and sends on what it gets back.
//
// The filters' wishes make a Plan, once. A Pipe carries out the plan for one body. Frame says how the message that comes
// out of it is to be framed.
package bodypipe

import (
	"errors"
	"fmt"
	"math"
	"slices"
)

// Access says what a filter does with a body.
type Access uint8

const (
	// None is not to look at it: the filter is never called.
	None Access = iota
	// ReadOnly is to look at it.
	ReadOnly
	// ReadWrite is to look at it and to put other bytes in its place.
	ReadWrite
)

// Mode says how a body goes on. Of two modes the greater one is kept.
type Mode uint8

const (
	// Stream passes each chunk on when the filters have seen it.
	Stream Mode = iota
	// SizeLimit is Stream with a limit on the length of the whole body.
	SizeLimit
	// Buffer holds the body back until all filters that wish for it, and have access, have released it, or it ends. After
	// the release the rest streams.
	Buffer
)

const (
	// DefaultCeiling is the most that a pipe holds back, in bytes, if the configuration gives no ceiling.
	DefaultCeiling = 10 << 20
	// MaxCeiling is the highest ceiling, in bytes.
	MaxCeiling = 64 << 20
	// MaxFilters is how many wishes a plan takes: as many as a Set has members.
	MaxFilters = 64
)

// Wish is what a filter declares for one direction. The mode and the limit count without access too: a filter that needs
// the body only later, when an upstream is known, wishes for None, Buffer and Whole.
type Wish struct {
	Access Access
	Mode   Mode
	// Max is, with Buffer, the most bytes to hold back, 0 for the plan's ceiling; with SizeLimit the greatest length of
	// the body, 1 or more; with Stream 0.
	Max int64
	// Whole, with Buffer, is to see the body once, when it is complete. Without it the filter sees the chunks as they
	// come. It sees every byte exactly once either way.
	Whole bool
	// FailOpen has the filter's errors passed over: what it made of the bytes is dropped and they go on as they were. It
	// is not for Refusals.
	FailOpen bool
}

// validate says what is wrong with a wish.
func (w Wish) validate() error {
	switch {
	case w.Access > ReadWrite || w.Mode > Buffer:
		return fmt.Errorf("unknown access %d or mode %d", w.Access, w.Mode)
	case w.Max < 0:
		return fmt.Errorf("negative limit %d", w.Max)
	case w.Mode == SizeLimit && w.Max == 0:
		return errors.New("a size limit without a limit")
	case w.Mode == Stream && w.Max != 0:
		return fmt.Errorf("a limit of %d bytes on a stream", w.Max)
	case w.Mode != Buffer && w.Whole:
		return errors.New("a whole body without a buffer")
	}
	return nil
}

// Set is a set of filters by their place in the plan.
type Set uint64

// With returns the set with filter i, which is from 0 to MaxFilters-1.
func (s Set) With(i int) Set { return s | 1<<i }

// Has reports whether filter i is in the set.
func (s Set) Has(i int) bool { return s>>i&1 != 0 }

// Plan is the filters' wishes, in the order in which bodies pass the filters. It doesn't change and is safe for
// concurrent use.
type Plan struct {
	wishes  []Wish
	ceiling int64
	all     Terms
	// holders are the filters that wish for Buffer and have access: they may release the body.
	holders Set
}

// NewPlan returns a plan. A ceiling of 0 is DefaultCeiling; more than MaxCeiling is MaxCeiling.
func NewPlan(ceiling int64, wishes ...Wish) (*Plan, error) {
	if ceiling < 0 {
		return nil, fmt.Errorf("negative ceiling %d", ceiling)
	}
	if len(wishes) > MaxFilters {
		return nil, fmt.Errorf("%d filters, more than %d", len(wishes), MaxFilters)
	}
	for i, w := range wishes {
		if err := w.validate(); err != nil {
			return nil, fmt.Errorf("filter %d: %w", i, err)
		}
	}
	if ceiling == 0 {
		ceiling = DefaultCeiling
	}
	p := &Plan{wishes: slices.Clone(wishes), ceiling: min(ceiling, MaxCeiling)}
	p.all = p.merge(0)
	for i, w := range wishes {
		if w.Mode == Buffer && w.Access != None {
			p.holders = p.holders.With(i)
		}
	}
	return p, nil
}

// Terms is what wishes come to.
type Terms struct {
	Mode Mode
	// Hold is, with Buffer, the most bytes to hold back: the largest wish, but no more than the ceiling.
	Hold int64
	// Limit is the greatest length of the whole body in any mode: the smallest wish. math.MaxInt64 is none.
	Limit int64
	// Whole is the place of the first filter that wants the whole body, len(wishes) if there is none. Where there is one
	// nobody releases the body.
	Whole int
	// Reads and Writes say whether some filter has access, and access to write.
	Reads, Writes bool
}

// Idle reports that nothing has to be done to the body: it needn't pass the pipe at all.
func (t Terms) Idle() bool { return !t.Reads && t.Mode == Stream }

// Terms returns what the wishes of the filters that are not skipped come to.
func (p *Plan) Terms(skip Set) Terms {
	if skip == 0 {
		return p.all
	}
	return p.merge(skip)
}

func (p *Plan) merge(skip Set) Terms {
	t := Terms{Limit: math.MaxInt64, Whole: len(p.wishes)}
	for i, w := range p.wishes {
		if skip.Has(i) {
			continue
		}
		t.Reads = t.Reads || w.Access != None
		t.Writes = t.Writes || w.Access == ReadWrite
		t.add(w.Mode, w.Max, p.ceiling)
		if w.Whole {
			t.Whole = min(t.Whole, i)
		}
	}
	return t
}

// add adds the wish for a mode.
func (t *Terms) add(mode Mode, most, ceiling int64) {
	t.Mode = max(t.Mode, mode)
	switch mode {
	case Buffer:
		if most == 0 {
			most = ceiling
		}
		t.Hold = min(max(t.Hold, most), ceiling)
	case SizeLimit:
		t.Limit = min(t.Limit, most)
	}
}
