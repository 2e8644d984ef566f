package explain

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/caddyserver/caddy/v2"

	"github.com/caddy-sluice/sluice/caddyfile/ipranges"
	"github.com/caddy-sluice/sluice/internal/preread"
	"github.com/caddy-sluice/sluice/internal/proxyheader"
	"github.com/caddy-sluice/sluice/l4sni"
)

// config is the part of a Caddy config in which layer-4 routes can stand.
type config struct {
	Apps struct {
		Layer4 struct {
			Servers map[string]server `json:"servers"`
		} `json:"layer4"`
		HTTP struct {
			HTTPPort  uint              `json:"http_port"`
			HTTPSPort uint              `json:"https_port"`
			Servers   map[string]server `json:"servers"`
		} `json:"http"`
	} `json:"apps"`
}

// server is a server of either app. The routes of an HTTP server are of another kind and are not looked at.
type server struct {
	Listen   []string        `json:"listen"`
	Routes   json.RawMessage `json:"routes"`
	Wrappers []wrapper       `json:"listener_wrappers"`
	// TLSPolicies and AutoHTTPS say whether Caddy ends TLS.
	TLSPolicies []json.RawMessage `json:"tls_connection_policies"`
	AutoHTTPS   struct {
		Disable bool     `json:"disable"`
		Skip    []string `json:"skip"`
	} `json:"automatic_https"`
}

type wrapper struct {
	Wrapper       string               `json:"wrapper"`
	Routes        []route              `json:"routes"`
	ProxyProtocol *l4sni.ProxyProtocol `json:"proxy_protocol"`
}

// UnmarshalJSON looks into wrappers with layer-4 routes only: those of others may have fields of the same name.
func (w *wrapper) UnmarshalJSON(data []byte) error {
	if err := json.Unmarshal(data, &struct{ Wrapper *string }{&w.Wrapper}); err != nil {
		return err
	}
	switch w.Wrapper {
	case wrapperSluice:
		type plain wrapper
		return json.Unmarshal(data, (*plain)(w))
	case wrapperLayer4:
		return json.Unmarshal(data, &struct{ Routes *[]route }{&w.Routes})
	}
	return nil
}

const (
	wrapperSluice = "sluice"
	wrapperLayer4 = "layer4"
)

type route struct {
	Match  []map[string]json.RawMessage `json:"match"`
	Handle []json.RawMessage            `json:"handle"`
}

// keepers are the handlers that nothing comes behind: they serve the connection to its end.
var keepers = map[string]bool{"forward": true, "proxy": true, "close": true, "echo": true, "socks5": true}

// walk goes through a config in the order in which a connection does.
type walk struct {
	listen []string
	// endsTLS is set where no ClientHello comes, since TLS was ended before.
	endsTLS bool
	// handsOver is set where a connection that no handler takes goes on to Caddy's HTTP app.
	handsOver bool
	answers   []answer
}

// stream is what is known about the connection at a point of the walk.
type stream struct {
	flight
	// read is what a handler before this point has read; nil if none has.
	read *reading
	// lost says why the connection does not come to this point; empty if it does.
	lost string
	// conditions are the matchers on the way, behind the handlers and listener wrappers. Neither are run.
	conditions, behind []string
}

// explain asks every sni_router of a config about a flight.
func explain(raw []byte, f flight) ([]answer, error) {
	var c config
	if err := json.Unmarshal(raw, &c); err != nil {
		return nil, err
	}
	var answers []answer
	for _, name := range slices.Sorted(maps.Keys(c.Apps.Layer4.Servers)) {
		found, err := explainServer("apps.layer4.servers."+name, c.Apps.Layer4.Servers[name], f)
		if err != nil {
			return nil, err
		}
		answers = append(answers, found...)
	}
	for _, name := range slices.Sorted(maps.Keys(c.Apps.HTTP.Servers)) {
		found, err := c.explainWrappers("apps.http.servers."+name, c.Apps.HTTP.Servers[name], f)
		if err != nil {
			return nil, err
		}
		answers = append(answers, found...)
	}
	return answers, nil
}

