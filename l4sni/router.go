package l4sni

import (
	"encoding/json"
	"fmt"
	"net"
	"strings"

	"github.com/caddyserver/caddy/v2"
	"github.com/mholt/caddy-l4/layer4"
	"go.uber.org/zap"

	"github.com/caddy-sluice/sluice/internal/clienthello"
	"github.com/caddy-sluice/sluice/internal/offstack"
	"github.com/caddy-sluice/sluice/internal/preread"
	"github.com/caddy-sluice/sluice/internal/replay"
	"github.com/caddy-sluice/sluice/internal/snitable"
	"github.com/caddy-sluice/sluice/modules/addrcheck"
	"github.com/caddy-sluice/sluice/modules/session"
	"github.com/caddy-sluice/sluice/modules/sluiceapp"
)

func init() {
	caddy.RegisterModule(&Router{})
}

// Router is the handler `sni_router`. It gives a TLS connection to the route for its server name and protocols. All
// routes are one table: a lookup takes as long with 100,000 names as with ten, and the order in which routes are
// written does not matter.
//
// A connection without a route goes to the fallback for its reason, else it is closed. Under the listener wrapper a
// missing fallback hands it to Caddy's own sites.
//
// Placeholders, for the handlers of a route: those of `preread`, `{l4.sluice.pattern}`, `{l4.sluice.tags.<key>}`.
type Router struct {
	// The routes. At least one, or a fallback.
	Routes []*Route `json:"routes,omitempty"`

	// What happens to connections for which there is no route. A reason may stand in one fallback only.
	Fallback []*Fallback `json:"fallback,omitempty"`

	// Whether a TLS client is told why it is refused, with the alert `unrecognized_name` (RFC 6066 §3) or
	// `no_application_protocol` (RFC 7301 §3.2), before its connection is closed: `on` or `off`. Default: `on`.
	Alert string `json:"alert,omitempty"`

	reader    prereader
	fallbacks [preread.FrontClosed + 1]chain
	logger    *zap.Logger
}

// Route is one route of a Router.
type Route struct {
	// The server names that the route takes: `a.example.com` (that name), `*.example.com` (one label more),
	// `**.example.com` (one label or more), `.example.com` (the name and everything below). An exact name wins over a
	// pattern, a longer pattern over a shorter one. Required. Placeholders are replaced at load.
	Names []string `json:"names,omitempty"`

	// The application protocols that the route takes, compared byte for byte with what the client offers, in the
	// client's order. Default: any; then the route is the catch-all of its names.
	ALPN []string `json:"alpn,omitempty"`

	// Tags for the connections of this route, for logs.
	Tags map[string]string `json:"tags,omitempty"`

	// The handlers of the route. At least one. Behind the last one the connection goes on to what follows the router.
	HandlersRaw []json.RawMessage `json:"handle,omitempty" caddy:"namespace=layer4.handlers inline_key=handler"`

	handlers chain
}

// Fallback is what happens to connections for which there is no route.
type Fallback struct {
	// The reasons it is for: `not_tls`, `malformed_record`, `malformed_handshake`, `fragmented` (the deadline has
	// passed), `too_large`, `no_sni`, `ech_outer_absent`, `sni_unmatched`, `alpn_unmatched`. Default: all of these.
	Reasons []string `json:"reasons,omitempty"`

	// The handlers. At least one. They see the connection from its first byte.
	HandlersRaw []json.RawMessage `json:"handle,omitempty" caddy:"namespace=layer4.handlers inline_key=handler"`
}

// CaddyModule returns the Caddy module information.
func (*Router) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{
		ID:  "layer4.handlers.sni_router",
		New: func() caddy.Module { return new(Router) },
	}
}

// Provision builds the table and loads the handlers of all routes.
func (h *Router) Provision(ctx caddy.Context) error {
	h.logger = ctx.Logger()
	table, owner, err := h.Compile()
	if err != nil {
		return err
	}
	h.reader.cfg = defaults
	h.reader.cfg.Table = table
	if err := addrcheck.Handler(ctx); err != nil {
		return err
	}
	if h.reader.app, err = sluiceapp.Of(ctx); err != nil {
		return err
	}
	if err := h.warnOverlap(ctx); err != nil {
		return err
	}
	for i, route := range h.Routes {
		if route.handlers, err = loadChain(ctx, route); err != nil {
			return fmt.Errorf("routes[%d].handle: %w", i, err)
		}
	}
	if err := h.provisionFallbacks(ctx, owner); err != nil {
		return err
	}
	return metrics.register(ctx.GetMetricsRegistry())
}

