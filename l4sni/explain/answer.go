package explain

import (
	"crypto/tls"
	"encoding/binary"
	"encoding/json"
	"fmt"

	"github.com/caddy-sluice/sluice/internal/clienthello"
	"github.com/caddy-sluice/sluice/internal/preread"
	"github.com/caddy-sluice/sluice/internal/snitable"
	"github.com/caddy-sluice/sluice/l4sni"
)

// What an sni_router does with a connection.
const (
	actionRoute    = "route"
	actionFallback = "fallback"
	// actionHandedOver: Caddy's own sites get it, since nobody else takes it and there is no fallback.
	actionHandedOver = "handed_over"
	actionClosed     = "closed"
)

// answer is what one sni_router does with the connection, and why.
type answer struct {
	// Path is where in the config the router stands, Listen the addresses of its server.
	Path   string   `json:"path"`
	Listen []string `json:"listen"`
	// Conditions are matchers on the way to the router, and Behind handlers before it. Neither are run.
	Conditions []string `json:"conditions,omitempty"`
	Behind     []string `json:"behind,omitempty"`
	// NotReached says why the connection does not come to this router. Then nothing follows.
	NotReached string `json:"not_reached,omitempty"`

	// Hello is what the hello says; nil when there is none.
	Hello *helloInfo `json:"hello,omitempty"`
	// Bytes is how many bytes there were for the hello, and Missing how many of it are missing at least.
	Bytes   int `json:"bytes,omitempty"`
	Missing int `json:"missing,omitempty"`

	Action string `json:"action,omitempty"`
	// Reason is why there is no route.
	Reason string `json:"reason,omitempty"`
	// Route is the index of the route or Fallback that of the fallback that takes the connection.
	Route    *int `json:"route,omitempty"`
	Fallback *int `json:"fallback,omitempty"`
	// Pattern and Protocol are what decided; Protocol is written as in ALPN.
	Pattern  string `json:"pattern,omitempty"`
	Protocol string `json:"protocol,omitempty"`
	// Handlers are those of the route or the fallback.
	Handlers []string `json:"handlers,omitempty"`
	// Alert is what a TLS client is told before the close.
	Alert *l4sni.Alert `json:"alert,omitempty"`
	// Because explains it in words.
	Because string `json:"because,omitempty"`
}

// helloInfo is what a hello says.
type helloInfo struct {
	Size    int `json:"size"`
	Records int `json:"records"`
	// ServerName is the name as it was sent.
	ServerName string `json:"server_name"`
	// ALPN are the protocols in the client's order, with bytes that don't print written as \xNN.
	ALPN     []string `json:"alpn"`
	ECH      bool     `json:"ech"`
	Versions []string `json:"versions"`
}

// router asks an sni_router, and goes on into its routes and fallbacks. It returns the stream behind it.
func (w *walk) router(path string, h *l4sni.Router, s stream) (stream, error) {
	if w.endsTLS {
		return s, fmt.Errorf("%s: TLS is ended before this wrapper sees the connection: write `tls` behind it in listener_wrappers", path)
	}
	table, owner, err := h.Compile()
	if err != nil {
		return s, fmt.Errorf("%s: %w", path, err)
	}
	a := answer{Path: path, Listen: w.listen, Conditions: s.conditions, Behind: s.behind, NotReached: s.lost}
	if s.lost == "" {
		if err := s.readDefaults(); err != nil {
			return s, err
		}
		w.decide(&a, h, s.read, table, owner)
	}
	w.answers = append(w.answers, a)
	return w.inside(path, h, &a, s)
}

// readDefaults reads as a router does that has no preread before it.
func (s *stream) readDefaults() error {
	if s.read != nil {
		return nil
	}
	cfg, err := new(l4sni.Preread).Config()
	if err != nil {
		return err
	}
	s.take(cfg)
	return nil
}

// decide fills in what the router does.
func (w *walk) decide(a *answer, h *l4sni.Router, r *reading, table *snitable.Table, owner map[preread.Reason]int) {
	reason, match := r.reason, snitable.Match{}
	a.Bytes, a.Missing = r.read, r.missing
	if r.hello != nil {
		a.Hello = describeHello(r.hello)
		_, match, reason = preread.Resolve(table, r.hello)
	}
	a.Pattern, a.Protocol = match.Pattern, formatProtocol(match.Protocol)
	a.Because = because(reason, match, r, h)
	if reason == preread.None {
		a.Action, a.Route = actionRoute, &match.Route
		a.Handlers = describeAll(h.Routes[match.Route].HandlersRaw)
		return
	}
	a.Reason = reason.String()
	if i, ok := owner[reason]; ok {
		a.Action, a.Fallback = actionFallback, &i
		a.Handlers = describeAll(h.Fallback[i].HandlersRaw)
		return
	}
	if w.handsOver && reason != preread.ProxyHeaderInvalid {
		a.Action = actionHandedOver
		return
	}
	a.Action = actionClosed
	if told, ok := l4sni.AlertFor(reason); ok && h.Alert != "off" {
		a.Alert = &told
	}
}

// inside goes into the routes and fallbacks of a router. The connection goes on from those that take it.
func (w *walk) inside(path string, h *l4sni.Router, a *answer, s stream) (stream, error) {
	behind := s
	if a.Action == actionClosed {
		behind.lost = fmt.Sprintf("the sni_router at %s closes the connection", path)
	}
	into := func(at string, list []json.RawMessage, taken bool) error {
		begin := s
		if !taken && s.lost == "" {
			begin.lost = fmt.Sprintf("the sni_router at %s does not send it here", path)
		}
		end, err := w.handlers(at+".handle", list, begin)
		if taken {
			behind = end
		}
		return err
	}
	for i, route := range h.Routes {
		if err := into(fmt.Sprintf("%s.routes[%d]", path, i), route.HandlersRaw, a.Route != nil && *a.Route == i); err != nil {
			return s, err
		}
	}
	for i, fallback := range h.Fallback {
		at := fmt.Sprintf("%s.fallback[%d]", path, i)
		if err := into(at, fallback.HandlersRaw, a.Fallback != nil && *a.Fallback == i); err != nil {
			return s, err
		}
	}
	return behind, nil
}

func describeHello(hello *clienthello.Hello) *helloInfo {
	info := &helloInfo{
		Size: hello.Size, Records: hello.Records, ServerName: string(hello.ServerName), ECH: hello.ECH,
		ALPN: formatEach(hello.ALPN), Versions: []string{},
	}
	versions := hello.SupportedVersions
	if len(versions) == 0 {
		versions = binary.BigEndian.AppendUint16(nil, hello.LegacyVersion)
	}
	for ; len(versions) >= 2; versions = versions[2:] {
		info.Versions = append(info.Versions, tls.VersionName(binary.BigEndian.Uint16(versions)))
	}
	return info
}

// formatEach returns the names of a list, each fit to be printed.
func formatEach(list clienthello.Protocols) []string {
	names := []string{}
	for name := range list.All() {
		names = append(names, formatProtocol(string(name)))
	}
	return names
}
