package health

import "sync/atomic"

// pair counts two things in one word, so that both are checked and changed in one step: a whole, and how much of it is
// of a certain kind. The zero value is ready. It must not be copied.
type pair struct{ word atomic.Uint64 }

// half says which half of a pair was at its limit.
type half uint8

const (
	noHalf half = iota
	wholeHalf
	partHalf
)

// split returns both halves of a word.
func split(word uint64) (whole, part int64) { return int64(word >> 32), int64(uint32(word)) }

// load returns both counts.
func (p *pair) load() (whole, part int64) { return split(p.word.Load()) }

// add changes the counts whatever they are.
func (p *pair) add(whole, part int64) { p.word.Add(uint64(whole<<32 + part)) }

// tryAdd adds one to the whole, and 0 or 1 to the part, unless one that grows would be above its limit then. A limit of 0
// is none.
func (p *pair) tryAdd(part, maxWhole, maxPart int64) half {
	for {
		word := p.word.Load()
		haveWhole, havePart := split(word)
		if maxWhole > 0 && haveWhole >= maxWhole {
			return wholeHalf
		}
		if part > 0 && maxPart > 0 && havePart >= maxPart {
			return partHalf
		}
		if p.word.CompareAndSwap(word, word+uint64(1<<32+part)) {
			return noHalf
		}
	}
}

// mayStay says what stands in the way of one of the part that would be added again, if a limit (0 is none) or a budget of
// the whole does.
func (p *pair) mayStay(limit int64, b *Budget) Why {
	whole, part := p.load()
	switch {
	case limit > 0 && part > limit:
		return OverLimit
	case part > b.Bound(whole):
		return OverBudget
	}
	return NoReason
}

// tryCharge adds one to the part, if a limit (0 is none) and a budget of the whole allow it.
func (p *pair) tryCharge(limit int64, b *Budget) Why {
	for {
		word := p.word.Load()
		whole, part := split(word)
		if limit > 0 && part >= limit {
			return OverLimit
		}
		if part >= b.Bound(whole) {
			return OverBudget
		}
		if p.word.CompareAndSwap(word, word+1) {
			return NoReason
		}
	}
}
