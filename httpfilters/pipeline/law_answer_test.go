package pipeline

import (
	"bytes"
	"net/http"
	"slices"
)

// requestLaw is what may become of a request on its way to the next handler.
type requestLaw struct {
	verdict
	// early are the statuses with which the client may be answered before the next handler is called, mustEarly says that
	// it isn't called. late are those with which it may be answered because the body fails while that handler reads.
	early, late map[int]bool
	mustEarly   bool
	// lengths are what the next handler may find as the length of the body, -1 for a chunked one.
	lengths map[int64]bool
	// touched says that the header of a changed body must say nothing of its bytes, intact that it must say what it said.
	touched, intact bool
}

// request works out what becomes of the request.
func (w *world) request() *requestLaw {
	l := w.lane(toNext, 0)
	t := l.planned()
	r := &requestLaw{early: make(map[int]bool), lengths: make(map[int64]bool), late: make(map[int]bool)}
	if t.idle() {
		r.out, r.intact = l.body, true
		r.lengths[l.length()] = true
		r.hooks(w, l, nil)
		return r
	}
	if l.refusedAtOnce(t) {
		r.refuse(l.tooLarge)
		return r
	}
	// An empty body is complete when its header is there.
	empty := l.declared && len(l.body) == 0
	if t.buffer || empty {
		r.body(l, t, true, empty)
		if r.mustEarly {
			return r
		}
		asked := t
		r.hooks(w, l, &asked)
		r.ask(l, asked)
		return r
	}
	r.hooks(w, l, &t)
	switch {
	case r.mustEarly:
	case l.refusedAtOnce(t):
		r.refuse(l.tooLarge)
	default:
		r.body(l, t, t.buffer, false)
	}
	return r
}

// ask has the terms be others for a body that was held back when filters for the header asked for them.
func (r *requestLaw) ask(l *lane, t terms) {
	switch {
	case r.mustEarly || len(l.body) <= t.total:
	case l.declared || !r.released:
		r.refuse(l.tooLarge)
	default: // nobody knows how much of it is read when they ask
		r.early[l.tooLarge], r.late[l.tooLarge], r.must = true, true, true
	}
}

// hooks has the filters see the header. t is nil if they can't ask for other terms.
func (r *requestLaw) hooks(w *world, l *lane, t *terms) {
	for _, m := range w.order(toNext) {
		if m.skipped {
			continue
		}
		if t != nil {
			l.ask(t, &m.body[toNext], m.header[toNext].asks)
		}
		if status := m.fails(toNext); status != 0 {
			r.refuse(status)
			return
		}
	}
}

// refuse has the request refused for certain.
func (r *requestLaw) refuse(status int) { r.early[status], r.mustEarly = true, true }

// body has the filters see the body. holds says that it is held back before the next handler is called.
func (r *requestLaw) body(l *lane, t terms, holds, empty bool) {
	r.verdict = l.verdict(t)
	r.held, r.released = r.held || empty, r.released && !empty
	for status := range r.may {
		r.early[status] = r.early[status] || holds
		r.late[status] = !holds || !r.held
	}
	if r.must && holds && r.held {
		r.mustEarly = true
	}
	r.touched, r.intact = r.changes && holds && !r.released, !r.writes
	final := int64(len(r.out))
	if !r.changes && l.declared {
		final = int64(len(l.body))
	}
	switch {
	case !r.writes && l.declared:
		r.lengths[final] = true
	case holds:
		r.lengths[final] = true
		r.lengths[-1] = r.released
	default:
		r.lengths[-1] = true
	}
}

// length returns the length of the body that its header says.
func (l *lane) length() int64 {
	if l.declared {
		return int64(len(l.body))
	}
	return -1
}

// responseLaw is what may become of a response on its way to the client.
type responseLaw struct {
	verdict
	// status is the status of the response, as filters leave it.
	status int
	// refused are the statuses with which the client may be answered in its place, mustRefuse says that it is.
	refused    map[int]bool
	mustRefuse bool
	// torn says that the connection may end within the response, mustTear that it does, unless the response is refused.
	torn bool
	// lengths are what the client may find as the length of the body, -1 for none.
	lengths map[int64]bool
	// touched and intact are as in requestLaw.
	touched, intact bool
}

