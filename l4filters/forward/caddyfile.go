package forward

import (
	"strings"

	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"

	"github.com/caddy-sluice/sluice/caddyfile/args"
)

// UnmarshalCaddyfile reads the handler. Syntax:
//
//	forward <address> {
//		connect_timeout <duration>
//	}
func (h *Handler) UnmarshalCaddyfile(d *caddyfile.Dispenser) (err error) {
	d.Next() // consume handler name
	if h.Upstream, err = args.One(d); err != nil {
		return err
	}
	// A placeholder is replaced where the config is loaded, not where it is adapted.
	if _, _, err := parseUpstream(h.Upstream); err != nil && !strings.Contains(h.Upstream, "{") {
		return d.WrapErr(err)
	}
	var once args.Once
	for nesting := d.Nesting(); d.NextBlock(nesting); {
		if err := once.Check(d); err != nil {
			return err
		}
		switch d.Val() {
		case "connect_timeout":
			h.ConnectTimeout, err = args.Duration(d)
		default:
			err = d.Errf("unrecognized option %q: expected connect_timeout", d.Val())
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// Interface guards
var _ caddyfile.Unmarshaler = (*Handler)(nil)
