package session

import (
	"runtime/debug"
	"slices"

	"github.com/caddyserver/caddy/v2"
	"github.com/mholt/caddy-l4/layer4"
	"go.uber.org/zap"
)

// Enter returns the session of cx for a handler, which must defer Leave. The session lives, and is on the list, from
// the first handler that enters to the last that leaves; if the connection was handed over, until that is closed.
func Enter(cx *layer4.Connection) *Session {
	s := Of(cx)
	s.follow(cx)
	if s.depth == 0 {
		s.Set(func() { s.unwound = false })
		live().add(s)
	}
	s.depth++
	return s
}

// Inside returns the session of a connection that a handler of ours in front has entered; nil if there is none. A filter
// in that place need not enter again: what becomes of a panic, and of the session's end, is the business of the one in
// front. It saves stack, of which an idle connection keeps what its handlers take.
func Inside(cx *layer4.Connection) *Session {
	if s, ok := cx.GetVar(varName).(*Session); ok && s.depth > 0 {
		s.follow(cx)
		return s
	}
	return nil
}

// follow takes the client's address over from the connection: a handler that is not ours may have read a PROXY header.
func (s *Session) follow(cx *layer4.Connection) {
	if client := cx.RemoteAddr(); client != nil && client != s.remote {
		s.remote = client
		s.Set(func() { s.Client = client })
	}
}

// First is Handle for a handler that is the first of a connection's: it enters and leaves around the handler.
func First(cx *layer4.Connection, handler layer4.NextHandler, next layer4.Handler, logger *zap.Logger) error {
	s := Enter(cx)
	defer s.Leave(logger)
	return handler.Handle(cx, next)
}

// Leave tells that a handler is done with the connection. It must be deferred directly: if the handler panics, it ends
// the session with reason internal. A fault in one connection must never take the process and all other connections
// with it.
func (s *Session) Leave(logger *zap.Logger) {
	if p := recover(); p != nil {
		s.End(Internal)
		s.Handover()
		logger.Error("recovered from a panic while handling a connection",
			zap.Any("panic", p), zap.ByteString("stack", debug.Stack()))
	}
	s.depth--
	if s.depth > 0 {
		return
	}
	s.Handover()
	if s.isOver() {
		s.finish()
	}
}

// isOver notes that no handler has the connection, and says whether nobody else has it either.
func (s *Session) isOver() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.unwound = true
	return s.end != HandedOver || s.gone
}

// Closed is called once, when a connection that was handed over is closed, from whichever goroutine closes it. in and
// out are the bytes read from it and written to it.
func (s *Session) Closed(in, out int64) {
	if s.isGone(in, out) {
		s.finish()
	}
}

// isGone notes that the connection is closed, and says whether no handler has it either. If it was stopped just when it
// was about to be handed over, the last handler has ended the session, and there is nothing left to say.
func (s *Session) isGone(in, out int64) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.unwound && s.end != HandedOver {
		return false
	}
	s.BytesIn, s.BytesOut, s.gone = in, out, true
	return s.unwound
}

// OnEnd sets f to be called when the session ends, by whoever ends it. What was set last is called first. Permits are
// given back like this, and the access log writes its line.
func (s *Session) OnEnd(f func()) {
	if s.onEnd == nil {
		s.onEnd = make([]func(), 0, usualEnds)
	}
	s.onEnd = append(s.onEnd, f)
}

// usualEnds is how many things there are to do at the end of a session with all of our filters: the access log and the
// permits of the process, the listener, the source and the upstream.
const usualEnds = 5

// finish does what was left to be done at the session's end.
func (s *Session) finish() {
	for _, f := range slices.Backward(s.onEnd) {
		guarded(f)
	}
	// Permits were given back: if another route has handlers of ours, the session goes on and needs new ones.
	s.onEnd, s.Admitted = nil, false
	metrics.closed(s)
	live().remove(s)
}

// guarded calls f and keeps a panic in it from going further.
func guarded(f func()) {
	defer func() {
		if p := recover(); p != nil {
			caddy.Log().Named("sluice.session").Error("recovered from a panic at the end of a connection",
				zap.Any("panic", p), zap.ByteString("stack", debug.Stack()))
		}
	}()
	f()
}

// OnStop sets how the connection is stopped from outside, in place of closing it: while it is being relayed, for
// example. nil goes back to that. f must not block. If the session was stopped already, f is called at once.
func (s *Session) OnStop(f func()) {
	s.mu.Lock()
	s.stop = f
	stopped := s.end.stops()
	s.mu.Unlock()
	if stopped && f != nil {
		f()
	}
}

// Stop ends the connection from outside, for a reason such as killed or shutdown. It returns at once; the handlers go
// through their usual end. It reports whether the connection was not ending already. One that was handed over
// keeps that reason and is closed.
func (s *Session) Stop(r CloseReason) bool {
	s.mu.Lock()
	handed := s.end == HandedOver && !s.gone
	stopping := s.end == Open || handed
	if s.end == Open {
		s.end = r
	}
	stop := s.stop
	s.mu.Unlock()
	if !stopping {
		return false
	}
	if stop == nil {
		_ = s.conn.Close()
		return true
	}
	stop()
	return true
}

// OnMoved sets f to tell how many bytes were delivered to the upstream and to the client so far. nil says that BytesIn
// and BytesOut do.
func (s *Session) OnMoved(f func() (in, out int64)) { s.Set(func() { s.moved = f }) }