// response works out what becomes of the response.
func (w *world) response() *responseLaw {
	r := &responseLaw{status: w.status, refused: make(map[int]bool), lengths: make(map[int64]bool)}
	l := w.lane(toClient, w.status)
	t := l.planned()
	content := bodyAllowed(w.method, w.status)
	open := content && w.opens()
	r.hooks(w, l, &t, open)
	piped := open && !t.idle()
	switch {
	case r.mustRefuse:
	case !content || !bodyAllowed(w.method, r.status):
		r.empty(w, content)
	case !piped:
		r.straight(w, l)
	case l.refusedAtOnce(t):
		r.refused[l.tooLarge], r.mustRefuse = true, true
	default:
		r.body(l, t)
		if w.breaks() {
			r.broken(t)
		}
	}
	return r
}

// opens reports whether filters can ask for a mode for the body of the response: it isn't known yet which of them it
// matters to.
func (w *world) opens() bool {
	return slices.ContainsFunc(w.members, func(m member) bool {
		wish := m.body[toClient].wish
		return !m.skipped && (wish.Access != None || wish.Mode != Stream)
	})
}

// straight is for a body that filters don't look at.
func (r *responseLaw) straight(w *world, l *lane) {
	r.out, r.intact = bytes.Join(w.answered(), nil), true
	r.torn = l.declared && len(r.out) < len(l.body)
	r.must = r.torn
	r.lengths[int64(len(r.out))] = true
	r.lengths[-1] = !l.declared
}

// broken is for a body that filters look at, of which the handler writes some and fails. Nobody must take it for complete.
func (r *responseLaw) broken(t terms) {
	r.must = true
	r.refused[statusBroken] = t.buffer
	r.mustRefuse = r.mustRefuse || t.buffer && !r.released
	r.torn = r.torn || !t.buffer || r.released
}

// beside has somebody read the body of the request meanwhile, who may find that it fails.
func (r *responseLaw) beside(q *requestLaw) {
	for status, may := range q.late {
		r.refused[status] = r.refused[status] || may
		r.torn = r.torn || may
	}
}

// hooks has the filters see the header.
func (r *responseLaw) hooks(w *world, l *lane, t *terms, open bool) {
	for _, m := range w.order(toClient) {
		if !m.applies(r.status) {
			continue
		}
		s := &m.header[toClient]
		if open {
			l.ask(t, &m.body[toClient], s.asks)
		}
		if status := m.fails(toClient); status != 0 {
			r.refused[status], r.mustRefuse = true, true
			return
		}
		if s.status != 0 {
			r.status = s.status
		}
	}
}

// empty is for a response without a body. The answer to HEAD has the length that the body would have, if it is known.
func (r *responseLaw) empty(w *world, content bool) {
	r.lengths[-1], r.lengths[0] = true, w.method != http.MethodHead
	if w.method != http.MethodHead && w.status != http.StatusNotModified {
		r.intact = !content
		return
	}
	r.intact = true
	for _, m := range w.members {
		if !m.skipped && m.body[toClient].wish.Access == ReadWrite {
			r.intact = false
			return
		}
	}
	r.lengths[int64(len(w.bodies[toClient]))] = true
	if w.breaks() { // Go's server takes the length from what is written
		r.lengths[int64(len(bytes.Join(w.answered(), nil)))] = true
	}
}

// body has the filters see the body.
func (r *responseLaw) body(l *lane, t terms) {
	if !t.buffer { // the header is gone when the first filter sees some of the body
		l.first = Wish{}
	}
	r.verdict = l.verdict(t)
	for status := range r.may {
		r.refused[status] = t.buffer
	}
	r.torn = len(r.may) > 0 && (!t.buffer || !r.held)
	r.mustRefuse = r.must && t.buffer && r.held
	r.touched, r.intact = r.changes && t.buffer && !r.released, !r.writes
	final := int64(len(r.out))
	switch {
	case !r.writes && l.declared:
		r.lengths[l.length()] = true
	case t.buffer && !r.released && (!l.declared || r.changes):
		r.lengths[final] = true
	default:
		// Go's server adds the length of a short response itself.
		r.lengths[final], r.lengths[-1] = true, true
	}
}

// bodyAllowed reports whether a response has a body.
func bodyAllowed(method string, status int) bool {
	return method != http.MethodHead && status != http.StatusNoContent && status != http.StatusNotModified
}
