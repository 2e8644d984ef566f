package forward

import (
	"context"
	"errors"
	"net"
	"time"

	"github.com/mholt/caddy-l4/layer4"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/caddy-sluice/sluice/internal/guarddial"
	"github.com/caddy-sluice/sluice/internal/linger"
	"github.com/caddy-sluice/sluice/internal/netguard"
	"github.com/caddy-sluice/sluice/internal/offstack"
	"github.com/caddy-sluice/sluice/internal/preread"
	"github.com/caddy-sluice/sluice/modules/session"
)

// errGivenUp is the error of a connect that went well, but for a session that had ended meanwhile.
var errGivenUp = errors.New("the session has ended")

// permit takes a permit for the client's connection, which is given back at the session's end. A client that has as
// many as it may gets the end of the stream, not a reset, and not a byte.
func (h *Handler) permit(cx *layer4.Connection, sess *session.Session) bool {
	if h.perClient <= 0 || h.app.TakeSource(sess, h.scope, h.perClient, h.prefix6) {
		return true
	}
	sess.End(session.ClusterLimit)
	h.limited.Inc()
	if entry := h.logger.Check(zap.DebugLevel, "client has too many connections"); entry != nil {
		entry.Write(zap.Stringer("remote", sess.Client), zap.String("scope", h.scope))
	}
	linger.End(bottom(cx.Conn), nil)
	return false
}

// connect connects to the upstream and says in the session how that went. It returns nil if it went wrong, or if the
// connection is not to get there.
func (h *Handler) connect(cx *layer4.Connection, sess *session.Session) (t *transfer) {
	if !h.app.Admit(sess) || sess.CloseReason() != session.Open {
		return nil
	}
	if sess.Reason != preread.None && !sess.Routed {
		h.reject(sess)
		return nil
	}
	offstack.Call(func() {
		_ = makeRoom(0)
		t = h.depart(cx, sess)
	})
	return t
}

// reject ends a connection that no route wants.
func (h *Handler) reject(sess *session.Session) {
	sess.Reject()
	if entry := h.logger.Check(zap.DebugLevel, "rejected connection"); entry != nil {
		entry.Write(zap.Stringer("remote", sess.Client), zap.Stringer("listener", sess.Listener),
			zap.Stringer("reason", sess.Reason), zap.Duration("duration", sess.PrereadTime))
	}
}

// depart finds out where the connection is to go, and whether it may, and connects. It runs on a goroutine of its own.
func (h *Handler) depart(cx *layer4.Connection, sess *session.Session) *transfer {
	if h.cluster != nil {
		sess.Set(func() { sess.Cluster = h.Cluster })
		if !h.permit(cx, sess) {
			return nil
		}
		return h.beginLeased(cx, sess)
	}
	to := h.target
	if to == nil {
		to = h.choose(cx, sess)
	}
	if to == nil || !h.permit(cx, sess) {
		return nil
	}
	return h.begin(cx, sess, to)
}

// begin connects to an address and makes the transfer.
func (h *Handler) begin(cx *layer4.Connection, sess *session.Session, to *target) *transfer {
	sess.Set(func() { sess.Upstream, sess.Attempts = to.text, 1 })
	conn, err := h.open(cx, sess, func(ctx context.Context) (net.Conn, error) { return h.reach(ctx, cx, to) })
	if err != nil {
		h.failed(sess, to.trusted, err)
		return nil
	}
	t := new(transfer)
	h.prepare(cx, sess, t, conn)
	sess.OnEnd(t.close)
	sess.Handover()
	return t
}

// dialStack is the stack that resolving and connecting need, in bytes, rounded up.
const dialStack = 5 << 10

// makeRoom has the stack grow at once, while there is next to nothing on it. Else it would be copied with each doubling,
// at a depth at which that costs more than the system calls that it is for.
//
//go:noinline
func makeRoom(i int) byte {
	var room [dialStack]byte
	return room[i]
}

