package l4sni

import (
	"encoding/json"

	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
	"github.com/mholt/caddy-l4/layer4"

	"github.com/caddy-sluice/sluice/caddyfile/args"
)

// UnmarshalCaddyfile reads the handler's block. Syntax:
//
//	preread {
//		timeout        <duration>
//		max_bytes      <size>
//		proxy_protocol from <ranges...>
//		hello          on|off
//	}
func (h *Preread) UnmarshalCaddyfile(d *caddyfile.Dispenser) error {
	d.Next() // consume handler name
	return args.Block(d, h.unmarshalOption)
}

func (h *Preread) unmarshalOption(d *caddyfile.Dispenser) (err error) {
	switch d.Val() {
	case "timeout":
		h.Timeout, err = args.Duration(d)
	case "max_bytes":
		h.MaxBytes, err = args.Bytes(d)
	case "proxy_protocol":
		h.ProxyProtocol, err = UnmarshalProxyProtocol(d)
	case "hello":
		h.Hello, err = args.One(d)
	default:
		err = d.Errf("unrecognized option %q: expected timeout, max_bytes, proxy_protocol or hello", d.Val())
	}
	return err
}

// UnmarshalProxyProtocol reads `proxy_protocol from <ranges...>`, at whose first word d stands.
func UnmarshalProxyProtocol(d *caddyfile.Dispenser) (*ProxyProtocol, error) {
	words, err := args.Many(d)
	if err != nil {
		return nil, err
	}
	if words[0] != "from" || len(words) == 1 {
		return nil, d.Errf("proxy_protocol: expected \"from\" and the ranges of the peers that send a header")
	}
	return &ProxyProtocol{From: words[1:]}, nil
}

// UnmarshalCaddyfile reads the handler's block. A word in a route that is not one of its options is a handler.
// Syntax:
//
//	sni_router {
//		route <names...> {
//			alpn <protocols...>
//			tags <key> <value> ...
//			<handlers>
//		}
//		fallback [<reasons...>] {
//			<handlers>
//		}
//		alert on|off
//	}
func (h *Router) UnmarshalCaddyfile(d *caddyfile.Dispenser) error {
	d.Next() // consume handler name
	if d.NextArg() {
		return d.Errf("sni_router takes no argument, got %q", d.Val())
	}
	for nesting := d.Nesting(); d.NextBlock(nesting); {
		if err := h.unmarshalOption(d); err != nil {
			return err
		}
	}
	return nil
}

func (h *Router) unmarshalOption(d *caddyfile.Dispenser) (err error) {
	switch d.Val() {
	case "route":
		route := new(Route)
		err = route.unmarshal(d)
		h.Routes = append(h.Routes, route)
	case "fallback":
		fallback := &Fallback{Reasons: d.RemainingArgs()}
		err = layer4.ParseCaddyfileNestedHandlers(d, &fallback.HandlersRaw)
		h.Fallback = append(h.Fallback, fallback)
	case "alert":
		if h.Alert != "" {
			return d.Err("alert is given twice")
		}
		h.Alert, err = args.One(d)
	default:
		err = d.Errf("unrecognized option %q: expected route, fallback or alert", d.Val())
	}
	return err
}

// unmarshal reads one route.
func (r *Route) unmarshal(d *caddyfile.Dispenser) (err error) {
	if r.Names, err = args.Many(d); err != nil {
		return err
	}
	for nesting := d.Nesting(); d.NextBlock(nesting); {
		switch d.Val() {
		case "alpn":
			if r.ALPN != nil {
				return d.Err("alpn is given twice")
			}
			r.ALPN, err = args.Many(d)
		case "tags":
			err = r.unmarshalTags(d)
		default:
			err = appendHandler(d, &r.HandlersRaw)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// unmarshalTags reads `tags <key> <value> ...`.
func (r *Route) unmarshalTags(d *caddyfile.Dispenser) error {
	words, err := args.Many(d)
	if err != nil {
		return err
	}
	if len(words)%2 != 0 {
		return d.Err("tags: expected pairs of a key and a value")
	}
	if r.Tags == nil {
		r.Tags = make(map[string]string)
	}
	for i := 0; i < len(words); i += 2 {
		if _, twice := r.Tags[words[i]]; twice {
			return d.Errf("tags: %q is given twice", words[i])
		}
		r.Tags[words[i]] = words[i+1]
	}
	return nil
}

// appendHandler reads the handler at whose name d stands.
func appendHandler(d *caddyfile.Dispenser, raw *[]json.RawMessage) error {
	name := d.Val()
	handler, err := caddyfile.UnmarshalModule(d, "layer4.handlers."+name)
	if err != nil {
		return err
	}
	config, err := args.Module(d, handler, "handler", name)
	if err != nil {
		return err
	}
	*raw = append(*raw, config)
	return nil
}

// UnmarshalCaddyfile reads the matcher. Syntax:
//
//	preread [<names...>]
//	preread {
//		names <names...>
//		alpn  <protocols...>
//		ech   [yes|no]
//	}
func (m *Matcher) UnmarshalCaddyfile(d *caddyfile.Dispenser) error {
	d.Next() // consume matcher name
	m.Names = d.RemainingArgs()
	return args.Options(d, m.unmarshalOption)
}

func (m *Matcher) unmarshalOption(d *caddyfile.Dispenser) (err error) {
	switch d.Val() {
	case "names":
		if len(m.Names) > 0 {
			return d.Err("names are given behind the matcher's name and in its block")
		}
		m.Names, err = args.Many(d)
	case "alpn":
		m.ALPN, err = args.Many(d)
	case "ech":
		m.ECH, err = unmarshalYesNo(d)
	default:
		err = d.Errf("unrecognized option %q: expected names, alpn or ech", d.Val())
	}
	return err
}

// unmarshalYesNo reads an optional yes or no; without it, yes.
func unmarshalYesNo(d *caddyfile.Dispenser) (*bool, error) {
	name := d.Val()
	words := d.RemainingArgs()
	answer := len(words) == 0 || words[0] == "yes"
	if len(words) > 1 || len(words) == 1 && words[0] != "yes" && words[0] != "no" {
		return nil, d.Errf("%s: expected yes or no", name)
	}
	return &answer, nil
}

// Interface guards
var (
	_ caddyfile.Unmarshaler = (*Preread)(nil)
	_ caddyfile.Unmarshaler = (*Router)(nil)
	_ caddyfile.Unmarshaler = (*Matcher)(nil)
)
