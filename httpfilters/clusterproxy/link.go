package clusterproxy

import (
	"fmt"
	"net/http"
	"sync"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp/reverseproxy"
	"go.uber.org/zap"

	"github.com/caddy-sluice/sluice/internal/guarddial"
	"github.com/caddy-sluice/sluice/modules/balancers"
	"github.com/caddy-sluice/sluice/modules/cluster"
	"github.com/caddy-sluice/sluice/modules/shedding"
	"github.com/caddy-sluice/sluice/modules/upstreamtls"
)

// idlePerEndpoint is how many idle connections are kept for each endpoint. With Caddy's 32, a fifth of the CPU of a busy
// proxy goes into making connections again.
const idlePerEndpoint = 256

// links are the connections of a handler to its clusters.
type links struct {
	ctx  caddy.Context
	base reverseproxy.HTTPTransport
	// tls is how to speak TLS if the transport says so; nil if it doesn't.
	tls   *upstreamtls.Client
	names guarddial.Names

	// mu guards byCluster.
	mu        sync.Mutex
	byCluster map[*cluster.Cluster]*link
}

// link is the way to the endpoints of one cluster.
type link struct {
	cluster *cluster.Cluster
	dialer  guarddial.Dialer
	// http has the settings, pooled and fresh make requests with them: with pooled connections, and with a new one each.
	http          *reverseproxy.HTTPTransport
	pooled, fresh *http.Transport
	// secure is nil without TLS, alpn what is offered.
	secure *upstreamtls.Client
	alpn   []string
	// keyed says that the cluster's balancer chooses by a key, proxied that endpoints get a PROXY header.
	keyed, proxied bool

	logger *zap.Logger
	// watch tells the operator what the cluster doesn't take.
	watch shedding.Watch
}

// newLinks reads the settings of the transport.
func (h *Handler) newLinks(ctx caddy.Context) (*links, error) {
	base, err := decodeTransport(h.TransportRaw)
	if err != nil {
		return nil, fmt.Errorf("transport: %w", err)
	}
	h.TransportRaw = nil
	l := &links{ctx: ctx, base: *base, byCluster: make(map[*cluster.Cluster]*link)}
	if l.base.KeepAlive == nil {
		l.base.KeepAlive = new(reverseproxy.KeepAlive)
	}
	if l.base.KeepAlive.MaxIdleConnsPerHost == 0 {
		l.base.KeepAlive.MaxIdleConnsPerHost = idlePerEndpoint
	}
	if l.base.TLS == nil {
		return l, nil
	}
	settings := &upstreamtls.TLS{TLSConfig: *l.base.TLS}
	settings.ExceptPorts = nil
	if l.tls, err = settings.Client(ctx); err != nil {
		return nil, fmt.Errorf("transport.tls: %w", err)
	}
	// What is left of it says that there is TLS, and on which ports there isn't.
	l.base.TLS = &reverseproxy.TLSConfig{ExceptPorts: l.base.TLS.ExceptPorts}
	return l, nil
}

// of returns the link to a cluster, made when it is first asked for.
func (ls *links) of(c *cluster.Cluster) (*link, error) {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	if l := ls.byCluster[c]; l != nil {
		return l, nil
	}
	if err := checkKey(c); err != nil {
		return nil, err
	}
	l := &link{
		cluster: c, dialer: guarddial.Dialer{Mode: c.Guard(), Lookup: ls.names.Lookup}, secure: ls.tls,
		keyed: c.Key().Source != balancers.NoKey, logger: ls.ctx.Logger(),
		watch: shedding.Watch{Requests: true, Subject: zap.String("cluster", c.Name())},
	}
	own := ls.base
	if c.TLS() != nil {
		l.secure, own.TLS = c.TLS(), new(reverseproxy.TLSConfig)
	}
	if c.ProxyProtocol() != "" {
		own.ProxyProtocol = c.ProxyProtocol()
	}
	l.http, l.proxied = &own, own.ProxyProtocol != ""
	if err := l.makeTransports(ls.ctx); err != nil {
		return nil, err
	}
	ls.byCluster[c] = l
	return l, nil
}

// makeTransports makes the two transports.
func (l *link) makeTransports(ctx caddy.Context) (err error) {
	pool := *l.http.KeepAlive
	l.http.KeepAlive = &pool
	if err := l.http.Provision(ctx); err != nil {
		return fmt.Errorf("transport: %w", err)
	}
	l.pooled = l.http.Transport
	if l.pooled.TLSClientConfig != nil {
		l.alpn = l.pooled.TLSClientConfig.NextProtos
	}
	once, never := *l.http, false
	once.KeepAlive = &reverseproxy.KeepAlive{Enabled: &never, ProbeInterval: pool.ProbeInterval}
	if l.fresh, err = once.NewTransport(ctx); err != nil {
		return fmt.Errorf("transport: %w", err)
	}
	l.take(l.pooled, true)
	l.take(l.fresh, false)
	return nil
}

// take makes a transport connect by way of the link.
func (l *link) take(t *http.Transport, pooled bool) {
	d := &dialing{link: l, connect: t.DialContext, pooled: pooled}
	t.Proxy = nil // the guard judges where a connection goes, which a forward proxy would hide
	t.DialContext = d.plain
	t.DialTLSContext = nil
	if l.secure != nil {
		t.DialTLSContext = d.tls
	}
}

// transport returns the one for pooled connections, or the one for a new connection.
func (l *link) transport(fresh bool) *http.Transport {
	if fresh {
		return l.fresh
	}
	return l.pooled
}

// close closes what is idle, and ends the watches.
func (ls *links) close() {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	for _, l := range ls.byCluster {
		l.watch.Stop()
		l.pooled.CloseIdleConnections()
		l.fresh.CloseIdleConnections()
	}
}

// transport is the transport of Caddy's handler. Which link it goes by depends on the request.
type transport struct{}

// RoundTrip makes an attempt.
func (transport) RoundTrip(r *http.Request) (*http.Response, error) {
	s := stateOf(r.Context())
	if s == nil {
		return nil, errNoState
	}
	return s.roundTrip(r)
}
