// Package forward passes a connection to its upstream, untouched, in both directions.
package forward

import (
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/mholt/caddy-l4/layer4"
	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"

	"github.com/caddy-sluice/sluice/internal/guarddial"
	"github.com/caddy-sluice/sluice/internal/lifetime"
	"github.com/caddy-sluice/sluice/internal/netguard"
	"github.com/caddy-sluice/sluice/modules/cluster"
	"github.com/caddy-sluice/sluice/modules/session"
	"github.com/caddy-sluice/sluice/modules/sluiceapp"
	"github.com/caddy-sluice/sluice/modules/upstreamtls"
)

func init() {
	caddy.RegisterModule(&Handler{})
}

// Handler is the handler `forward`. It connects to the upstream and moves bytes both ways until both sides are done.
// What was read of the connection before, by a preread for example, goes to the upstream first. The end of one side's
// stream is passed on as just that, a reset as a reset. On Linux, bulk data between two TCP connections is spliced:
// it never enters the process.
//
// To a cluster it connects at an endpoint that the cluster chooses, and at another one if that fails. Once connected, a
// connection stays at its endpoint.
//
// It is the last handler of a route. A connection that the preread rejected and no fallback took is closed.
//
// Placeholders, for the handlers before it once it has returned: `{l4.sluice.cluster}`, `{l4.sluice.upstream}`,
// `{l4.sluice.attempts}`, `{l4.sluice.bytes_in}`, `{l4.sluice.bytes_out}`, `{l4.sluice.close_reason}`.
type Handler struct {
	// The upstream's address: `host:port`, or `unix/` and the path of a socket. A name is resolved for each
	// connection, and its addresses are tried in order. Required, or a cluster. Placeholders such as `{env.NAME}` are
	// replaced at load. With `allow`, placeholders about the connection, which begin with `l4.`, are replaced for each
	// connection.
	Upstream string `json:"upstream,omitempty"`

	// The cluster to connect to, one of those of the app `sluice`. Required, or an upstream. No placeholders.
	Cluster string `json:"cluster,omitempty"`

	// Where an upstream with a placeholder about the connection may lead: `name:port`, with the patterns of
	// `sni_router` (`a.example.com`, `*.example.com`, `**.example.com`, `.example.com`), or an IP address and a port. A
	// port may be a range: `8000-8100`. Required with such a placeholder, refused without. No placeholders.
	Allow []string `json:"allow,omitempty"`

	// How long resolving and connecting may take, all attempts together, and the TLS handshake with the upstream. With a
	// cluster, an endpoint gets an equal share of what is left for the endpoints that may still be tried, but 2 seconds if
	// there is as much.
	// Range: `10ms` to `5m`. Default: `10s`. No placeholders.
	ConnectTimeout caddy.Duration `json:"connect_timeout,omitempty"`

	// How long a connection may go on without a byte from either side. Range: `1s` to `30d`; -1 is off. Default: `10m`.
	// No placeholders.
	IdleTimeout caddy.Duration `json:"idle_timeout,omitempty"`

	// How long a connection may go on, whatever it does, from when the upstream is connected. Range: `1s` to `30d`.
	// Default: no limit. No placeholders.
	SessionTimeout caddy.Duration `json:"session_timeout,omitempty"`

	// Another such limit. The shorter one counts, and gives the close reason its name. Range: `1s` to `30d`. Default: no
	// limit. No placeholders.
	MaxDuration caddy.Duration `json:"max_duration,omitempty"`

	// How long a connection may go on after one side has ended its stream. Range: `1s` to `30d`; -1 is off. Default:
	// `1m`. No placeholders.
	HalfCloseTimeout caddy.Duration `json:"half_close_timeout,omitempty"`

	// The PROXY protocol header that the upstream gets first: `v1` or `v2`, with the address of the client, or `relay`,
	// the client's own header as it came. Default: none, or that of the cluster. No placeholders.
	ProxyProtocol string `json:"proxy_protocol,omitempty"`

	// TLS to the upstream. Default: none, the stream goes through as it is; or that of the cluster.
	TLS *upstreamtls.TLS `json:"tls,omitempty"`

	// Which addresses are checked before they are connected to: `dns` (those that come from DNS or from a placeholder
	// about the connection), `strict` (all) or `off` (none). Default: that of the app `sluice`. Refused with a cluster,
	// which has its own. No placeholders.
	Guard *netguard.Mode `json:"guard,omitempty"`

	// Whether the upstream may be at an address that the guard refuses: loopback, private, link-local and the like. It
	// is the same as `guard` `off`, and refused with another `guard`, and with a cluster, which has its own.
	AllowPrivate bool `json:"allow_private,omitempty"`

	// How many connections to this upstream one client may have at a time. Range: 1 to 10000000. Default: no limit.
	// Refused with a cluster, whose limits have one. No placeholders.
	MaxConnectionsPerIP int64 `json:"max_connections_per_ip,omitempty"`

	// How many leading bits of an IPv6 address say which client it is, for `max_connections_per_ip`. Range: 1 to 128.
	// Default: 64. Refused without `max_connections_per_ip`. No placeholders.
	IPv6Prefix int `json:"ipv6_prefix,omitempty"`

	// The time without traffic before the first TCP keepalive probe, and between probes, to both sides. Range: `1s` to
	// `2h`; -1 is off. Default: Go's, `15s`. No placeholders.
	KeepAlive caddy.Duration `json:"keepalive,omitempty"`

	// How long sent data may stay unacknowledged (TCP_USER_TIMEOUT), to both sides. Range: `1s` to `1d`. Linux only, no
	// effect elsewhere. Default: the kernel's. No placeholders.
	UserTimeout caddy.Duration `json:"user_timeout,omitempty"`

	// target is the upstream; nil if it depends on the connection. Then template has its address, and allow says what
	// may come of it. With a cluster there is neither.
	target   *target
	template string
	allow    allowList
	cluster  *cluster.Cluster

	connectTimeout time.Duration
	limits         lifetime.Limits
	dialer         guarddial.Dialer
	tls            *upstreamtls.Client
	// perClient is how many connections a client may have, 0 if it may have any number. prefix6 says how many bits of an
	// IPv6 address are the client's, scope what its connections are counted within. limited counts those that were too many.
	perClient int64
	prefix6   int
	scope     string
	limited   prometheus.Counter
	// outage says when it is time for a warning.
	outage outage

	app    *sluiceapp.App
	logger *zap.Logger
}

// CaddyModule returns the Caddy module information.
func (*Handler) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{
		ID:  "layer4.handlers.forward",
		New: func() caddy.Module { return new(Handler) },
	}
}

// Handle connects to the upstream and relays. A failure that lies with the client or the upstream is no error of
// the handler: it is in the session, for the access log and the filters.
func (h *Handler) Handle(cx *layer4.Connection, _ layer4.Handler) error {
	sess := session.Inside(cx)
	if sess == nil {
		return session.First(cx, h, nil, h.logger)
	}
	if t := h.connect(cx, sess); t != nil {
		h.relay(sess, t)
	}
	return nil
}

// Interface guards
var (
	_ caddy.Provisioner  = (*Handler)(nil)
	_ layer4.NextHandler = (*Handler)(nil)
)
