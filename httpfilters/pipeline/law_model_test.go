package pipeline

import (
	"net/http"
	"sort"
)

// lane is a body, the filters that take part in it, in the order in which it passes them, and the limits. It is a model of
// its own: the rules that the docs state, applied to the whole body at once.
type lane struct {
	filters []*bodyScript
	ceiling int
	body    []byte
	// declared says that the length of the body came with its header.
	declared bool
	// tooLarge is the status for a body that is too large.
	tooLarge int
	// budget says that the budget may be spent.
	budget bool
	// first is the mode that the first filter asks for when it sees some of the body.
	first Wish
	// holders are the filters for which the body is held back until they release it or are done.
	holders map[*bodyScript]bool
}

// verdict is what becomes of a body.
type verdict struct {
	// out is what the filters make of it. If the body fails, what went on before is a beginning of out.
	out []byte
	// may are the statuses with which it may fail: which error is met first may depend on how the body is cut.
	may map[int]bool
	// must says that it fails, however it is cut.
	must bool
	// held says that nothing goes on before it fails, or before it is complete.
	held bool
	// released says that it goes on before its end, as far as it doesn't end at once.
	released bool
	// writes and changes say that a filter may, and does, put other bytes in the place of some.
	writes, changes bool
}

// terms are the limits by which a body passes.
type terms struct {
	reads, buffer bool
	// fixed says that the limit of what is held is that of the plan.
	fixed       bool
	hold, total int
	// whole is the place of the first filter that sees the body once, len(filters) if there is none.
	whole int
}

func (t terms) idle() bool { return !t.reads && !t.buffer && t.total == noPlace }

// planned returns the terms on which the filters agree when the config is loaded.
func (l *lane) planned() terms {
	t := terms{total: noPlace, whole: len(l.filters)}
	l.holders = make(map[*bodyScript]bool)
	for i, f := range l.filters {
		l.holders[f] = f.holds(f.wish)
		t.reads = t.reads || f.wish.Access != None
		t.wish(f.wish, l.ceiling)
		if f.wish.Whole {
			t.whole = min(t.whole, i)
		}
	}
	t.fixed = t.buffer
	return t
}

// wish adds the mode that somebody wants.
func (t *terms) wish(w Wish, ceiling int) {
	switch most := int(w.Max); w.Mode {
	case SizeLimit:
		t.total = min(t.total, most)
	case Buffer:
		if most == 0 {
			most = ceiling
		}
		t.buffer, t.hold = true, min(max(t.hold, most), ceiling)
	}
}

// ask has a filter ask for another mode.
func (l *lane) ask(t *terms, f *bodyScript, w Wish) {
	t.ask(w, l.ceiling)
	l.holders[f] = l.holders[f] || f.holds(w)
}

// holds reports whether a body is held back for a filter that wants such a mode.
func (s *bodyScript) holds(w Wish) bool { return w.Mode == Buffer && s.wish.Access != None }

// ask has the terms become stricter for one body. A body that is held anyway keeps its limit.
func (t *terms) ask(w Wish, ceiling int) {
	if w.Mode != Buffer || !t.fixed {
		t.wish(w, ceiling)
	}
}

// refusedAtOnce reports whether the declared length alone is too much.
func (l *lane) refusedAtOnce(t terms) bool {
	return l.declared && (len(l.body) > t.total || t.whole < len(l.filters) && len(l.body) > t.hold)
}

// made returns what the filters before a place make of a beginning of the body, or of all of it.
func (l *lane) made(to int, body []byte, end bool) []byte {
	for _, f := range l.filters[:to] {
		if f.wish.Access != None {
			body = f.made(body, end)
		}
	}
	return body
}

// reached returns after how many bytes of the body filter i has seen so many that at is reached, noPlace if it doesn't.
func (l *lane) reached(i, at int) int {
	if at > l.filters[i].doneAt || at == noPlace {
		return noPlace
	}
	return l.comes(i, at)
}

// comes returns after how many bytes of the body as many have come to filter i: noPlace if they don't.
func (l *lane) comes(i, at int) int {
	n := sort.Search(len(l.body)+1, func(n int) bool { return len(l.made(i, l.body[:n], false)) >= at })
	if n <= len(l.body) {
		return n
	}
	if len(l.made(i, l.body, true)) >= at {
		return l.end()
	}
	return noPlace
}

// agrees returns after how many bytes of the body filter i doesn't need it held back any more.
func (l *lane) agrees(i int) int {
	f := l.filters[i]
	switch {
	case f.fault != sound:
		return noPlace
	case f.doneAt > 0:
		return min(l.reached(i, f.releaseAt), l.reached(i, f.doneAt))
	}
	return min(l.comes(i, 1), l.end())
}

// released returns after how many bytes of the body all agree that it needn't be held back: noPlace if one doesn't, or if
// there is nobody to release it.
func (l *lane) released() int {
	last := -1
	for i, f := range l.filters {
		if l.holders[f] {
			last = max(last, l.agrees(i))
		}
	}
	if last < 0 {
		return noPlace
	}
	return last
}

// end is the place of what happens only when the end is there, which may be later than the last byte.
func (l *lane) end() int { return len(l.body) + 1 }

// verdict works out what becomes of the body on such terms.
func (l *lane) verdict(t terms) verdict {
	v := verdict{out: l.made(len(l.filters), l.body, true), may: make(map[int]bool)}
	refused, grows := noPlace, false
	fail := func(status, at int) { v.may[status], v.must, refused = true, true, min(refused, at) }
	for i, f := range l.filters {
		if f.wish.Access == None {
			continue
		}
		v.writes = v.writes || f.wish.Access == ReadWrite
		v.changes = v.changes || f.writes()
		switch {
		case f.fault == panics, f.fault != sound && !f.open:
			fail(http.StatusInternalServerError, min(l.comes(i, 1), l.end()))
		case f.fault == sound:
			if at := l.reached(i, f.refuseAt); at != noPlace {
				fail(f.refusal, at)
			}
			grows = grows || f.writes() && (f.kind == doubles || f.kind == appends)
		}
	}
	l.limit(&v, t, refused, grows)
	return v
}

// limit adds to a verdict what becomes of the body because of the limits.
func (l *lane) limit(v *verdict, t terms, refused int, grows bool) {
	planned := t
	for _, f := range l.filters {
		if l.fresh(f) {
			l.ask(&t, f, l.first)
		}
	}
	released := l.released()
	// What is asked for when the first piece is there counts from the second one.
	late := t != planned
	if t.whole < len(l.filters) || !t.buffer || min(released, len(l.body)) > t.hold && !late {
		released = noPlace
	}
	if l.budget && t.buffer {
		v.may[http.StatusServiceUnavailable] = true
	}
	over := t.buffer && (len(l.body) > t.hold || len(l.made(t.whole, l.body, true)) > t.hold || len(v.out) > t.hold)
	switch {
	case len(l.body) > t.total, over && released == noPlace && !(late && planned.buffer):
		v.may[l.tooLarge], v.must = true, true
	case t.buffer && (grows || late):
		// It depends on the cut how much is held when the body is released.
		v.may[l.tooLarge] = true
	}
	v.released = t.buffer && released != noPlace
	v.held = t.buffer && (!v.released || refused <= released)
}
