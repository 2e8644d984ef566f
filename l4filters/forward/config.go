package forward

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"time"

	"github.com/caddyserver/caddy/v2"

	"github.com/caddy-sluice/sluice/internal/netguard"
	"github.com/caddy-sluice/sluice/internal/prom"
	"github.com/caddy-sluice/sluice/internal/sockopt"
	"github.com/caddy-sluice/sluice/modules/addrcheck"
	"github.com/caddy-sluice/sluice/modules/sluiceapp"
)

const (
	// off is what stands in JSON for a timer that is switched off: 0 is the default.
	off = caddy.Duration(-1)
	// defaultConnectTimeout is long enough for three SYNs (sent after 0, 1 and 3 s) and a slow resolver, and short
	// enough that a client still waits.
	defaultConnectTimeout = 10 * time.Second
	// defaultIdleTimeout is longer than the keepalives of common protocols, and short enough to be rid of what is dead.
	defaultIdleTimeout = 10 * time.Minute
	// defaultHalfClose is for the rest of an answer whose reader has said all that it had to say.
	defaultHalfClose = time.Minute
	// minLifetime and maxLifetime bound everything that ends a connection in use.
	minLifetime = time.Second
	maxLifetime = 30 * 24 * time.Hour
	// maxPerIP is more than a process can have.
	maxPerIP = 10_000_000
	// defaultIPv6Prefix is the network that a subscriber has at least (RFC 6177).
	defaultIPv6Prefix = 64
)

// bounds are what a duration in the config may be.
type bounds struct {
	name     string
	fallback time.Duration
	min, max time.Duration
	// canBeOff says that -1 is allowed.
	canBeOff bool
}

// take returns what a duration is, and 0 or less for one that is off.
func (b bounds) take(value caddy.Duration) (time.Duration, error) {
	d := time.Duration(value)
	switch {
	case value == 0:
		return b.fallback, nil
	case value == off && b.canBeOff:
		return d, nil
	case d < b.min || d > b.max:
		return 0, fmt.Errorf("%s: %v is out of range, %v to %s", b.name, d, b.min, inDays(b.max))
	}
	return d, nil
}

// inDays writes a duration as the docs do: 30d, not 720h0m0s.
func inDays(d time.Duration) string {
	const day = 24 * time.Hour
	if d >= day && d%day == 0 {
		return fmt.Sprintf("%dd", d/day)
	}
	return d.String()
}

// Provision checks the settings and sets the defaults.
func (h *Handler) Provision(ctx caddy.Context) (err error) {
	h.logger = ctx.Logger()
	if h.app, err = sluiceapp.Of(ctx); err != nil {
		return err
	}
	for _, step := range []func() error{h.setDurations, h.setUpstream, h.setGuard, h.checkHeader, h.setLimit} {
		if err := step(); err != nil {
			return err
		}
	}
	if h.TLS != nil {
		if err := h.setTLS(ctx); err != nil {
			return fmt.Errorf("tls: %w", err)
		}
	}
	if err := prom.Register(ctx.GetMetricsRegistry(), metrics.limited); err != nil {
		return err
	}
	return addrcheck.Handler(ctx)
}

func (h *Handler) setDurations() error {
	var keepAlive sockopt.KeepAlive
	for _, d := range []struct {
		bounds
		value caddy.Duration
		to    *time.Duration
	}{
		{bounds{"connect_timeout", defaultConnectTimeout, 10 * time.Millisecond, 5 * time.Minute, false}, h.ConnectTimeout, &h.connectTimeout},
		{bounds{"idle_timeout", defaultIdleTimeout, minLifetime, maxLifetime, true}, h.IdleTimeout, &h.limits.Idle},
		{bounds{"session_timeout", 0, minLifetime, maxLifetime, false}, h.SessionTimeout, &h.limits.Session},
		{bounds{"max_duration", 0, minLifetime, maxLifetime, false}, h.MaxDuration, &h.limits.Max},
		{bounds{"half_close_timeout", defaultHalfClose, minLifetime, maxLifetime, true}, h.HalfCloseTimeout, &h.limits.HalfClose},
		{bounds{"keepalive", 0, time.Second, 2 * time.Hour, true}, h.KeepAlive, &keepAlive.Interval},
		{bounds{"user_timeout", 0, time.Second, 24 * time.Hour, false}, h.UserTimeout, &keepAlive.UserTimeout},
	} {
		var err error
		if *d.to, err = d.take(d.value); err != nil {
			return err
		}
	}
	h.dialer.KeepAlive = keepAlive
	return nil
}

