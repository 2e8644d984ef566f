package pipeline

import (
	"bytes"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
)

// The directions.
const (
	toNext = iota
	toClient
)

// member is a filter of the laws.
type member struct {
	// skipped says that its condition doesn't hold, successful that it is only for answers with a status of 2xx.
	skipped, successful, open bool
	body                      [2]bodyScript
	header                    [2]hookScript
}

// world is a request, its answer, the filters that both pass and the limits.
type world struct {
	members  []member
	ceilings [2]int
	// budget is the most that bodies may hold, 0 for no limit.
	budget int64

	method string
	bodies [2][]byte
	cuts   [2][]byte
	// declared says whose length is declared, trailers that the request has some.
	declared [2]bool
	trailers bool
	// status is what the next handler answers with. It reads the body, unless ignores is set; flushes and copies say how
	// it writes, and quits how it ends when it can't.
	status                   int
	ignores, flushes, copies bool
	quits                    int
	// aside says whether somebody else reads the body while the handler answers.
	aside asideness
	// breaksAfter is how many pieces of its answer it writes before it fails, plus 1; 0 is not to fail.
	breaksAfter int
}

// asideness says how a body is read aside.
type asideness uint8

const (
	notAside asideness = iota
	// asideAwaited is that the handler returns when the body was read, asideLeft that it doesn't wait.
	asideAwaited
	asideLeft
)

// tape makes decisions from bytes. When it has run out all are 0.
type tape struct{ b []byte }

// below takes a number below n.
func (t *tape) below(n int) int {
	if len(t.b) == 0 {
		return 0
	}
	v := int(t.b[0])
	t.b = t.b[1:]
	return v % n
}

// rarely is true once in n times, never when the tape has run out.
func (t *tape) rarely(n int) bool { return t.below(n) == n-1 }

// place takes a place in a body, most often none.
func (t *tape) place() int {
	if at := t.below(120); at > 0 && at < 60 {
		return at
	}
	return noPlace
}

// wish takes a mode and its limit.
func (t *tape) wish() Wish {
	w := Wish{Mode: Mode(t.below(3))}
	switch w.Mode {
	case SizeLimit:
		w.Max = int64(t.below(200)) + 1
	case Buffer:
		if w.Max = int64(t.below(150)); w.Max >= 100 {
			w.Max = 0
		}
	}
	return w
}

// script takes what a filter does with a body.
func (t *tape) script(refusal int, open bool) bodyScript {
	s := bodyScript{
		wish: t.wish(), kind: lawKind(t.below(int(lawKinds))), releaseAt: t.place(), refuseAt: noPlace, refusal: refusal,
		doneAt: noPlace, open: open,
	}
	s.wish.Access = Access(t.below(3))
	s.wish.Whole = s.wish.Mode == Buffer && t.rarely(3)
	switch t.below(12) {
	case 11:
		s.refuseAt = t.place()
	case 10, 9:
		s.doneAt = t.below(60)
	case 8:
		s.fault = lawFault(t.below(int(lawFaults)))
	case 7:
		s.asks = t.wish()
	}
	return s
}

// hook takes what a filter does with a header.
func (t *tape) hook(refusal int) (s hookScript) {
	switch t.below(24) {
	case 23:
		s.refusal = refusal
	case 22:
		s.fault = []lawFault{breaks, panics}[t.below(2)]
	case 21, 20, 19:
		s.asks = t.wish()
	case 18:
		s.status = []int{202, 404, 204}[t.below(3)]
	}
	return s
}

// world takes a world. What is left of the tape is the body of the request.
func (t *tape) world() *world {
	w := &world{
		ceilings: [2]int{t.below(120) + 1, t.below(120) + 1},
		method:   []string{"POST", "POST", "GET", "HEAD"}[t.below(4)],
		declared: [2]bool{!t.rarely(2), !t.rarely(2)},
		status:   []int{200, 200, 200, 503, 204, 304}[t.below(6)],
		ignores:  t.rarely(8), flushes: t.rarely(3), copies: t.rarely(3), quits: t.below(3),
	}
	w.trailers = !w.declared[toNext] && t.rarely(3)
	if t.rarely(6) && !w.ignores {
		w.aside = []asideness{asideAwaited, asideLeft}[t.below(2)]
	}
	if t.rarely(6) {
		w.breaksAfter = t.below(5) + 1
	}
	if t.rarely(8) {
		w.budget = int64(t.below(4)+1) * 300
	}
	for i := range t.below(4) + 1 {
		m := member{skipped: t.rarely(6), successful: t.rarely(6), open: t.rarely(2)}
		for direction := range 2 {
			m.body[direction] = t.script(420+10*direction+i, m.open)
			if wish := &m.body[direction].wish; wish.Mode == Buffer { // more is refused at load
				wish.Max = min(wish.Max, int64(w.ceilings[direction]))
			}
			m.header[direction] = t.hook(440 + 10*direction + i)
		}
		m.header[toNext].status = 0
		w.members = append(w.members, m)
	}
	for direction := range w.cuts {
		for range t.below(5) {
			w.cuts[direction] = append(w.cuts[direction], byte(t.below(40)))
		}
	}
	w.bodies[toClient] = t.bytes(t.below(150))
	w.bodies[toNext] = t.bytes(150)
	if t.rarely(8) { // so much that buffers are exchanged
		w.enlarge(60)
	}
	return w
}

