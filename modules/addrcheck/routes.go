package addrcheck

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"

	"github.com/caddyserver/caddy/v2"
	"github.com/mholt/caddy-l4/layer4"
	"go.uber.org/zap"
)

// The handlers that the checks know: ours, then some of caddy-l4's.
const (
	handlerAccessLog = "access_log"
	handlerAdmission = "admission"
	handlerIPACL     = "ip_acl"
	handlerRateLimit = "rate_limit"
	handlerPreread   = "preread"
	handlerRouter    = "sni_router"
	handlerForward   = "forward"
	handlerNext      = "next"

	handlerSubroute      = "subroute"
	handlerProxyProtocol = "proxy_protocol"
	handlerTee           = "tee"
	handlerThrottle      = "throttle"
	handlerTLS           = "tls"
	handlerVars          = "vars"
)

var (
	// filters are the handlers that do something at the end of a connection as well.
	filters = []string{handlerAccessLog, handlerAdmission, handlerIPACL, handlerRateLimit, handlerPreread}
	// passers are the handlers without branches behind which a connection goes on. Of others it is not known: they are
	// taken for the end, so that nothing is refused that might be right.
	passers = append([]string{handlerNext, handlerProxyProtocol, handlerTee, handlerThrottle, handlerTLS, handlerVars}, filters...)
)

// The faults that are refused.
var (
	errRelay = errors.New("proxy_protocol relay: no PROXY header is read on the way here; give the preread or the listener wrapper a proxy_protocol")
	errTwice = errors.New("proxy_protocol: the header would be read twice")
	errLast  = errors.New("is the last handler that a connection comes to; what stands behind it, a filter too, never runs")
)

// handler is what the checks read of a handler's JSON.
type handler struct {
	Name string `json:"handler"`
	// Routes are those of a router or subroute, Fallback those of a router.
	Routes   []route `json:"routes"`
	Fallback []route `json:"fallback"`
	// ProxyProtocol is an object for preread, a word for forward.
	ProxyProtocol json.RawMessage `json:"proxy_protocol"`
	PerIP         int64           `json:"max_connections_per_ip"`
	// Hello is off for a preread that reads the PROXY header only.
	Hello string `json:"hello"`
	// Branch are the handlers of a tee.
	Branch json.RawMessage `json:"branch"`
}

// route is a list of handlers that a connection may come to.
type route struct {
	Match    []caddy.ModuleMap `json:"match"`
	Handlers []json.RawMessage `json:"handle"`
}

// place is what has happened to a connection before it comes to a handler.
type place struct {
	// handsOver says that connections which no handler takes go on to Caddy's sites.
	handsOver bool
	// proxied says that a PROXY header has been read by us: by the wrapper if byWrapper is set. stock says that
	// caddy-l4's own handler has read one.
	proxied, byWrapper, stock bool
	// preread says that a hello has been read, after which a preread does nothing.
	preread bool
	// keyed is the handler, if there is one, that has looked at the source address before a header was read.
	keyed string
	// filter is the first filter in this route; empty if there was none.
	filter string
}

// places are the different states in which connections may come to one handler.
type places map[place]struct{}

// checkRoutes looks for the faults in a list of routes, beginning at start.
func checkRoutes(list layer4.RouteList, start place, logger *zap.Logger) error {
	in := places{start: {}}
	for i, raw := range list {
		r := route{Handlers: raw.HandlersRaw}
		out, err := r.walk(i, in)
		if err != nil {
			return err
		}
		if matches(raw) {
			maps.Copy(out, in)
		}
		in = make(places, len(out))
		filter := ""
		for p := range out {
			filter = max(filter, p.filter)
			p.filter = ""
			in[p] = struct{}{}
		}
		if filter != "" && i < len(list)-1 {
			logger.Warn("connections fall through from a route with a filter to the next route, so that the filter sees "+
				"their end too early: filters and forward belong in one route", zap.Int("route", i), zap.String("handler", filter))
		}
	}
	return nil
}

// matches says whether a route is not for every connection. Caddy loads the matchers of a route before its handlers, and
// then only an unexported field tells.
func matches(r *layer4.Route) bool {
	loaded := reflect.ValueOf(r).Elem().FieldByName("matcherSets")
	return len(r.MatcherSetsRaw) > 0 || loaded.IsValid() && loaded.Len() > 0
}

