package validaterequest

import (
	"slices"

	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
	"github.com/caddyserver/caddy/v2/caddyconfig/httpcaddyfile"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/caddy-sluice/sluice/caddyfile/args"
)

// directive is the name of the directive.
const directive = "validate_request"

func init() {
	httpcaddyfile.RegisterHandlerDirective(directive, parse)
	// In front of all that look at a request, but for those that measure it and `admission`.
	httpcaddyfile.RegisterDirectiveOrder(directive, httpcaddyfile.Before, "map")
}

// parse reads the directive.
func parse(helper httpcaddyfile.Helper) (caddyhttp.MiddlewareHandler, error) {
	h := new(Handler)
	return h, h.UnmarshalCaddyfile(helper.Dispenser)
}

// UnmarshalCaddyfile reads the handler. Syntax:
//
//	validate_request [<matcher>] {
//		reserved_headers     <names...>|off
//		dot_segments         refuse|allow
//		encoded_dot_segments refuse|allow
//		encoded_slashes      refuse|allow
//		max_forwards         on|off
//	}
func (h *Handler) UnmarshalCaddyfile(d *caddyfile.Dispenser) error {
	d.Next() // consume directive name
	return args.Block(d, h.unmarshalOption)
}

// unmarshalOption reads the option at which d stands.
func (h *Handler) unmarshalOption(d *caddyfile.Dispenser) (err error) {
	switch d.Val() {
	case "reserved_headers":
		err = h.unmarshalReserved(d)
	case "dot_segments":
		h.DotSegments, err = args.Word(d, refuse, allow)
	case "encoded_dot_segments":
		h.EncodedDotSegments, err = args.Word(d, refuse, allow)
	case "encoded_slashes":
		h.EncodedSlashes, err = args.Word(d, refuse, allow)
	case "max_forwards":
		h.MaxForwards, err = args.Word(d, on, off)
	default:
		err = d.Errf("unrecognized option %q: expected reserved_headers, dot_segments, encoded_dot_segments, "+
			"encoded_slashes or max_forwards", d.Val())
	}
	return err
}

// unmarshalReserved reads names of headers, or that there are none.
func (h *Handler) unmarshalReserved(d *caddyfile.Dispenser) error {
	names, err := args.Many(d)
	switch {
	case err != nil:
		return err
	case !slices.Contains(names, off):
		h.ReservedHeaders = names
	case len(names) > 1:
		return d.Errf("reserved_headers: %s stands alone", off)
	default:
		h.ReservedHeaders = []string{}
	}
	return nil
}

// Interface guards
var _ caddyfile.Unmarshaler = (*Handler)(nil)
