package cluster

import (
	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"

	"github.com/caddy-sluice/sluice/caddyfile/args"
	"github.com/caddy-sluice/sluice/internal/health"
)

// unmarshalOption reads the limit at which d stands.
func (l *EndpointLimits) unmarshalOption(d *caddyfile.Dispenser) error {
	if known, err := l.unmarshalLimit(d); known || err != nil {
		return err
	}
	return d.Errf("unrecognized option %q: expected max_connections, max_pending, max_requests or max_retries", d.Val())
}

// unmarshalOption reads the limit at which d stands.
func (l *Limits) unmarshalOption(d *caddyfile.Dispenser) (err error) {
	if known, err := l.unmarshalLimit(d); known || err != nil {
		return err
	}
	if d.Val() != "max_connections_per_ip" {
		return d.Errf("unrecognized option %q: expected max_connections, max_pending, max_requests, max_retries or "+
			"max_connections_per_ip", d.Val())
	}
	l.MaxConnectionsPerIP, err = limit(d)
	return err
}

// unmarshalLimit reads the limit at which d stands, if it is one that an endpoint can have.
func (l *EndpointLimits) unmarshalLimit(d *caddyfile.Dispenser) (known bool, err error) {
	var to **int64
	switch d.Val() {
	case "max_connections":
		to = &l.MaxConnections
	case "max_pending":
		to = &l.MaxPending
	case "max_requests":
		to = &l.MaxRequests
	case "max_retries":
		to = &l.MaxRetries
	default:
		return false, nil
	}
	*to, err = limit(d)
	return true, err
}

// limit reads a limit.
func limit(d *caddyfile.Dispenser) (*int64, error) {
	n, err := args.Number(d, 1, maxLimit)
	value := int64(n)
	return &value, err
}

// unmarshal reads which failures are tried again. Syntax:
//
//	retry {
//		max        <number>
//		on         <failures...>
//		status     <statuses...>
//		methods    <methods...>
//		backoff    <base> [<cap>]
//		budget     <percent>% {
//			min <number>
//		}
//		body_limit <size>
//	}
func (r *Retry) unmarshal(d *caddyfile.Dispenser) error {
	if err := args.Block(d, r.unmarshalOption); err != nil {
		return err
	}
	if r.Max == 0 {
		return d.Err("retry needs max, the number of retries that a request may have")
	}
	return nil
}

// unmarshalOption reads the option at which d stands.
func (r *Retry) unmarshalOption(d *caddyfile.Dispenser) (err error) {
	switch d.Val() {
	case "max":
		r.Max, err = args.Number(d, 1, health.MaxRetries)
	case "on":
		r.On, err = args.Many(d)
	case "status":
		r.Status, err = args.Many(d)
	case "methods":
		r.Methods, err = args.Many(d)
	case "backoff":
		err = r.unmarshalBackoff(d)
	case "budget":
		err = r.unmarshalBudget(d)
	case "body_limit":
		var size int64
		size, err = args.BytesIn(d, 0, maxBodyLimit)
		r.BodyLimit = &size
	default:
		err = d.Errf("unrecognized option %q: expected one of max, on, status, methods, backoff, budget, body_limit", d.Val())
	}
	return err
}

// unmarshalBackoff reads the bounds of the wait before a retry: the first one, and the largest.
func (r *Retry) unmarshalBackoff(d *caddyfile.Dispenser) error {
	values, err := args.Many(d)
	if err != nil {
		return err
	}
	if len(values) > 2 {
		return d.Errf("backoff takes a base and a cap, got also %q", values[2])
	}
	for i, to := range []*caddy.Duration{&r.BackoffBase, &r.BackoffCap}[:len(values)] {
		bound, err := caddy.ParseDuration(values[i])
		if err != nil {
			return d.Errf("backoff: %v", err)
		}
		if bound <= 0 {
			return d.Errf("backoff: %q is not a positive duration", values[i])
		}
		*to = caddy.Duration(bound)
	}
	return nil
}

// unmarshalBudget reads the share of the requests that may be retries.
func (r *Retry) unmarshalBudget(d *caddyfile.Dispenser) error {
	percent, err := args.Percent(d, 1, 100)
	if err != nil {
		return err
	}
	r.BudgetPercent = &percent
	return args.Options(d, func(d *caddyfile.Dispenser) (err error) {
		if d.Val() != "min" {
			return d.Errf("unrecognized option %q: expected min", d.Val())
		}
		r.BudgetMin, err = within(d, 0, maxBudgetMin)
		return err
	})
}
