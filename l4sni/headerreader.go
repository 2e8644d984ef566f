package l4sni

import (
	"net/netip"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/mholt/caddy-l4/layer4"
	"go.uber.org/zap"

	"github.com/caddy-sluice/sluice/internal/offstack"
	"github.com/caddy-sluice/sluice/internal/preread"
	"github.com/caddy-sluice/sluice/internal/proxyheader"
	"github.com/caddy-sluice/sluice/internal/replay"
	"github.com/caddy-sluice/sluice/modules/session"
	"github.com/caddy-sluice/sluice/modules/sluiceapp"
)

// HeaderReader reads the PROXY headers of connections, and nothing else.
type HeaderReader struct {
	cfg    preread.Config
	from   []netip.Prefix
	app    *sluiceapp.App
	logger *zap.Logger
}

// NewHeaderReader returns a reader for the peers in p, with the default limits of `preread`.
func NewHeaderReader(ctx caddy.Context, p *ProxyProtocol) (*HeaderReader, error) {
	from, err := p.prefixes()
	if err != nil {
		return nil, err
	}
	app, err := sluiceapp.Of(ctx)
	if err != nil {
		return nil, err
	}
	return &HeaderReader{defaults, from, app, ctx.Logger()}, metrics.register(ctx.GetMetricsRegistry())
}

// Read reads the header if the peer must send one. It returns the connection behind it, in which nothing but the header
// is missing; nil if the connection is over.
func (r *HeaderReader) Read(cx *layer4.Connection, sess *session.Session) *layer4.Connection {
	if isUDP(cx) || !contains(r.from, cx.RemoteAddr()) {
		return cx
	}
	if !r.app.Admit(sess) {
		return nil
	}
	metrics.active.Inc()
	defer metrics.active.Dec()
	var behind *layer4.Connection
	offstack.Call(func() { behind = r.run(cx, sess) })
	if behind == nil {
		metrics.duration.Observe(time.Since(sess.Start).Seconds())
	}
	return behind
}

// run is Read, on whatever stack.
func (r *HeaderReader) run(cx *layer4.Connection, sess *session.Session) *layer4.Connection {
	in := &headerIntake{intake: intake{cx: cx, app: r.app, limit: r.cfg.MaxBytes}}
	verdict, err := in.feed(in, sess.Start.Add(r.cfg.Timeout))
	if err != nil || in.over(sess, verdict) {
		return nil
	}
	if verdict.Kind == preread.Reject {
		sess.Set(func() { sess.Reason, sess.PrereadTime = verdict.Reason, time.Since(sess.Start) })
		sess.OnReject(metrics.reject)
		refuse(cx, sess, r.logger, false)
		return nil
	}
	conn := replay.New(cx.Conn, in.window[verdict.Offset:])
	keepHeader(cx, conn, sess, in.parser.Header(), in.window)
	return cx.Wrap(conn)
}

// headerIntake is an intake that is over when a PROXY header is complete, whatever follows.
type headerIntake struct {
	intake
	parser proxyheader.Parser
}

// bytes implements decider. Routed means that the header is complete.
func (c *headerIntake) bytes(window []byte) preread.Verdict {
	switch status := c.parser.Parse(window); {
	case status == proxyheader.Complete:
		return preread.Verdict{Kind: preread.Routed, Offset: c.parser.Header().Len}
	case status == proxyheader.Invalid:
		return preread.Verdict{Kind: preread.Reject, Reason: preread.ProxyHeaderInvalid}
	case len(window) >= c.limit:
		return preread.Verdict{Kind: preread.Reject, Reason: preread.TooLarge}
	}
	return preread.Verdict{}
}

// Timeout implements decider.
func (*headerIntake) Timeout() preread.Verdict {
	return preread.Verdict{Kind: preread.Reject, Reason: preread.Fragmented}
}

// FrontClosed implements decider.
func (*headerIntake) FrontClosed() preread.Verdict {
	return preread.Verdict{Kind: preread.Reject, Reason: preread.FrontClosed}
}
