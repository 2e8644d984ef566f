package balancers

import (
	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"

	"github.com/caddy-sluice/sluice/caddyfile/args"
	"github.com/caddy-sluice/sluice/internal/balance"
)

func init() {
	caddy.RegisterModule(new(P2C))
	caddy.RegisterModule(new(RoundRobin))
	caddy.RegisterModule(new(LeastConnections))
	caddy.RegisterModule(new(Random))
	caddy.RegisterModule(new(First))
}

// P2C draws two endpoints by weight, and takes the one with less load for its weight.
type P2C struct{ plain }

// RoundRobin takes the endpoints in turn. Each has its share in every round, spread evenly.
type RoundRobin struct{ plain }

// LeastConnections takes the endpoint with the least load for its weight. Ties are drawn by weight.
type LeastConnections struct{ plain }

// Random draws an endpoint by weight.
type Random struct{ plain }

// First takes the first endpoint that is available, in the order of the configuration.
type First struct{ plain }

// CaddyModule returns the Caddy module information.
func (*P2C) CaddyModule() caddy.ModuleInfo {
	return info(balance.P2C, func() caddy.Module { return &P2C{plain{balance.P2C}} })
}

// CaddyModule returns the Caddy module information.
func (*RoundRobin) CaddyModule() caddy.ModuleInfo {
	return info(balance.RoundRobin, func() caddy.Module { return &RoundRobin{plain{balance.RoundRobin}} })
}

// CaddyModule returns the Caddy module information.
func (*LeastConnections) CaddyModule() caddy.ModuleInfo {
	return info(balance.LeastConnections, func() caddy.Module { return &LeastConnections{plain{balance.LeastConnections}} })
}

// CaddyModule returns the Caddy module information.
func (*Random) CaddyModule() caddy.ModuleInfo {
	return info(balance.Random, func() caddy.Module { return &Random{plain{balance.Random}} })
}

// CaddyModule returns the Caddy module information.
func (*First) CaddyModule() caddy.ModuleInfo {
	return info(balance.First, func() caddy.Module { return &First{plain{balance.First}} })
}

// plain is a policy without options.
type plain struct{ policy balance.Policy }

// Prepare returns a picker.
func (p *plain) Prepare(endpoints []Endpoint, before Picker) (Picker, error) {
	return prepare(balance.Config{Policy: p.policy}, endpoints, before)
}

// Traits says what the cluster has to know.
func (p *plain) Traits() Traits { return Traits{Ramps: p.policy.Ramps()} }

// UnmarshalCaddyfile reads the name of the policy, which stands alone.
func (p *plain) UnmarshalCaddyfile(d *caddyfile.Dispenser) error {
	d.Next() // consume policy name
	return args.None(d)
}

// Interface guards
var (
	_ Balancer              = (*P2C)(nil)
	_ Balancer              = (*RoundRobin)(nil)
	_ Balancer              = (*LeastConnections)(nil)
	_ Balancer              = (*Random)(nil)
	_ Balancer              = (*First)(nil)
	_ caddyfile.Unmarshaler = (*plain)(nil)
)
