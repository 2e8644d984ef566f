package forward

import (
	"net"
	"time"

	"github.com/mholt/caddy-l4/layer4"
	"go.uber.org/zap"

	"github.com/caddy-sluice/sluice/internal/lifetime"
	"github.com/caddy-sluice/sluice/internal/relay"
	"github.com/caddy-sluice/sluice/internal/replay"
	"github.com/caddy-sluice/sluice/modules/session"
)

// endReasons says what the end of a relay means for the session. One that was stopped from outside has its reason
// already.
var endReasons = map[relay.End]session.CloseReason{
	relay.Completed:      session.Completed,
	relay.ReplayFailed:   session.ReplayFailure,
	relay.ClientAborted:  session.ClientGone,
	relay.BackendAborted: session.Error,
	relay.Stopped:        session.Shutdown,
}

// expiryReasons says what a limit that has passed means for the session.
var expiryReasons = map[lifetime.Expiry]session.CloseReason{
	lifetime.Idle:      session.IdleTimeout,
	lifetime.Session:   session.SessionTimeout,
	lifetime.Max:       session.MaxDuration,
	lifetime.HalfClose: session.HalfCloseTimeout,
}

// transfer is a connection being relayed, or about to be.
type transfer struct {
	relay.Relay
	clock clock
	start time.Time
	// completed says that both sides were done.
	completed bool
	// broken is the error with which the upstream has broken the connection before it has said anything.
	broken error
}

// prepare fills the transfer between a client and its upstream, and starts its clock. It is not for the handler's own
// goroutine: what it allocates needs stack.
func (h *Handler) prepare(cx *layer4.Connection, sess *session.Session, t *transfer, upstream net.Conn) {
	t.start = time.Now()
	t.Backend = upstream
	t.Client, t.Prefix = peel(cx)
	t.ClientSocket = bottom(cx.Conn)
	t.OnHalfClose = t.clock.halfClosed
	t.clock.begin(&t.Relay, h.limits)
	sess.OnMoved(t.moved)
	sess.OnStop(t.Stop)
}

// close gives back what the transfer holds. It is called at the session's end, which also passes on the last end of a
// stream.
func (t *transfer) close() {
	t.clock.end()
	_ = t.Backend.Close()
}

// moved returns the bytes delivered so far.
func (t *transfer) moved() (in, out int64) { return t.Sent(), t.Received() }

// relay moves bytes until the end. While it does, this and Handle are all that lies on the stack.
func (h *Handler) relay(sess *session.Session, t *transfer) {
	end, err := t.Run()
	h.ended(sess, t, end, err)
}

// ended writes into the session what became of the transfer.
func (h *Handler) ended(sess *session.Session, t *transfer, end relay.End, err error) {
	sess.End(t.reason(end))
	t.completed = end == relay.Completed
	if t.Received() == 0 && (end == relay.BackendAborted || end == relay.ReplayFailed) {
		t.broken = err
	}
	sess.Set(func() {
		sess.BytesIn, sess.BytesOut = t.moved()
		sess.RelayTime = time.Since(t.start)
	})
	sess.OnMoved(nil)
	sess.OnStop(nil)
	if end == relay.Stopped && isCut(sess.CloseReason()) {
		t.Reset()
	}
	if h.logger.Core().Enabled(zap.DebugLevel) {
		h.logEnd(sess, err)
	}
}

// reason says what the end of the relay means for the session.
func (t *transfer) reason(end relay.End) session.CloseReason {
	expired := t.clock.end()
	if end == relay.Stopped && expired != lifetime.None {
		return expiryReasons[expired]
	}
	return endReasons[end]
}

// isCut says whether a connection that was stopped for this reason may have been in the middle of something: then the
// end must not look like one that the other side has made.
func isCut(reason session.CloseReason) bool {
	return reason != session.IdleTimeout && reason != session.HalfCloseTimeout
}

// logEnd writes what became of the connection, for those who debug. It is a function of its own, and called only if
// the line is wanted, because its arguments need more stack than all the rest.
func (h *Handler) logEnd(sess *session.Session, err error) {
	if entry := h.logger.Check(zap.DebugLevel, "connection ended"); entry != nil {
		entry.Write(zap.String("remote", sess.Client.String()), zap.String("upstream", sess.Upstream),
			zap.Stringer("reason", sess.CloseReason()), zap.Duration("duration", sess.RelayTime),
			zap.Int64("bytes_in", sess.BytesIn), zap.Int64("bytes_out", sess.BytesOut), zap.Error(err))
	}
}

// peel returns the connection inside cx with the bytes that were read of it already, so that the relay works on the
// socket itself if nothing else is in between.
func peel(cx *layer4.Connection) (net.Conn, []byte) {
	prefix := append([]byte(nil), cx.MatchingBytes()...)
	if conn, ok := cx.Conn.(*replay.Conn); ok {
		prefix = append(prefix, conn.Take()...)
	}
	return cx.Conn, prefix
}

// bottom returns the connection at the bottom of all wrappers: the socket. It is good for signals, not for data.
func bottom(conn net.Conn) net.Conn {
	for {
		inner := beneath(conn)
		if inner == nil {
			return conn
		}
		conn = inner
	}
}

// beneath returns the connection that conn wraps; nil if it wraps none, or does not show it.
func beneath(conn net.Conn) net.Conn {
	switch c := conn.(type) {
	case *layer4.Connection:
		return c.Conn
	case *replay.Conn:
		return c.Conn
	case interface{ NetConn() net.Conn }:
		return c.NetConn()
	}
	return nil
}
