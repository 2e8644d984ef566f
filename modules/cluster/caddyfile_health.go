package cluster

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"

	"github.com/caddy-sluice/sluice/caddyfile/args"
	"github.com/caddy-sluice/sluice/modules/healthchecks"
)

// unmarshal reads the active checks. Options that all checks have stand in the same block as those of the check. Syntax:
//
//	health <check> [<arguments...>] {
//		interval <duration>
//		timeout  <duration>
//		rise     <number>
//		fall     <number>
//		<options of the check>
//	}
func (h *Health) unmarshal(d *caddyfile.Dispenser) error {
	name, err := guest(d, healthchecks.Namespace, "a check")
	if err != nil {
		return err
	}
	check, err := args.Extract(d, h.unmarshalOption, "interval", "timeout", "rise", "fall")
	if err != nil {
		return err
	}
	check.Next() // to the name, for which UnmarshalModule looks
	module, err := caddyfile.UnmarshalModule(check, healthchecks.Namespace+"."+name)
	if err != nil {
		if strings.Contains(err.Error(), "unrecognized option") {
			err = fmt.Errorf("%w; any check has interval, timeout, rise and fall too", err) // the check knows its own only
		}
		return err
	}
	h.CheckRaw, err = args.Module(d, module, "type", name)
	return err
}

// unmarshalOption reads the common option at which d stands.
func (h *Health) unmarshalOption(d *caddyfile.Dispenser) (err error) {
	switch d.Val() {
	case "interval":
		h.Interval, err = args.Duration(d)
	case "timeout":
		h.Timeout, err = args.Duration(d)
	case "rise":
		h.Rise, err = within(d, 1, maxStreak)
	case "fall":
		h.Fall, err = within(d, 1, maxStreak)
	}
	return err
}

// unmarshalOption reads the option at which d stands.
func (p *Passive) unmarshalOption(d *caddyfile.Dispenser) (err error) {
	switch d.Val() {
	case "fall":
		p.Fall, err = within(d, 1, maxStreak)
	case "rise":
		p.Rise, err = within(d, 1, maxStreak)
	case "unhealthy_status":
		p.UnhealthyStatus, err = args.Many(d)
	case "retry_after":
		p.RetryAfter, err = args.Duration(d)
	default:
		err = d.Errf("unrecognized option %q: expected fall, rise, unhealthy_status or retry_after", d.Val())
	}
	return err
}

// unmarshalOption reads the option at which d stands.
func (o *Outlier) unmarshalOption(d *caddyfile.Dispenser) (err error) {
	switch d.Val() {
	case "consecutive_failures":
		o.ConsecutiveFailures, err = within(d, 1, maxStreak)
	case "ejection_time":
		o.EjectionTime, err = args.Duration(d)
	case "max_ejection_time":
		o.MaxEjectionTime, err = args.Duration(d)
	case "max_ejection_percent":
		o.MaxEjectionPercent, err = percent(d, 1, 100)
	case "failure_status":
		o.FailureStatus, err = args.Many(d)
	case "check_unejects":
		o.CheckUnejects, err = true, args.None(d)
	default:
		err = d.Errf("unrecognized option %q: expected consecutive_failures, ejection_time, max_ejection_time, "+
			"max_ejection_percent, failure_status or check_unejects", d.Val())
	}
	return err
}

// unmarshal reads how the weight grows. Syntax:
//
//	slow_start <duration> {
//		min_percent <percent>[%]
//		aggression  <number>
//		after_ejection
//	}
func (s *SlowStart) unmarshal(d *caddyfile.Dispenser) (err error) {
	if s.Window, err = args.Duration(d); err != nil {
		return err
	}
	return args.Options(d, s.unmarshalOption)
}

// unmarshalOption reads the option at which d stands.
func (s *SlowStart) unmarshalOption(d *caddyfile.Dispenser) (err error) {
	switch d.Val() {
	case "min_percent":
		s.MinPercent, err = percent(d, 1, 100)
	case "aggression":
		s.Aggression, err = decimal(d)
	case "after_ejection":
		s.AfterEjection, err = true, args.None(d)
	default:
		err = d.Errf("unrecognized option %q: expected min_percent, aggression or after_ejection", d.Val())
	}
	return err
}

// percent reads a percentage of an option that has percent in its name.
func percent(d *caddyfile.Dispenser, low, high int) (*int, error) {
	n, err := args.PercentOrNumber(d, low, high)
	return &n, err
}

// decimal reads a number that may have decimals.
func decimal(d *caddyfile.Dispenser) (*float64, error) {
	name := d.Val()
	value, err := args.One(d)
	if err != nil {
		return nil, err
	}
	n, err := strconv.ParseFloat(value, 64)
	if err != nil || math.IsNaN(n) || math.IsInf(n, 0) { // of which JSON has neither
		return nil, d.Errf("%s: %q is not a number", name, value)
	}
	return &n, nil
}
