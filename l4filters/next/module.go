// Package next hands a connection to whatever follows the handler it stands in.
package next

import (
	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
	"github.com/mholt/caddy-l4/layer4"

	"github.com/caddy-sluice/sluice/caddyfile/args"
)

func init() {
	caddy.RegisterModule(&Handler{})
}

// Handler is the handler `next`. It does nothing but call what comes next: in the fallback of an `sni_router` that is
// what follows the router: Caddy's own sites under the listener wrapper, the next handler elsewhere.
type Handler struct{}

// CaddyModule returns the Caddy module information.
func (*Handler) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{
		ID:  "layer4.handlers.next",
		New: func() caddy.Module { return new(Handler) },
	}
}

// Handle calls next.
func (*Handler) Handle(cx *layer4.Connection, next layer4.Handler) error { return next.Handle(cx) }

// UnmarshalCaddyfile reads the handler. Syntax:
//
//	next
func (*Handler) UnmarshalCaddyfile(d *caddyfile.Dispenser) error {
	d.Next() // consume handler name
	return args.None(d)
}

// Interface guards
var (
	_ layer4.NextHandler    = (*Handler)(nil)
	_ caddyfile.Unmarshaler = (*Handler)(nil)
)
