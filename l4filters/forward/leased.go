package forward

import (
	"context"
	"errors"
	"net"
	"time"

	"github.com/mholt/caddy-l4/layer4"
	"go.uber.org/zap"

	"github.com/caddy-sluice/sluice/internal/guarddial"
	"github.com/caddy-sluice/sluice/internal/health"
	"github.com/caddy-sluice/sluice/internal/netguard"
	"github.com/caddy-sluice/sluice/modules/cluster"
	"github.com/caddy-sluice/sluice/modules/healthchecks"
	"github.com/caddy-sluice/sluice/modules/session"
)

// leased is a transfer to an endpoint of a cluster, with all that the cluster counts of it.
type leased struct {
	transfer
	sess    *session.Session
	request cluster.Request
	lease   cluster.Lease
	counted cluster.Conn
	proof   proof
	// failed is why the last attempt failed.
	failed error
}

// beginLeased finds an endpoint to connect to and makes the transfer. It runs on a goroutine of its own.
func (h *Handler) beginLeased(cx *layer4.Connection, sess *session.Session) *transfer {
	l := &leased{sess: sess}
	if err := h.cluster.Admit(&l.request); err != nil {
		h.refused(cx, sess, err)
		return nil
	}
	sess.OnEnd(l.end)
	conn, err := h.open(cx, sess, func(ctx context.Context) (net.Conn, error) { return h.seek(ctx, cx, l) })
	if err != nil {
		l.end()
		h.unreached(cx, sess, err)
		return nil
	}
	h.prepare(cx, sess, &l.transfer, conn)
	sess.Handover()
	l.proof.begin(l)
	l.lease.OnStop(l.stop)
	return &l.transfer
}

// unreached ends a connection for which no endpoint was found, or none that could be connected to.
func (h *Handler) unreached(cx *layer4.Connection, sess *session.Session, err error) {
	if _, ok := errors.AsType[*cluster.Refused](err); ok {
		h.refused(cx, sess, err)
		return
	}
	h.failed(sess, true, err)
}

// end settles what the cluster counts, and closes the connection. It is called at the session's end, and before if it
// comes to nothing.
func (l *leased) end() {
	l.proof.end()
	if l.Backend != nil {
		l.close()
	}
	l.counted.Close()
	if l.lease.Endpoint() != nil {
		l.lease.Because(l.broken)
		l.lease.Done(cluster.Outcome{Kind: l.kind()})
	}
	l.request.Finish()
}

// kind says what became of the lease, if nobody has said so before. A session in which the endpoint has said nothing, and
// that ended for another reason than that both sides were done, says nothing about the endpoint.
func (l *leased) kind() health.Kind {
	switch {
	case l.broken != nil:
		return health.Reset
	case l.Backend != nil && (l.completed || l.Received() > 0):
		return health.Success
	}
	return health.Aborted
}

// stopReasons says what it means for the session that its endpoint is not to be used any more.
var stopReasons = map[cluster.Cause]session.CloseReason{
	cluster.Unhealthy: session.EndpointUnhealthy,
	cluster.Drained:   session.Drained,
}

// stop ends the session because of its endpoint.
func (l *leased) stop(why cluster.Cause) { l.sess.Stop(stopReasons[why]) }

// seek connects to one endpoint after the other, until one is connected, all were tried, or the cluster wants no more.
// The error is that of the last attempt, or a *cluster.Refused if there was none.
func (h *Handler) seek(ctx context.Context, cx *layer4.Connection, l *leased) (net.Conn, error) {
	key := h.key(cx, l.sess)
	for {
		if err := l.request.PickOther(&l.lease, key); err != nil {
			return nil, l.because(err)
		}
		e := l.lease.Endpoint()
		if err := h.cluster.Count(&l.counted, e); err != nil {
			if l.full(err) {
				continue
			}
			return nil, l.because(err)
		}
		l.sess.Set(func() { l.sess.Upstream, l.sess.Attempts = e.Address(), l.sess.Attempts+1 })
		conn, err := h.attempt(ctx, cx, l)
		if err == nil {
			l.counted.Connected()
			l.lease.Connected()
			return conn, nil
		}
		l.counted.Close()
		if !h.again(ctx, l, err) {
			break
		}
	}
	return nil, l.failed
}

