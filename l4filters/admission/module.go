// Package admission lets connections in as long as there is room for them.
package admission

import (
	"errors"
	"fmt"

	"github.com/caddyserver/caddy/v2"
	"github.com/mholt/caddy-l4/layer4"
	"go.uber.org/zap"

	"github.com/caddy-sluice/sluice/modules/addrcheck"
	"github.com/caddy-sluice/sluice/modules/session"
	"github.com/caddy-sluice/sluice/modules/sluiceapp"
)

const (
	// defaultPrefix is the network that a client by IPv6 usually has for itself.
	defaultPrefix = 64
	maxPrefix     = 128
)

func init() {
	caddy.RegisterModule(&Handler{})
}

// Handler is the handler `admission`. It refuses connections that there is no room for: it asks the gates of the process
// (memory, open files, connections; see the app `sluice`), then its own. Nothing waits. What is refused is closed without
// a byte, counted by gate, and was never one of our connections. What is let in counts until it has ended.
//
// It stands in front of the handlers that do the work. Each one that a connection passes counts it for the limits that it
// has.
type Handler struct {
	// How many connections there may be on the listen address that the connection came in by. All routes with this
	// handler share the count, also across reloads. Range: 1 to 10000000. Default: no limit. No placeholders.
	MaxConnections int64 `json:"max_connections,omitempty"`

	// How many connections one client may have on the listen address. Clients are told apart by IP address: the one in
	// the PROXY header, if there was one. Range: 1 to 10000000. Default: no limit. No placeholders.
	MaxConnectionsPerIP int64 `json:"max_connections_per_ip,omitempty"`

	// How many bits of an IPv6 address make a client. Range: 1 to 128. Default: 64. No placeholders.
	IPv6Prefix int `json:"ipv6_prefix,omitempty"`

	app       *sluiceapp.App
	listeners *addrcheck.Listeners
	logger    *zap.Logger
}

// CaddyModule returns the Caddy module information.
func (*Handler) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{
		ID:  "layer4.handlers.admission",
		New: func() caddy.Module { return new(Handler) },
	}
}

// Provision checks the settings and sets the defaults.
func (h *Handler) Provision(ctx caddy.Context) (err error) {
	h.logger = ctx.Logger()
	if h.MaxConnections < 0 || h.MaxConnections > sluiceapp.MaxConnections {
		return fmt.Errorf("max_connections: %d is out of range, 1 to %d", h.MaxConnections, sluiceapp.MaxConnections)
	}
	if h.MaxConnectionsPerIP < 0 || h.MaxConnectionsPerIP > sluiceapp.MaxConnections {
		return fmt.Errorf("max_connections_per_ip: %d is out of range, 1 to %d", h.MaxConnectionsPerIP, sluiceapp.MaxConnections)
	}
	if h.IPv6Prefix < 0 || h.IPv6Prefix > maxPrefix {
		return fmt.Errorf("ipv6_prefix: %d is out of range, 1 to %d", h.IPv6Prefix, maxPrefix)
	}
	if h.IPv6Prefix != 0 && h.MaxConnectionsPerIP == 0 {
		return errors.New("ipv6_prefix: has no meaning without max_connections_per_ip")
	}
	if h.IPv6Prefix == 0 {
		h.IPv6Prefix = defaultPrefix
	}
	if err := addrcheck.Handler(ctx); err != nil {
		return err
	}
	if h.listeners, err = addrcheck.Addresses(ctx); err != nil {
		return err
	}
	h.app, err = sluiceapp.Of(ctx)
	return err
}

// Handle calls next if there is room.
func (h *Handler) Handle(cx *layer4.Connection, next layer4.Handler) error {
	sess := session.Inside(cx)
	if sess == nil {
		return session.First(cx, h, next, h.logger)
	}
	if !h.admit(sess) {
		return nil
	}
	return next.Handle(cx)
}

// admit asks the gates, and reports false if one of them refuses.
func (h *Handler) admit(sess *session.Session) bool {
	if sess.CloseReason() != session.Open || !h.app.Admit(sess) {
		return false
	}
	if h.MaxConnections == 0 && h.MaxConnectionsPerIP == 0 {
		return true
	}
	key := h.listeners.Key(sess.Listener)
	if h.MaxConnections > 0 && !h.app.TakeListener(sess, key, h.MaxConnections) {
		h.app.Refuse(sess, session.AdmissionListener)
		return false
	}
	if h.MaxConnectionsPerIP > 0 && !h.app.TakeSource(sess, key, h.MaxConnectionsPerIP, h.IPv6Prefix) {
		h.app.Refuse(sess, session.AdmissionSourceIP)
		return false
	}
	return true
}

// Interface guards
var (
	_ caddy.Provisioner  = (*Handler)(nil)
	_ layer4.NextHandler = (*Handler)(nil)
)
