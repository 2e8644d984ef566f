package accesslog

import (
	"strconv"
	"strings"

	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"

	"github.com/caddy-sluice/sluice/caddyfile/args"
)

// UnmarshalCaddyfile reads the handler. Syntax:
//
//	access_log {
//		sample <percent>%
//	}
func (h *Handler) UnmarshalCaddyfile(d *caddyfile.Dispenser) error {
	d.Next() // consume handler name
	return args.Block(d, h.unmarshalOption)
}

// unmarshalOption reads the only option, a percentage.
func (h *Handler) unmarshalOption(d *caddyfile.Dispenser) error {
	if d.Val() != "sample" {
		return d.Errf("unrecognized option %q: expected sample", d.Val())
	}
	value, err := args.One(d)
	if err != nil {
		return err
	}
	number, isPercent := strings.CutSuffix(value, "%")
	percent, err := strconv.ParseFloat(number, 64)
	if err != nil || !isPercent {
		return d.Errf("sample: %q is no percentage, such as 10%%", value)
	}
	if !(percent >= 100*minSample && percent <= 100*maxSample) { // the negation also has what is no number
		return d.Errf("sample: %q is out of range, %v%% to %v%%", value, 100*minSample, 100*maxSample)
	}
	h.Sample = percent / 100
	return nil
}

// Interface guards
var _ caddyfile.Unmarshaler = (*Handler)(nil)