// explainServer goes through a server of the layer4 app.
func explainServer(path string, s server, f flight) ([]answer, error) {
	w := walk{listen: s.Listen}
	var routes []route
	if len(s.Routes) > 0 {
		if err := json.Unmarshal(s.Routes, &routes); err != nil {
			return nil, fmt.Errorf("%s.routes: %w", path, err)
		}
	}
	begin := stream{flight: f}
	if onlyUDP(s.Listen) {
		begin.lost = "only stream connections can be preread, not udp"
	}
	_, err := w.routes(path+".routes", routes, begin)
	return w.answers, err
}

// explainWrappers goes through the listener wrappers of a server of the HTTP app.
func (c *config) explainWrappers(path string, s server, f flight) ([]answer, error) {
	w := walk{listen: s.Listen}
	st := stream{flight: f}
	for i, wrapper := range s.Wrappers {
		w.handsOver = wrapper.Wrapper == wrapperSluice
		at := fmt.Sprintf("%s.listener_wrappers[%d]", path, i)
		var err error
		if w.endsTLS, err = c.endsTLS(s, i); err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		err = st.readHeader("listener wrapper at "+at, at, wrapper.ProxyProtocol)
		if err != nil {
			return nil, err
		}
		if st, err = w.routes(at+".routes", wrapper.Routes, st); err != nil {
			return nil, err
		}
		// The next wrapper gets another connection, without what was known about this one.
		st.read = nil
		st.behind = append(slices.Clip(st.behind), "listener wrapper "+wrapper.Wrapper)
	}
	return w.answers, nil
}

// routes goes through routes and returns the stream behind them. Behind a route with matchers it is as if they had
// not matched.
func (w *walk) routes(path string, routes []route, s stream) (stream, error) {
	for i, r := range routes {
		at := fmt.Sprintf("%s[%d]", path, i)
		inside := s
		if len(r.Match) > 0 {
			inside.conditions = append(slices.Clip(s.conditions), at+".match: "+describeMatch(r.Match))
		}
		behind, err := w.handlers(at+".handle", r.Handle, inside)
		if err != nil {
			return s, err
		}
		if len(r.Match) == 0 {
			s = behind
		}
	}
	return s, nil
}

// handlers goes through a list of handlers and returns the stream behind them.
func (w *walk) handlers(path string, list []json.RawMessage, s stream) (stream, error) {
	for i, raw := range list {
		at := fmt.Sprintf("%s[%d]", path, i)
		var err error
		if s, err = w.handler(at, raw, s); err != nil {
			return s, err
		}
	}
	return s, nil
}

func (w *walk) handler(path string, raw json.RawMessage, s stream) (stream, error) {
	var fields map[string]json.RawMessage
	var name string
	err := json.Unmarshal(raw, &fields)
	if err == nil {
		err = json.Unmarshal(fields["handler"], &name)
	}
	if err != nil {
		return s, fmt.Errorf("%s: reading the name of the handler: %w", path, err)
	}
	delete(fields, "handler")
	switch name {
	case "sni_router":
		var router l4sni.Router
		if err := decodeModule(path, fields, &router); err != nil {
			return s, err
		}
		return w.router(path, &router, s)
	case "preread":
		var handler l4sni.Preread
		if err := decodeModule(path, fields, &handler); err != nil {
			return s, err
		}
		return s.preread(path, &handler)
	}
	s.behind = append(slices.Clip(s.behind), name)
	return w.others(path, name, fields, s)
}

// others goes on behind a handler that is not ours to explain, and into the routes and handlers in it.
func (w *walk) others(path, name string, fields map[string]json.RawMessage, s stream) (stream, error) {
	var routes []route
	if json.Unmarshal(fields["routes"], &routes) == nil {
		var err error
		if s, err = w.routes(path+".routes", routes, s); err != nil {
			return s, err
		}
	}
	var branch []json.RawMessage
	if json.Unmarshal(fields["branch"], &branch) == nil {
		if _, err := w.handlers(path+".branch", branch, s); err != nil {
			return s, err
		}
	}
	if keepers[name] && s.lost == "" {
		s.lost = fmt.Sprintf("the handler %s at %s keeps the connection", name, path)
	}
	return s, nil
}

