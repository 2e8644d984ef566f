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
	if d.NextArg() {
		return d.Errf("access_log takes no argument, got %q", d.Val())
	}
	var once args.Once
	for nesting := d.Nesting(); d.NextBlock(nesting); {
		if err := once.Check(d); err != nil {
			return err
		}
		if d.Val() != "sample" {
			return d.Errf("unrecognized option %q: expected sample", d.Val())
		}
		if err := h.unmarshalSample(d); err != nil {
			return err
		}
	}
	return nil
}

// unmarshalSample reads a percentage.
func (h *Handler) unmarshalSample(d *caddyfile.Dispenser) error {
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
