package listener

import (
	"strings"

	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
	"github.com/mholt/caddy-l4/layer4"

	"github.com/caddy-sluice/sluice/l4sni"
)

// UnmarshalCaddyfile reads the wrapper's block. Syntax:
//
//	sluice {
//		proxy_protocol from <ranges...>
//		@name <matchers>
//		route [@name...] {
//			<handlers>
//		}
//		matching_timeout <duration>
//	}
func (w *Wrapper) UnmarshalCaddyfile(d *caddyfile.Dispenser) error {
	d.Next() // consume wrapper name
	if d.NextArg() {
		return d.Errf("sluice takes no argument, got %q", d.Val())
	}
	block := d.NewFromNextSegment()
	block.Next() // consume wrapper name
	for nesting := block.Nesting(); block.NextBlock(nesting); {
		if err := w.unmarshalOption(block); err != nil {
			return err
		}
	}
	block.Reset()
	block.Next() // consume wrapper name
	return layer4.ParseCaddyfileNestedRoutes(block, &w.Routes, &w.MatchingTimeout, nil)
}

// unmarshalOption takes an option that is ours out of the block, and steps over one that caddy-l4 reads. It tells what
// belongs to neither, which is mostly a handler without a route.
func (w *Wrapper) unmarshalOption(block *caddyfile.Dispenser) (err error) {
	switch word := block.Val(); {
	case word == "proxy_protocol":
		if w.ProxyProtocol != nil {
			return block.Err("proxy_protocol is given twice")
		}
		if w.ProxyProtocol, err = l4sni.UnmarshalProxyProtocol(block); err != nil {
			return err
		}
		block.DeleteN(2 + len(w.ProxyProtocol.From)) // "proxy_protocol" and "from" too
	case word == "route", word == "matching_timeout", strings.HasPrefix(word, "@"):
		block.NextSegment()
	default:
		err = block.Errf("unrecognized option %q: expected proxy_protocol, route, matching_timeout or a named matcher; handlers stand in a route", word)
	}
	return err
}