// walk takes connections through the route with this index and returns in which states they may come to the next.
func (r *route) walk(index int, in places) (places, error) {
	out, err := walk(r.Handlers, in)
	if err != nil {
		return nil, fmt.Errorf("routes[%d]: %w", index, err)
	}
	if len(r.Match) > 0 {
		maps.Copy(out, in) // those that the route does not match
	}
	return out, nil
}

// walk takes connections through a list of handlers.
func walk(list []json.RawMessage, in places) (places, error) {
	for i, raw := range list {
		var h handler
		if json.Unmarshal(raw, &h) != nil {
			return places{}, nil // Caddy or the handler itself says what is wrong with it
		}
		if h.Name == handlerForward && i < len(list)-1 {
			return nil, fmt.Errorf("%s: %w", h.Name, errLast)
		}
		out, err := h.pass(in)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", h.Name, err)
		}
		in = out
	}
	return maps.Clone(in), nil
}

// pass takes connections through a handler.
func (h *handler) pass(in places) (places, error) {
	switch h.Name {
	case handlerSubroute:
		return h.subroute(in)
	case handlerRouter:
		return h.branch(in)
	}
	out := make(places)
	for p := range in {
		if err := h.step(&p); err != nil {
			return nil, err
		}
		if slices.Contains(passers, h.Name) {
			out[p] = struct{}{}
		}
	}
	return out, nil
}

// step takes one connection through a handler without branches.
func (h *handler) step(p *place) error {
	if p.filter == "" && slices.Contains(filters, h.Name) {
		p.filter = h.Name
	}
	switch h.Name {
	case handlerPreread:
		return h.preread(p)
	case handlerProxyProtocol:
		p.stock = true
	case handlerTee:
		return h.tee()
	case handlerForward:
		if h.proxy() == `"relay"` && !p.proxied {
			return errRelay
		}
	case handlerAdmission:
		if h.PerIP > 0 {
			p.look(h.Name + " with max_connections_per_ip")
		}
	case handlerIPACL, handlerRateLimit:
		p.look(h.Name)
	}
	return nil
}

// tee refuses handlers of ours in a branch, which runs beside the other handlers: a connection has one session, in which
// one handler is at work at a time.
func (h *handler) tee() error {
	for _, name := range streamHandlers {
		if mentions(h.Branch, name) {
			return fmt.Errorf("branch: %s can't run beside the other handlers of a connection", name)
		}
	}
	return nil
}

// look notes that a handler looks at the source address.
func (p *place) look(name string) {
	if !p.proxied && p.keyed == "" {
		p.keyed = name
	}
}

func (h *handler) preread(p *place) error {
	reads := h.proxy() != ""
	switch {
	case reads && (p.stock || p.byWrapper || p.proxied && !p.preread):
		return errTwice
	case reads && !p.preread && p.keyed != "":
		return fmt.Errorf("proxy_protocol: %s stands before it and would see the address of the peer that sends the header, "+
			"not the client's; put it behind", p.keyed)
	case reads && !p.preread:
		p.proxied = true
	}
	p.preread = p.preread || h.Hello != "off"
	return nil
}

// proxy returns the JSON of ProxyProtocol; empty if there is none.
func (h *handler) proxy() string {
	if string(h.ProxyProtocol) == "null" {
		return ""
	}
	return string(h.ProxyProtocol)
}

// subroute takes connections through routes, one after the other.
func (h *handler) subroute(in places) (places, error) {
	for i := range h.Routes {
		out, err := h.Routes[i].walk(i, in)
		if err != nil {
			return nil, err
		}
		in = out
	}
	return in, nil
}

// branch takes connections through the routes and fallbacks of a router, each of which goes one of these ways.
func (h *handler) branch(in places) (places, error) {
	read, out := make(places, len(in)), make(places)
	for p := range in {
		p.preread = true
		read[p] = struct{}{}
		if p.handsOver {
			out[p] = struct{}{}
		}
	}
	for i := range h.Routes {
		left, err := h.Routes[i].walk(i, read)
		if err != nil {
			return nil, err
		}
		maps.Copy(out, left)
	}
	for i := range h.Fallback {
		left, err := walk(h.Fallback[i].Handlers, read)
		if err != nil {
			return nil, fmt.Errorf("fallback[%d]: %w", i, err)
		}
		maps.Copy(out, left)
	}
	return out, nil
}
