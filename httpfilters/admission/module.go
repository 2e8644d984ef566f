// Package admission lets HTTP requests in as long as there is room for them.
package admission

import (
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"slices"
	"strings"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/caddy-sluice/sluice/modules/refusal"
	"github.com/caddy-sluice/sluice/modules/session"
	"github.com/caddy-sluice/sluice/modules/sluiceapp"
)

const (
	// defaultPrefix is the network that a client by IPv6 usually has for itself.
	defaultPrefix = 64
	maxPrefix     = 128
	// retryMemory and retryRequests say after how many seconds a client may come back: memory is read once a second and
	// goes down slowly, other requests end all the time.
	retryMemory   = "5"
	retryRequests = "1"
	// admittedVar is the request's variable that is there while it holds a permit of the process.
	admittedVar = "sluice.admitted"
)

func init() {
	caddy.RegisterModule(&Handler{})
}

// Handler is the handler `admission`. It refuses requests that there is no room for: it asks the gates of the process
// (memory, open files, requests; see the app `sluice`), then its own. Nothing waits. What is refused is answered 503 with
// `Retry-After`, is counted by gate, and its body is not read. What is let in counts until its answer is complete or its
// client has left; an upgraded connection until it is closed.
type Handler struct {
	// How many requests the HTTP server may have under way. All routes of the server with this handler share the count,
	// also across reloads. Range: 1 to 10000000. Default: no limit. No placeholders.
	MaxRequests int64 `json:"max_requests,omitempty"`

	// How many requests one client may have under way at the HTTP server. Clients are told apart by the IP address that
	// Caddy takes for theirs (`{client_ip}`, see `trusted_proxies`). Range: 1 to 10000000. Default: no limit. No
	// placeholders.
	MaxRequestsPerIP int64 `json:"max_requests_per_ip,omitempty"`

	// How many bits of an IPv6 address make a client. Range: 1 to 128. Default: 64. No placeholders.
	IPv6Prefix int `json:"ipv6_prefix,omitempty"`

	app    *sluiceapp.App
	limits sluiceapp.RequestLimits
}

// CaddyModule returns the Caddy module information.
func (*Handler) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{
		ID:  "http.handlers.admission",
		New: func() caddy.Module { return new(Handler) },
	}
}

// Provision checks the settings and sets the defaults.
func (h *Handler) Provision(ctx caddy.Context) (err error) {
	if h.MaxRequests < 0 || h.MaxRequests > sluiceapp.MaxConnections {
		return fmt.Errorf("max_requests: %d is out of range, 1 to %d", h.MaxRequests, sluiceapp.MaxConnections)
	}
	if h.MaxRequestsPerIP < 0 || h.MaxRequestsPerIP > sluiceapp.MaxConnections {
		return fmt.Errorf("max_requests_per_ip: %d is out of range, 1 to %d", h.MaxRequestsPerIP, sluiceapp.MaxConnections)
	}
	if h.IPv6Prefix < 0 || h.IPv6Prefix > maxPrefix {
		return fmt.Errorf("ipv6_prefix: %d is out of range, 1 to %d", h.IPv6Prefix, maxPrefix)
	}
	if h.IPv6Prefix != 0 && h.MaxRequestsPerIP == 0 {
		return errors.New("ipv6_prefix: has no meaning without max_requests_per_ip")
	}
	if h.IPv6Prefix == 0 {
		h.IPv6Prefix = defaultPrefix
	}
	h.limits = sluiceapp.RequestLimits{
		Server: serverKey(ctx), PerServer: h.MaxRequests, PerClient: h.MaxRequestsPerIP, Prefix6: h.IPv6Prefix,
	}
	h.app, err = sluiceapp.Of(ctx)
	return err
}

// serverKey names the HTTP server in which the handler stands by what it listens on: Caddy's names for servers may move
// on to others with the next config.
func serverKey(ctx caddy.Context) string {
	server, ok := ctx.Value(caddyhttp.ServerCtxKey).(*caddyhttp.Server)
	if !ok || len(server.Listen) == 0 {
		return "http"
	}
	return strings.Join(slices.Sorted(slices.Values(server.Listen)), ",")
}

// ServeHTTP calls next if there is room.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request, next caddyhttp.Handler) error {
	vars, _ := r.Context().Value(caddyhttp.VarsCtxKey).(map[string]any)
	_, before := vars[admittedVar]
	permit, gate := h.app.AdmitRequest(&h.limits, h.client(vars), before)
	if gate != session.Open {
		return refuse(w, r, gate)
	}
	defer permit.Release()
	if !before && vars != nil {
		vars[admittedVar] = struct{}{}
		defer delete(vars, admittedVar)
	}
	return next.ServeHTTP(w, r)
}

// client returns the client's address, if it matters and there is one.
func (h *Handler) client(vars map[string]any) netip.Addr {
	if h.MaxRequestsPerIP == 0 {
		return netip.Addr{}
	}
	text, _ := vars[caddyhttp.ClientIPVarKey].(string)
	addr, err := netip.ParseAddr(text)
	if err != nil {
		return netip.Addr{}
	}
	return addr
}

// errNoRoom is what `handle_errors` shows.
var errNoRoom = errors.New("there is no room for the request")

// refuse answers a request that a gate did not let pass.
func refuse(w http.ResponseWriter, r *http.Request, gate session.CloseReason) error {
	wait := retryRequests
	if gate == session.AdmissionMemory {
		wait = retryMemory
	}
	w.Header().Set("Retry-After", wait)
	return refusal.Answer(w, r, http.StatusServiceUnavailable, errNoRoom)
}

// Interface guards
var (
	_ caddy.Provisioner           = (*Handler)(nil)
	_ caddyhttp.MiddlewareHandler = (*Handler)(nil)
)