// Compile checks all settings that don't need other modules. It returns the routing table, and which entry of Fallback
// takes which reason.
func (h *Router) Compile() (*snitable.Table, map[preread.Reason]int, error) {
	table, err := h.Table()
	if err != nil {
		return nil, nil, err
	}
	owner, err := h.fallbackReasons()
	if err != nil {
		return nil, nil, err
	}
	for i, route := range h.Routes {
		if len(route.HandlersRaw) == 0 {
			return nil, nil, fmt.Errorf("routes[%d].handle: %w", i, errNoHandler)
		}
	}
	for i, fallback := range h.Fallback {
		if len(fallback.HandlersRaw) == 0 {
			return nil, nil, fmt.Errorf("fallback[%d].handle: %w", i, errNoHandler)
		}
	}
	return table, owner, nil
}

// Table returns the routing table.
func (h *Router) Table() (*snitable.Table, error) {
	if len(h.Routes) == 0 && len(h.Fallback) == 0 {
		return nil, fmt.Errorf("routes: there is neither a route nor a fallback")
	}
	if h.Alert != "" && h.Alert != "on" && h.Alert != "off" {
		return nil, fmt.Errorf("alert: %q is neither \"on\" nor \"off\"", h.Alert)
	}
	repl := caddy.NewReplacer()
	rows := make([]snitable.Route, len(h.Routes))
	for i, route := range h.Routes {
		if route == nil {
			return nil, fmt.Errorf("routes[%d]: is null", i)
		}
		rows[i].ALPN = route.ALPN
		for _, name := range route.Names {
			value, err := repl.ReplaceOrErr(name, true, true)
			if err != nil {
				return nil, fmt.Errorf("routes[%d].names: %q: %w", i, name, err)
			}
			rows[i].Names = append(rows[i].Names, value)
		}
	}
	return snitable.New(rows)
}

// provisionFallbacks loads the handlers of each fallback and enters them under its reasons.
func (h *Router) provisionFallbacks(ctx caddy.Context, owner map[preread.Reason]int) error {
	for i, fallback := range h.Fallback {
		handlers, err := loadChain(ctx, fallback)
		if err != nil {
			return fmt.Errorf("fallback[%d].handle: %w", i, err)
		}
		for reason, j := range owner {
			if i == j {
				h.fallbacks[reason] = handlers
			}
		}
	}
	return nil
}

// fallbackReasons returns which entry of Fallback takes which reason.
func (h *Router) fallbackReasons() (map[preread.Reason]int, error) {
	owner := make(map[preread.Reason]int)
	for i, fallback := range h.Fallback {
		if fallback == nil {
			return nil, fmt.Errorf("fallback[%d]: is null", i)
		}
		reasons, err := fallback.reasons()
		if err != nil {
			return nil, fmt.Errorf("fallback[%d].reasons: %w", i, err)
		}
		for _, reason := range reasons {
			if j, taken := owner[reason]; taken {
				return nil, fmt.Errorf("fallback[%d].reasons: %q is in fallback %d already", i, reason, j)
			}
			owner[reason] = i
		}
	}
	return owner, nil
}

// fallbackReasons lists the reasons that can have a fallback.
func fallbackReasons() string {
	var names []string
	for reason := range preread.Reasons() {
		if !closes(reason) {
			names = append(names, reason.String())
		}
	}
	return strings.Join(names, ", ")
}

// reasons returns the reasons that a fallback is for.
func (f *Fallback) reasons() ([]preread.Reason, error) {
	var reasons []preread.Reason
	for _, name := range f.Reasons {
		reason, ok := preread.ParseReason(name)
		if !ok {
			return nil, fmt.Errorf("%q is not a reason; must be one of %s", name, fallbackReasons())
		}
		if closes(reason) {
			return nil, fmt.Errorf("%q can't have a fallback: such a connection is always closed", name)
		}
		reasons = append(reasons, reason)
	}
	if len(f.Reasons) > 0 {
		return reasons, nil
	}
	for reason := range preread.Reasons() {
		if !closes(reason) {
			reasons = append(reasons, reason)
		}
	}
	return reasons, nil
}

// closes says whether a connection with this reason is closed in every case: the client is gone, or it is not who
// it should be.
func closes(r preread.Reason) bool {
	return r == preread.FrontClosed || r == preread.ProxyHeaderInvalid
}

