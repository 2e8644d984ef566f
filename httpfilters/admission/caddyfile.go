package admission

import (
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
	"github.com/caddyserver/caddy/v2/caddyconfig/httpcaddyfile"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/caddy-sluice/sluice/caddyfile/args"
)

// directive is the name of the directive.
const directive = "admission"

func init() {
	httpcaddyfile.RegisterHandlerDirective(directive, parse)
	// In front of all others: what is refused is to cost nothing.
	httpcaddyfile.RegisterDirectiveOrder(directive, httpcaddyfile.Before, "tracing")
}

// parse reads the directive.
func parse(helper httpcaddyfile.Helper) (caddyhttp.MiddlewareHandler, error) {
	h := new(Handler)
	return h, h.UnmarshalCaddyfile(helper.Dispenser)
}

// UnmarshalCaddyfile reads the handler. Syntax:
//
//	admission [<matcher>] {
//		max_requests        <number>
//		max_requests_per_ip <number>
//		ipv6_prefix         <bits>
//	}
func (h *Handler) UnmarshalCaddyfile(d *caddyfile.Dispenser) error {
	d.Next() // consume directive name
	return args.Block(d, h.unmarshalOption)
}

// unmarshalOption reads the option at which d stands.
func (h *Handler) unmarshalOption(d *caddyfile.Dispenser) (err error) {
	switch d.Val() {
	case "max_requests":
		h.MaxRequests, err = args.Int(d)
	case "max_requests_per_ip":
		h.MaxRequestsPerIP, err = args.Int(d)
	case "ipv6_prefix":
		h.IPv6Prefix, err = args.Number(d, 1, maxPrefix)
	default:
		err = d.Errf("unrecognized option %q: expected max_requests, max_requests_per_ip or ipv6_prefix", d.Val())
	}
	return err
}

// Interface guards
var _ caddyfile.Unmarshaler = (*Handler)(nil)