// decodeModule decodes the fields of a module, and refuses those that it does not have.
func decodeModule(path string, fields map[string]json.RawMessage, module any) error {
	raw, err := json.Marshal(fields)
	if err == nil {
		err = caddy.StrictUnmarshalJSON(raw, module)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return nil
}

// preread lets the handler read.
func (s stream) preread(path string, h *l4sni.Preread) (stream, error) {
	cfg, err := h.Config()
	if err != nil {
		return s, fmt.Errorf("%s: %w", path, err)
	}
	headerOnly, err := h.HeaderOnly()
	if err != nil {
		return s, fmt.Errorf("%s: %w", path, err)
	}
	if headerOnly {
		err = s.readHeader("preread at "+path, path, h.ProxyProtocol)
		return s, err
	}
	if cfg.Proxy, err = s.mustSendHeader(path, h.ProxyProtocol); err != nil {
		return s, err
	}
	s.take(cfg)
	return s, nil
}

// mustSendHeader says whether a handler or wrapper with this setting demands a PROXY header.
func (s *stream) mustSendHeader(path string, p *l4sni.ProxyProtocol) (bool, error) {
	if p == nil {
		return false, nil
	}
	from, err := ipranges.Parse(p.From)
	if err == nil && len(from) == 0 {
		err = errors.New("must name the peers that send a header")
	}
	if err != nil {
		return false, fmt.Errorf("%s: proxy_protocol.from: %w", path, err)
	}
	return s.sendsHeader(from), nil
}

// readHeader lets somebody read a PROXY header, and nothing else. It is gone afterwards, and who it names is the peer.
func (s *stream) readHeader(who, path string, p *l4sni.ProxyProtocol) error {
	must, err := s.mustSendHeader(path, p)
	if err != nil || !must || s.lost != "" || s.read != nil {
		return err
	}
	var parser proxyheader.Parser
	switch parser.Parse(s.bytes) {
	case proxyheader.NeedMore:
		s.lost = fmt.Sprintf("the %s waits for the rest of the PROXY header", who)
	case proxyheader.Invalid:
		s.lost = fmt.Sprintf("the %s closes the connection: the peer must send a PROXY header, and these bytes can't become one", who)
	default:
		header := parser.Header()
		s.bytes = s.bytes[header.Len:]
		if header.Source.IsValid() {
			s.peer = header.Source.Addr().Unmap()
		}
	}
	return nil
}

// take reads the stream, unless a preread before has. A PROXY header is gone afterwards, and who it names is the peer.
func (s *stream) take(cfg preread.Config) {
	if s.read != nil {
		return
	}
	s.read = readWith(cfg, s.bytes)
	s.bytes = s.bytes[s.read.offset:]
	if s.read.client.IsValid() {
		s.peer = s.read.client
	}
}

// describeMatch lists the matchers of a route's sets.
func describeMatch(sets []map[string]json.RawMessage) string {
	var all []string
	for _, set := range sets {
		all = append(all, strings.Join(slices.Sorted(maps.Keys(set)), " and "))
	}
	return strings.Join(all, ", or ")
}

// describe names a handler, with where it sends the connection if it is one that does.
func describe(raw json.RawMessage) string {
	var h struct {
		Handler   string
		Upstream  string
		Cluster   string
		Upstreams []struct{ Dial []string }
	}
	// Fields of another type than expected are another handler's: then there is its name.
	_ = json.Unmarshal(raw, &h)
	words := []string{h.Handler}
	for _, upstream := range h.Upstreams {
		words = append(words, upstream.Dial...)
	}
	words = append(words, h.Upstream, h.Cluster)
	words = slices.DeleteFunc(words, func(word string) bool { return word == "" })
	return caddy.NewReplacer().ReplaceKnown(strings.Join(words, " "), "")
}

func describeAll(list []json.RawMessage) []string {
	var all []string
	for _, raw := range list {
		all = append(all, describe(raw))
	}
	return all
}