// Handle routes the connection. If no preread ran before, it reads the hello first.
func (h *Router) Handle(cx *layer4.Connection, next layer4.Handler) error {
	sess := session.Inside(cx)
	if sess == nil {
		return session.First(cx, h, next, h.logger)
	}
	w, err := h.route(cx, sess, next)
	if w == nil {
		return err
	}
	return w.first.Handle(w.cx, &w.rest)
}

// way is how a connection goes on.
type way struct {
	cx    *layer4.Connection
	first layer4.NextHandler
	rest  link
}

// route returns the way that the connection is to go on; nil if it is not to.
func (h *Router) route(cx *layer4.Connection, sess *session.Session, next layer4.Handler) (*way, error) {
	if sess.CloseReason() != session.Open {
		return nil, nil // it was stopped from outside
	}
	var verdict *preread.Verdict
	if sess.Preread {
		offstack.Call(func() { verdict = h.resolve(sess) })
	} else {
		if !h.reader.app.Admit(sess) {
			return nil, nil
		}
		metrics.begin(sess)
		r := h.reader.read(cx, sess)
		if r.cx == nil {
			return nil, r.err
		}
		cx, verdict = r.cx, &r.verdict
	}
	handlers, goesOn := h.decide(sess, verdict)
	if !goesOn {
		refuse(cx, sess, h.logger, h.Alert != "off")
		return nil, nil
	}
	if len(handlers) == 0 {
		handlers = through
	}
	return &way{cx, handlers[0], link{handlers[1:], next}}, nil
}

// through are the handlers of a connection that goes on to what follows the router.
var through = chain{layer4.NextHandlerFunc(func(cx *layer4.Connection, next layer4.Handler) error { return next.Handle(cx) })}

// resolve asks the table about a hello that an earlier handler has read.
func (h *Router) resolve(sess *session.Session) *preread.Verdict {
	if sess.Hello == nil {
		return &preread.Verdict{Kind: preread.Reject, Reason: sess.Reason}
	}
	hello := clienthello.Hello{ServerName: []byte(sess.Hello.ServerName), ALPN: sess.Hello.ALPN, ECH: sess.Hello.ECH}
	_, match, reason := preread.Resolve(h.reader.cfg.Table, &hello)
	if reason != preread.None {
		return &preread.Verdict{Kind: preread.Reject, Reason: reason, Match: match}
	}
	return &preread.Verdict{Kind: preread.Routed, Match: match}
}

// decide returns the handlers of the route or of the fallback. It says whether the connection goes on at all.
func (h *Router) decide(sess *session.Session, v *preread.Verdict) (handlers chain, goesOn bool) {
	sess.Set(func() { sess.Reason, sess.Pattern = v.Reason, v.Match.Pattern })
	if v.Reason == preread.None {
		route := h.Routes[v.Match.Route]
		sess.Set(func() { sess.Routed, sess.Protocol, sess.Tags = true, v.Match.Protocol, route.Tags })
		metrics.routed.Inc()
		return route.handlers, true
	}
	if fallback := h.fallbacks[v.Reason]; fallback != nil {
		sess.Routed = true
		metrics.fallback.WithLabelValues(v.Reason.String()).Inc()
		return fallback, true
	}
	if sess.HandsOver && !closes(v.Reason) {
		sess.Routed = true
		return nil, true
	}
	return nil, false
}

// refuse ends a connection for its preread reason. A client's misbehaviour is worth a line at Debug only: the
// counters show how often it happens, and a stranger must not be able to fill the log.
func refuse(cx *layer4.Connection, sess *session.Session, logger *zap.Logger, alert bool) {
	sess.Reject()
	if entry := logger.Check(zap.DebugLevel, "rejected connection"); entry != nil {
		fields := []zap.Field{
			zap.String("remote", sess.Client.String()),
			zap.String("listener", sess.Listener.String()),
			zap.Stringer("reason", sess.Reason),
			zap.Duration("duration", sess.PrereadTime),
		}
		if sess.Hello != nil {
			fields = append(fields, zap.String("server_name", sess.Hello.ServerName),
				zap.String("alpn", session.FormatALPN(sess.Hello.ALPN)))
		}
		entry.Write(fields...)
	}
	if alert {
		sendAlert(beneath(cx.Conn), sess.Reason)
	}
}

// beneath returns the connection without the bytes put back in front of it, which nobody is going to read.
func beneath(conn net.Conn) net.Conn {
	if c, ok := conn.(*replay.Conn); ok {
		return c.Conn
	}
	return conn
}

// Interface guards
var (
	_ caddy.Provisioner  = (*Router)(nil)
	_ layer4.NextHandler = (*Router)(nil)
)