// setUpstream finds out whether connections go to a cluster, or to an address that is known or depends on the connection.
func (h *Handler) setUpstream() error {
	switch {
	case h.Cluster != "" && h.Upstream != "":
		return fmt.Errorf("cluster: contradicts upstream %q: connections go to one of both", h.Upstream)
	case h.Cluster != "":
		return h.setCluster()
	case h.Upstream == "":
		return errors.New("upstream: is required, or a cluster")
	}
	address, dynamic, err := expandAtLoad(h.Upstream)
	switch {
	case err != nil:
		return fmt.Errorf("upstream: %w", err)
	case dynamic && len(h.Allow) == 0:
		return fmt.Errorf("upstream: %q has a placeholder about the connection: allow must say where it may lead", h.Upstream)
	case !dynamic && len(h.Allow) > 0:
		return fmt.Errorf("allow: upstream %q has no placeholder about the connection", h.Upstream)
	case dynamic:
		return h.setTemplate(address)
	}
	if h.target, err = parseUpstream(address); err != nil {
		return fmt.Errorf("upstream: %w", err)
	}
	return nil
}

// setGuard takes the guard of the app unless the handler has one of its own. A cluster's own is in its dialer.
func (h *Handler) setGuard() error {
	if h.cluster != nil {
		return nil
	}
	mode := h.app.Guard
	if h.Guard != nil {
		mode = *h.Guard
	}
	if h.AllowPrivate {
		if h.Guard != nil && mode != netguard.Off {
			return fmt.Errorf("allow_private: contradicts guard %v", mode)
		}
		mode = netguard.Off
	}
	h.dialer.Mode = mode
	if h.target == nil || !mode.Checks(true) {
		return nil
	}
	addr, err := netip.ParseAddr(h.target.host)
	if err != nil {
		return nil // a name, or the path of a socket
	}
	if class := netguard.Classify(addr); class != netguard.Public {
		return fmt.Errorf("upstream: guard %v: refusing %v: the address is %v (guard dns would permit it)", mode, addr, class)
	}
	return nil
}

// proxyModes are the values of proxy_protocol.
var proxyModes = []string{"v1", "v2", "relay"}

func (h *Handler) checkHeader() error {
	if h.ProxyProtocol != "" && !slices.Contains(proxyModes, h.ProxyProtocol) {
		return fmt.Errorf("proxy_protocol: %q is not known; must be one of v1, v2, relay", h.ProxyProtocol)
	}
	return nil
}

// setLimit prepares the counting of a client's connections to an address.
func (h *Handler) setLimit() error {
	if h.cluster != nil {
		return nil
	}
	if h.MaxConnectionsPerIP == 0 {
		if h.IPv6Prefix != 0 {
			return errors.New("ipv6_prefix: has no meaning without max_connections_per_ip")
		}
		return nil
	}
	if h.MaxConnectionsPerIP < 1 || h.MaxConnectionsPerIP > maxPerIP {
		return fmt.Errorf("max_connections_per_ip: %d is out of range, 1 to %d", h.MaxConnectionsPerIP, maxPerIP)
	}
	if h.IPv6Prefix == 0 {
		h.IPv6Prefix = defaultIPv6Prefix
	}
	if h.IPv6Prefix < 1 || h.IPv6Prefix > 128 {
		return fmt.Errorf("ipv6_prefix: %d is out of range, 1 to 128", h.IPv6Prefix)
	}
	h.perClient, h.prefix6 = h.MaxConnectionsPerIP, h.IPv6Prefix
	label := dynamicLabel
	h.scope = "forward " + h.template
	if h.target != nil {
		label = h.target.text
		h.scope = "forward " + label
	}
	h.limited = metrics.limited.WithLabelValues(label)
	return nil
}
