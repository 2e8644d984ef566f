// Package listener shares one port between layer-4 routes and Caddy's own sites. It is a listener wrapper of the HTTP
// app: each connection first runs through layer-4 routes, and those that no route takes go on to the HTTP server,
// with all their bytes and their client's address.
package listener

import (
	"context"
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyevents"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"github.com/mholt/caddy-l4/layer4"
	"go.uber.org/zap"

	"github.com/caddy-sluice/sluice/l4sni"
	"github.com/caddy-sluice/sluice/modules/addrcheck"
)

func init() {
	caddy.RegisterModule(&Wrapper{})
}

// Wrapper is the listener wrapper `sluice`. Write it before `tls` in the list of wrappers of an HTTP server: it then
// sees connections before TLS, can pass them through, and leaves the others to Caddy's TLS and automatic HTTPS.
//
// Put all filters and the `sni_router` in one route. An `sni_router` in it needs no fallback: what it does not route
// goes to Caddy's own sites.
type Wrapper struct {
	// The layer-4 routes. At least one.
	Routes layer4.RouteList `json:"routes,omitempty"`

	// How long the matchers of the routes may wait for bytes. It is no limit for handlers such as `preread`, which
	// have their own. Default: `3s`.
	MatchingTimeout caddy.Duration `json:"matching_timeout,omitempty"`

	// Who sends a PROXY protocol header. It is read before the routes run, within `5s`, so that routes, filters and
	// Caddy's own sites all see the client's address. Default: nobody.
	ProxyProtocol *l4sni.ProxyProtocol `json:"proxy_protocol,omitempty"`

	header    *l4sni.HeaderReader // nil without ProxyProtocol
	handler   layer4.Handler
	keepAlive net.KeepAliveConfig
	listeners []*listener // one for each address of the server
	logger    *zap.Logger
}

// CaddyModule returns the Caddy module information.
func (*Wrapper) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{
		ID:  "caddy.listeners.sluice",
		New: func() caddy.Module { return new(Wrapper) },
	}
}

// Provision loads the routes.
func (w *Wrapper) Provision(ctx caddy.Context) error {
	w.logger = ctx.Logger()
	if len(w.Routes) == 0 {
		return errors.New("routes: needs at least one route")
	}
	if w.MatchingTimeout < 0 {
		return fmt.Errorf("matching_timeout: %v is negative", time.Duration(w.MatchingTimeout))
	}
	if w.MatchingTimeout == 0 {
		w.MatchingTimeout = caddy.Duration(layer4.MatchingTimeoutDefault)
	}
	if w.ProxyProtocol != nil {
		var err error
		if w.header, err = l4sni.NewHeaderReader(ctx, w.ProxyProtocol); err != nil {
			return err
		}
	}
	if err := addrcheck.Wrapper(ctx, w.Routes, w.ProxyProtocol != nil); err != nil {
		return err
	}
	if err := w.Routes.Provision(ctx); err != nil {
		return fmt.Errorf("routes: %w", err)
	}
	w.handler = w.Routes.Compile(w.logger, time.Duration(w.MatchingTimeout), layer4.HandlerFunc(handOver))
	w.keepAlive = defaultKeepAlive
	if server, ok := ctx.Value(caddyhttp.ServerCtxKey).(*caddyhttp.Server); ok {
		w.keepAlive = keepAliveOf(server)
		server.RegisterConnState(stateChanged)
		if endsTLS(server) {
			w.logger.Warn(behindTLS, zap.Strings("listen", server.Listen))
		}
	}
	return w.watchStop(ctx)
}

// watchStop has Caddy tell when this config is about to stop, which is after the next one has started.
func (w *Wrapper) watchStop(ctx caddy.Context) error {
	events, err := ctx.App("events")
	if err != nil {
		return fmt.Errorf("getting events app: %w", err)
	}
	return events.(*caddyevents.App).On("stopping", w)
}

// Handle implements caddyevents.Handler for the event that the config is about to stop. New connections go to the next
// config, and the server gets the time to read the requests of those that it has just got.
func (w *Wrapper) Handle(context.Context, caddy.Event) error {
	for _, l := range w.listeners {
		l.leave()
	}
	for _, l := range w.listeners {
		l.fresh.wait()
	}
	return nil
}

// defaultKeepAlive is what Go does with a connection if nothing else is said.
var defaultKeepAlive = net.KeepAliveConfig{Enable: true}

// keepAliveOf returns what an HTTP server says about TCP keepalive.
func keepAliveOf(server *caddyhttp.Server) net.KeepAliveConfig {
	return net.KeepAliveConfig{
		Enable:   server.KeepAliveInterval >= 0,
		Interval: time.Duration(server.KeepAliveInterval),
		Idle:     time.Duration(server.KeepAliveIdle),
		Count:    server.KeepAliveCount,
	}
}

// WrapListener implements caddy.ListenerWrapper.
func (w *Wrapper) WrapListener(base net.Listener) net.Listener {
	l := listen(base, w)
	w.listeners = append(w.listeners, l)
	return l
}

// Interface guards
var (
	_ caddy.Provisioner     = (*Wrapper)(nil)
	_ caddy.ListenerWrapper = (*Wrapper)(nil)
	_ caddyevents.Handler   = (*Wrapper)(nil)
)
