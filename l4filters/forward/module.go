// Package forward passes a connection to its upstream, untouched, in both directions.
package forward

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/mholt/caddy-l4/layer4"
	"go.uber.org/zap"

	"github.com/caddy-sluice/sluice/internal/offstack"
	"github.com/caddy-sluice/sluice/internal/preread"
	"github.com/caddy-sluice/sluice/internal/relay"
	"github.com/caddy-sluice/sluice/internal/replay"
	"github.com/caddy-sluice/sluice/modules/addrcheck"
	"github.com/caddy-sluice/sluice/modules/session"
)

const (
	// defaultConnectTimeout is long enough for three SYNs (sent after 0, 1 and 3 s) and a slow resolver, and short
	// enough that a client still waits.
	defaultConnectTimeout = 10 * time.Second
	minConnectTimeout     = 10 * time.Millisecond
	maxConnectTimeout     = 5 * time.Minute
)

func init() {
	caddy.RegisterModule(&Handler{})
}

// Handler is the handler `forward`. It connects to the upstream and moves bytes both ways until both sides are done.
// What was read of the connection before, by a preread for example, goes to the upstream first. The end of one side's
// stream is passed on as just that, a reset as a reset. On Linux, bulk data between two TCP connections is spliced:
// it never enters the process.
//
// It is the last handler of a route. A connection that the preread rejected and no fallback took is closed.
//
// Placeholder, for the handlers before it once it has returned: `{l4.sluice.upstream}`, `{l4.sluice.bytes_in}`,
// `{l4.sluice.bytes_out}`, `{l4.sluice.close_reason}`.
type Handler struct {
	// The upstream's address: `host:port`, or `unix/` and the path of a socket. A name is resolved for each
	// connection, and its addresses are tried in order. Required. Placeholders are replaced at load.
	Upstream string `json:"upstream,omitempty"`

	// How long resolving and connecting may take, all attempts together. Range: `10ms` to `5m`. Default: `10s`. No
	// placeholders.
	ConnectTimeout caddy.Duration `json:"connect_timeout,omitempty"`

	network, address string
	upstream         string // what Upstream is with its placeholders replaced
	dialer           net.Dialer
	logger           *zap.Logger
}

// CaddyModule returns the Caddy module information.
func (*Handler) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{
		ID:  "layer4.handlers.forward",
		New: func() caddy.Module { return new(Handler) },
	}
}

// Provision checks the settings and sets the defaults.
func (h *Handler) Provision(ctx caddy.Context) error {
	h.logger = ctx.Logger()
	if h.ConnectTimeout == 0 {
		h.ConnectTimeout = caddy.Duration(defaultConnectTimeout)
	}
	timeout := time.Duration(h.ConnectTimeout)
	if timeout < minConnectTimeout || timeout > maxConnectTimeout {
		return fmt.Errorf("connect_timeout: %v is out of range, %v to %v", timeout, minConnectTimeout, maxConnectTimeout)
	}
	h.dialer.Timeout = timeout
	var err error
	if h.network, h.address, err = parseUpstream(h.Upstream); err != nil {
		return fmt.Errorf("upstream: %w", err)
	}
	h.upstream = h.address
	if h.network == "unix" {
		h.upstream = "unix/" + h.address
	}
	return addrcheck.Handler(ctx)
}

// parseUpstream returns the network and the address to dial.
func parseUpstream(upstream string) (network, address string, err error) {
	if upstream == "" {
		return "", "", errors.New("is required")
	}
	value, err := caddy.NewReplacer().ReplaceOrErr(upstream, true, true)
	if err != nil {
		return "", "", fmt.Errorf("%q: %w", upstream, err)
	}
	na, err := caddy.ParseNetworkAddress(value)
	if err != nil {
		return "", "", fmt.Errorf("%q: %w", upstream, err)
	}
	switch {
	case na.Network == "unix" && na.Host != "":
		path, _, _ := strings.Cut(na.Host, "|") // permission bits are for those who listen
		return na.Network, path, nil
	case na.Network != "tcp" && na.Network != "unix":
		return "", "", fmt.Errorf("%q: must be host:port or unix/path, not %s", upstream, na.Network)
	case na.Host == "" || na.StartPort == 0:
		return "", "", fmt.Errorf("%q: must be an address, host:port or unix/path", upstream)
	case na.PortRangeSize() != 1:
		return "", "", fmt.Errorf("%q: must have one port, not a range", upstream)
	}
	return na.Network, na.JoinHostPort(0), nil
}