// open returns a connection that connect makes, which has as much time as all attempts together. From here until the relay
// begins, to stop the session means to give up.
func (h *Handler) open(
	cx *layer4.Connection, sess *session.Session, connect func(context.Context) (net.Conn, error),
) (net.Conn, error) {
	start := time.Now()
	conn, err := h.watched(cx, sess, connect)
	sess.Set(func() { sess.ConnectTime = time.Since(start) })
	if err == nil && sess.CloseReason() != session.Open {
		_, err = conn.Close(), errGivenUp
	}
	if err != nil {
		sess.OnStop(nil)
		return nil, err
	}
	return conn, nil
}

// watched calls connect, and cancels it if the session is stopped or the client is gone.
func (h *Handler) watched(
	cx *layer4.Connection, sess *session.Session, connect func(context.Context) (net.Conn, error),
) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(context.Background(), h.connectTimeout)
	defer cancel()
	sess.OnStop(cancel)
	client := bottom(cx.Conn)
	departure := watchDeparture(client, func() {
		sess.End(session.ClientGone)
		cancel()
	})
	defer departure.stop()
	if h.KeepAlive != 0 || h.UserTimeout != 0 {
		// A client that is gone already is noticed by the relay.
		_ = h.dialer.KeepAlive.Apply(client)
	}
	return connect(ctx)
}

// reach returns a connection to the upstream on which nothing is left to do before the client's bytes.
func (h *Handler) reach(ctx context.Context, cx *layer4.Connection, to *target) (net.Conn, error) {
	conn, err := h.dial(ctx, to)
	if err != nil {
		return nil, err
	}
	return h.introduced(ctx, cx, conn, to.host)
}

// dial connects to the upstream's socket.
func (h *Handler) dial(ctx context.Context, to *target) (net.Conn, error) {
	if to.path == "" {
		return h.dialer.Dial(ctx, to.host, to.port, to.trusted)
	}
	var d net.Dialer
	return d.DialContext(ctx, "unix", to.path)
}

// introduced returns a connection on which the upstream has been told who the client is, if it is to be told, and with
// which TLS has been agreed on, if that is wanted. If that fails it closes conn.
func (h *Handler) introduced(ctx context.Context, cx *layer4.Connection, conn net.Conn, host string) (net.Conn, error) {
	secured, err := h.introduce(ctx, cx, conn, host)
	if err != nil {
		_ = conn.Close()
		return nil, err
	}
	return secured, nil
}

// introduce sends the PROXY header, and then goes over to TLS.
func (h *Handler) introduce(ctx context.Context, cx *layer4.Connection, conn net.Conn, host string) (net.Conn, error) {
	if h.ProxyProtocol != "" {
		if err := h.sendHeader(ctx, cx, conn); err != nil {
			return nil, err
		}
	}
	if h.tls == nil {
		return conn, nil
	}
	return h.secure(ctx, cx, conn, host)
}

// failed records that there is no connection to the upstream. loud says that the operator wrote its address: then he wants
// to know.
func (h *Handler) failed(sess *session.Session, loud bool, err error) {
	level, failures := zapcore.DebugLevel, 1
	if loud && sess.CloseReason() == session.Open { // not if it was given up
		var warn bool
		if failures, warn = h.outage.fails(time.Now()); warn {
			level = zapcore.WarnLevel
		}
	}
	sess.End(failure(err))
	if entry := h.logger.Check(level, "connecting to upstream failed"); entry != nil {
		fields := []zap.Field{
			zap.Stringer("remote", sess.Client), zap.String("upstream", sess.Upstream), zap.Stringer("reason", sess.CloseReason()),
			zap.Duration("duration", sess.ConnectTime), zap.Int("failures", failures), zap.Error(err),
		}
		if sess.Cluster != "" {
			fields = append(fields, zap.String("cluster", sess.Cluster))
		}
		entry.Write(fields...)
	}
}

// failure says what an error of the dialing means for the session.
func failure(err error) session.CloseReason {
	if _, ok := errors.AsType[*netguard.Refused](err); ok {
		return session.Guard
	}
	if _, ok := errors.AsType[*guarddial.ResolveError](err); ok {
		return session.ResolveFailure
	}
	return session.ConnectFailure
}
