package ipacl

import (
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"

	"github.com/caddy-sluice/sluice/caddyfile/args"
)

// UnmarshalCaddyfile reads the handler. Each list may be given several times. Syntax:
//
//	ip_acl {
//		allow        <address|range|private_ranges>...
//		deny         <address|range|private_ranges>...
//		failure_mode closed
//	}
func (h *Handler) UnmarshalCaddyfile(d *caddyfile.Dispenser) error {
	d.Next() // consume handler name
	return args.Block(d, h.unmarshalOption, "allow", "deny")
}

// unmarshalOption reads the option at which d stands.
func (h *Handler) unmarshalOption(d *caddyfile.Dispenser) error {
	switch d.Val() {
	case "allow":
		return add(d, &h.Allow)
	case "deny":
		return add(d, &h.Deny)
	case "failure_mode":
		mode, err := args.One(d)
		h.FailureMode = mode
		return err
	}
	return d.Errf("unrecognized option %q: expected allow, deny or failure_mode", d.Val())
}

// add puts the option's arguments on a list.
func add(d *caddyfile.Dispenser, list *[]string) error {
	values, err := args.Many(d)
	*list = append(*list, values...)
	return err
}

// Interface guards
var _ caddyfile.Unmarshaler = (*Handler)(nil)