// Handle connects to the upstream and relays. A failure that lies with the client or the upstream is no error of
// the handler: it is in the session, for the access log and the filters.
func (h *Handler) Handle(cx *layer4.Connection, _ layer4.Handler) error {
	sess := session.Enter(cx)
	defer sess.Leave(h.logger)
	if sess.Reason != preread.None && !sess.Routed {
		sess.Reject()
		return nil
	}
	upstream, err := h.dial(sess)
	if err != nil {
		return nil
	}
	defer upstream.Close()
	sess.Handover()
	h.relay(cx, sess, upstream)
	return nil
}

// dial connects to the upstream.
func (h *Handler) dial(sess *session.Session) (conn net.Conn, err error) {
	start := time.Now()
	sess.Set(func() { sess.Upstream = h.upstream })
	offstack.Call(func() {
		conn, err = h.dialer.DialContext(context.Background(), h.network, h.address)
	})
	sess.Set(func() { sess.ConnectTime = time.Since(start) })
	if err != nil {
		h.failed(sess, err)
	}
	return conn, err
}

// failed records that there is no connection to the upstream.
func (h *Handler) failed(sess *session.Session, err error) {
	reason := session.ConnectFailure
	if _, ok := errors.AsType[*net.DNSError](err); ok {
		reason = session.ResolveFailure
	}
	sess.End(reason)
	h.logger.Warn("connecting to upstream",
		zap.String("upstream", h.upstream), zap.Stringer("reason", reason),
		zap.Duration("duration", sess.ConnectTime), zap.Error(err))
}

// endReasons says what the end of a relay means for the session.
var endReasons = map[relay.End]session.CloseReason{
	relay.Completed:      session.Completed,
	relay.ReplayFailed:   session.ReplayFailure,
	relay.ClientAborted:  session.ClientGone,
	relay.BackendAborted: session.Error,
	relay.Stopped:        session.Shutdown,
}

// relay moves bytes until the end and writes what happened into the session.
func (h *Handler) relay(cx *layer4.Connection, sess *session.Session, upstream net.Conn) {
	start := time.Now()
	r := new(relay.Relay)
	r.Backend = upstream
	r.Client, r.Prefix = peel(cx)
	r.ClientSocket = bottom(cx.Conn)
	end, err := r.Run()
	sess.End(endReasons[end])
	sess.Set(func() {
		sess.BytesIn, sess.BytesOut = r.Sent(), r.Received()
		sess.RelayTime = time.Since(start)
	})
	if h.logger.Core().Enabled(zap.DebugLevel) {
		h.logEnd(sess, err)
	}
}

// logEnd writes what became of the connection, for those who debug. It is a function of its own, and called only if
// the line is wanted, because its arguments need more stack than all the rest.
func (h *Handler) logEnd(sess *session.Session, err error) {
	if entry := h.logger.Check(zap.DebugLevel, "connection ended"); entry != nil {
		entry.Write(zap.String("remote", sess.Client.String()), zap.String("upstream", h.upstream),
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
		switch c := conn.(type) {
		case *layer4.Connection:
			conn = c.Conn
		case *replay.Conn:
			conn = c.Conn
		case interface{ NetConn() net.Conn }:
			conn = c.NetConn()
		default:
			return conn
		}
	}
}

// Interface guards
var (
	_ caddy.Provisioner  = (*Handler)(nil)
	_ layer4.NextHandler = (*Handler)(nil)
)
