package bodypipe

import (
	"errors"
	"slices"
	"sort"
)

// world is a body, the filters that it passes and the limits.
type world struct {
	filters []script
	skip    Set
	ceiling int64
	budget  int64 // 0 is none
	asker   int
	upgrade Wish // what the asker asks for at the start; Mode Stream is nothing
	body    []byte
}

// verdict is what the model expects.
type verdict struct {
	// out is what the filters make of the body. If there is an error, what went on before it is a beginning of out.
	out []byte
	// causes are the errors that end the body. Which of them is met first may depend on how the body is cut.
	causes []error
	// held says that nothing may go on before the error, however the body is cut.
	held bool
	// grows says that a filter makes more of what is held, so that it depends on the cut whether it is too much.
	grows bool
}

// limits are the terms by the model's own rules.
type limits struct {
	buffer      bool
	hold, total int
	whole       bool
	first       int // of the filters that see the whole
}

func (w *world) limits() limits {
	l := limits{first: len(w.filters), total: never}
	hold := -1
	wish := func(v Wish) {
		most := int(v.Max)
		switch v.Mode {
		case SizeLimit:
			l.total = min(l.total, most)
		case Buffer:
			if l.buffer = true; most == 0 || most > int(w.ceiling) {
				most = int(w.ceiling)
			}
			hold = max(hold, most)
		}
	}
	for i, f := range w.filters {
		if w.skip.Has(i) {
			continue
		}
		wish(f.wish)
		if f.wish.Whole && !l.whole {
			l.whole, l.first = true, i
		}
	}
	if w.asks() && (w.upgrade.Mode == SizeLimit || !l.buffer) {
		wish(w.upgrade)
	}
	l.hold = hold
	return l
}

// asks reports whether a filter asks for something at the start.
func (w *world) asks() bool { return w.upgrade.Mode != Stream && !w.skip.Has(w.asker) }

// holds reports whether the body is held back for filter i, until it releases it or is done.
func (w *world) holds(i int) bool {
	return w.takesPart(i) && (w.filters[i].wish.Mode == Buffer || w.asks() && i == w.asker && w.upgrade.Mode == Buffer)
}

// takesPart reports whether filter i is called.
func (w *world) takesPart(i int) bool { return !w.skip.Has(i) && w.filters[i].wish.Access != None }

// made returns what the filters before a place make of a beginning of the body, or of all of it.
func (w *world) made(to int, body []byte, end bool) []byte {
	for i, f := range w.filters[:to] {
		if w.takesPart(i) {
			body = f.made(body, end)
		}
	}
	return body
}

// reached returns after how many bytes of the body filter i has seen so many that at is reached, never if it doesn't.
func (w *world) reached(i, at int) int {
	if at > w.filters[i].doneAt {
		return never
	}
	return w.comes(i, at)
}

// comes returns after how many bytes of the body as many have come to filter i, never if they don't.
func (w *world) comes(i, at int) int {
	n := sort.Search(len(w.body)+1, func(n int) bool { return len(w.made(i, w.body[:n], false)) >= at })
	if n <= len(w.body) {
		return n
	}
	if len(w.made(i, w.body, true)) >= at {
		return len(w.body)
	}
	return never
}

// agrees returns after how many bytes of the body filter i doesn't need it held back any more.
func (w *world) agrees(i int) int {
	f := w.filters[i]
	switch {
	case f.broken:
		return never
	case f.doneAt > 0:
		return min(w.reached(i, f.releaseAt), w.reached(i, f.doneAt))
	}
	return min(w.comes(i, 1), len(w.body))
}

// released returns after how many bytes of the body all agree that it needn't be held back: never if one doesn't, or if
// there is nobody to release it.
func (w *world) released() int {
	last := -1
	for i := range w.filters {
		if w.holds(i) {
			last = max(last, w.agrees(i))
		}
	}
	if last < 0 {
		return never
	}
	return last
}

// verdict works out what becomes of the body, from the whole of it.
func (w *world) verdict() verdict {
	l := w.limits()
	v := verdict{out: w.made(len(w.filters), w.body, true)}
	released, refused := w.released(), never
	for i, f := range w.filters {
		if !w.takesPart(i) {
			continue
		}
		if f.broken {
			if !f.wish.FailOpen {
				v.causes, refused = append(v.causes, errBroken), min(refused, 0)
			}
			continue
		}
		if at := w.reached(i, f.refuseAt); at != never {
			v.causes, refused = append(v.causes, Refuse(403)), min(refused, at)
		}
		v.grows = v.grows || l.buffer && !l.whole && f.wish.Access == ReadWrite && (f.kind == doubles || f.kind == appends)
	}
	if l.whole || !l.buffer || released > l.hold {
		released = never
	}
	if len(w.body) > l.total || l.buffer && released == never && w.overflows(l) {
		v.causes = append(v.causes, ErrTooLarge)
	}
	if w.budget > 0 && l.buffer {
		v.causes = append(v.causes, ErrBudget)
	}
	v.held = l.buffer && (released == never || refused <= released)
	return v
}

// overflows reports whether a body that nobody releases is too large to be held: as it came, in front of the filters
// that see the whole, or behind all.
func (w *world) overflows(l limits) bool {
	return len(w.body) > l.hold || len(w.made(l.first, w.body, true)) > l.hold || len(w.made(len(w.filters), w.body, true)) > l.hold
}

// allows reports whether an error is one that the model expects, nil if it expects none.
func (v verdict) allows(err error) bool {
	match := func(cause error) bool { return errors.Is(err, cause) }
	switch {
	case err == nil:
		// The budget may suffice.
		return !slices.ContainsFunc(v.causes, func(cause error) bool { return cause != ErrBudget && (!v.grows || cause != ErrTooLarge) })
	case v.grows && errors.Is(err, ErrTooLarge):
		return true
	}
	return slices.ContainsFunc(v.causes, match)
}
