package admission

import (
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"

	"github.com/caddy-sluice/sluice/caddyfile/args"
)

// UnmarshalCaddyfile reads the handler. Syntax:
//
//	admission {
//		max_connections        <number>
//		max_connections_per_ip <number>
//		ipv6_prefix            <bits>
//	}
func (h *Handler) UnmarshalCaddyfile(d *caddyfile.Dispenser) error {
	d.Next() // consume handler name
	return args.Block(d, h.unmarshalOption)
}

// unmarshalOption reads the option at which d stands.
func (h *Handler) unmarshalOption(d *caddyfile.Dispenser) (err error) {
	switch d.Val() {
	case "max_connections":
		h.MaxConnections, err = args.Int(d)
	case "max_connections_per_ip":
		h.MaxConnectionsPerIP, err = args.Int(d)
	case "ipv6_prefix":
		var bits int64
		bits, err = args.Int(d)
		h.IPv6Prefix = int(bits)
	default:
		err = d.Errf("unrecognized option %q: expected max_connections, max_connections_per_ip or ipv6_prefix", d.Val())
	}
	return err
}

// Interface guards
var _ caddyfile.Unmarshaler = (*Handler)(nil)