// count counts the kinds of worlds that must not be missing.
func (w *world) count(kinds map[string]int) {
	for direction := range w.bodies {
		l := w.lane(direction, w.status)
		t := l.planned()
		holders, agreed := 0, 0
		for i, f := range l.filters {
			if l.holders[f] {
				holders++
			}
			if l.holders[f] && l.agrees(i) < len(l.body) {
				agreed++
			}
		}
		switch {
		case t.whole < len(l.filters) || holders < 2:
		case agreed == holders:
			kinds["all of several release"]++
		case agreed > 0:
			kinds["one of several releases"]++
		}
	}
	if w.breaks() {
		kinds["fails in the middle"]++
	}
	if w.aside != notAside {
		kinds["is read aside"]++
	}
}

// bytes takes up to n bytes.
func (t *tape) bytes(n int) []byte {
	n = min(n, len(t.b))
	b := bytes.Clone(t.b[:n])
	t.b = t.b[n:]
	return b
}

// enlarge makes bodies and limits larger.
func (w *world) enlarge(times int) {
	for direction := range w.bodies {
		w.bodies[direction] = bytes.Repeat(w.bodies[direction], times)
		w.ceilings[direction] *= times
		for i, cut := range w.cuts[direction] {
			w.cuts[direction][i] = cut | 0x80 // pieces makes them larger too
		}
	}
}

// pieces cuts a body as the cuts say. What is behind the last one is one piece.
func pieces(body, cuts []byte) [][]byte {
	var all [][]byte
	for _, cut := range cuts {
		size := int(cut)
		if size >= 0x80 {
			size = (size - 0x80) * 200
		}
		size = min(size, len(body))
		all, body = append(all, body[:size]), body[size:]
	}
	return append(all, body)
}

func (w *world) String() string {
	s := fmt.Sprintf("%s %q cut %v, declared %v, trailers %v, limits %v, budget %d, answer %d %q cut %v, flushes %v, copies %v, ignores %v, quits %d, aside %d, breaks after %d",
		w.method, w.bodies[toNext], w.cuts[toNext], w.declared, w.trailers, w.ceilings, w.budget, w.status, w.bodies[toClient],
		w.cuts[toClient], w.flushes, w.copies, w.ignores, w.quits, w.aside, w.breaksAfter-1)
	for i, m := range w.members {
		s += fmt.Sprintf("\nfilter %d: skipped %v, successful %v, open %v", i, m.skipped, m.successful, m.open)
		for direction, b := range m.body {
			s += fmt.Sprintf("\n\tdirection %d: %+v, header %+v", direction, b, m.header[direction])
		}
	}
	return strings.ReplaceAll(s, fmt.Sprint(noPlace), "never")
}

// applies reports whether a filter takes part in an answer with a status.
func (m *member) applies(status int) bool {
	return !m.skipped && (!m.successful || status/100 == 2)
}

// fails returns the status with which a filter ends the request when it sees a header, 0 if it doesn't.
func (m *member) fails(direction int) int {
	switch s := m.header[direction]; {
	case s.refusal != 0:
		return s.refusal
	case s.fault == panics, s.fault == breaks && !m.open:
		return http.StatusInternalServerError
	}
	return 0
}

// order returns the filters in the order of a direction.
func (w *world) order(direction int) []*member {
	var list []*member
	for i := range w.members {
		list = append(list, &w.members[i])
	}
	if direction == toClient {
		slices.Reverse(list)
	}
	return list
}

// lane returns the lane of a direction, for an answer with a status.
func (w *world) lane(direction, status int) *lane {
	l := &lane{
		ceiling: w.ceilings[direction], body: w.bodies[direction], declared: w.declared[direction], budget: w.budget > 0,
		tooLarge: []int{http.StatusRequestEntityTooLarge, http.StatusBadGateway}[direction],
	}
	for _, m := range w.order(direction) {
		if m.skipped || direction == toClient && !m.applies(status) {
			continue
		}
		l.filters = append(l.filters, &m.body[direction])
		if s := m.header[toClient].status; direction == toClient && s != 0 && m.fails(toClient) == 0 {
			status = s // each looks at the answer as it comes to it
		}
	}
	for _, f := range l.filters {
		// Only the first one is asked for certain before anything goes on.
		if f.wish.Access != None {
			l.first = f.asks
			break
		}
	}
	return l
}

// fresh says that a filter is the first in a direction that looks at bodies.
func (l *lane) fresh(f *bodyScript) bool {
	for _, other := range l.filters {
		if other.wish.Access != None {
			return other == f
		}
	}
	return false
}

// statusMatcher matches answers with a status of 2xx.
var statusMatcher = []caddyhttp.ResponseMatcher{{StatusCode: []int{2}}}