// because returns why there is no connection: the last failure, if there was one, and not that there was nothing to try
// after it.
func (l *leased) because(err error) error {
	if l.failed != nil {
		return l.failed
	}
	return err
}

// full gives a lease back whose endpoint has as many connections as it may, and says whether that is so. The endpoint
// counts as tried.
func (l *leased) full(err error) bool {
	refused, ok := errors.AsType[*cluster.Refused](err)
	if !ok || !refused.Why.OfEndpoint() {
		return false
	}
	l.lease.Crowded()
	if l.failed == nil {
		l.failed = err
	}
	return true
}

// attempt makes a connection to the endpoint of the lease, within its share of the time.
func (h *Handler) attempt(ctx context.Context, cx *layer4.Connection, l *leased) (net.Conn, error) {
	ctx, cancel := context.WithDeadline(ctx, h.attemptEnd(ctx, l, time.Now()))
	defer cancel()
	e := l.lease.Endpoint()
	conn, err := h.cluster.Dial(ctx, e)
	if err != nil {
		return nil, err
	}
	_ = h.dialer.KeepAlive.Apply(conn) // a socket that can't have it is noticed by the relay
	return h.introduced(ctx, cx, conn, e.Host())
}

// attemptEnd returns when an attempt has to end that begins now. All that may come after it, one for each retry that is
// left and each endpoint that wasn't tried, get as much time, if that is enough.
func (h *Handler) attemptEnd(ctx context.Context, l *leased, now time.Time) time.Time {
	end, _ := ctx.Deadline()
	left := max(min(h.cluster.MaxRetries()-l.request.Retries(), l.request.Left()-1), 0) + 1
	end = now.Add(guarddial.Share(end.Sub(now), left))
	if own, by := l.request.Deadline(now, true); by != health.Never && own.Before(end) {
		end = own
	}
	return end
}

// again settles an attempt that has failed, and says whether to try another endpoint, after a wait.
func (h *Handler) again(ctx context.Context, l *leased, err error) bool {
	l.failed = err
	f := cluster.Failure{
		Outcome:    cluster.Outcome{Kind: l.blame(err, time.Now())},
		Repeatable: !guarddial.Over(ctx),
		Eligible:   true,
		Elsewhere:  true,
	}
	l.lease.Because(err)
	d := l.lease.Fail(f)
	if entry := h.logger.Check(zap.DebugLevel, "connecting to endpoint failed"); entry != nil {
		entry.Write(zap.Stringer("remote", l.sess.Client), zap.String("cluster", l.sess.Cluster),
			zap.String("endpoint", l.sess.Upstream), zap.Stringer("outcome", d.Outcome.Kind),
			zap.Bool("again", d.Action == health.Again), zap.Stringer("why", d.Why), zap.Error(err))
	}
	return d.Action == health.Again && cluster.Wait(ctx, d.Delay)
}

// blame says what the error of an attempt says about the endpoint: nothing if the connection was given up, if its
// request_timeout is over, if the guard refused the address, or if this machine is short of something.
func (l *leased) blame(err error, now time.Time) health.Kind {
	_, guarded := errors.AsType[*netguard.Refused](err)
	if guarded || l.sess.CloseReason() != session.Open || l.expired(now) || healthchecks.NotMade(err) {
		return health.Aborted
	}
	return health.Connect
}

// expired says whether the time that the cluster gives a connection to be made is over, all attempts together.
func (l *leased) expired(now time.Time) bool {
	end, by := l.request.Deadline(now, false)
	return by == health.ByRequest && !now.Before(end)
}
