package cluster

import (
	"fmt"
	"net/netip"

	"github.com/caddyserver/caddy/v2"

	"github.com/caddy-sluice/sluice/internal/balance"
	"github.com/caddy-sluice/sluice/internal/health"
	"github.com/caddy-sluice/sluice/internal/netguard"
	"github.com/caddy-sluice/sluice/modules/hostport"
)

// maxLimit is more than a process can have.
const maxLimit = 10_000_000

// setEndpoints takes the endpoints that are configured.
func (c *Config) setEndpoints(_ caddy.Context, s *settings) error {
	if len(c.Endpoints) > maxMembers {
		return fmt.Errorf("endpoints: %d are too many, at most %d", len(c.Endpoints), maxMembers)
	}
	known := make(map[hostport.Address]int, len(c.Endpoints))
	for i := range c.Endpoints {
		m, err := c.Endpoints[i].member(s.guard)
		if err != nil {
			return fmt.Errorf("endpoints[%d].%w", i, err)
		}
		if first, twice := known[m.Address]; twice {
			return fmt.Errorf("endpoints[%d].address: %v is listed twice, see endpoints[%d]", i, m.Address, first)
		}
		known[m.Address] = i
		s.static = append(s.static, m)
	}
	return nil
}

// member returns what an endpoint comes to, under a guard.
func (e *EndpointConfig) member(guard netguard.Mode) (m member, err error) {
	m = member{backup: e.Backup, trusted: true}
	if err = m.parseAddress(e.Address, guard); err != nil {
		return m, fmt.Errorf("address: %w", err)
	}
	var weight int
	if err := takeNumbers(number{"weight", e.Weight, &weight, 1, balance.MaxWeight, 1}); err != nil {
		return m, err
	}
	m.weight = uint32(weight)
	if e.Limits == nil {
		return m, nil
	}
	if m.limits, err = e.Limits.limits(); err != nil {
		return m, fmt.Errorf("limits.%w", err)
	}
	return m, nil
}

// parseAddress takes the address that an operator wrote, in the form in which the same address is always the same.
func (m *member) parseAddress(text string, guard netguard.Mode) error {
	expanded, err := caddy.NewReplacer().ReplaceOrErr(text, true, true)
	if err != nil {
		return fmt.Errorf("%q: %w", text, err)
	}
	a, err := hostport.Parse(expanded)
	if err != nil {
		return err
	}
	if m.Address = a.Normal(); a.Absolute() {
		m.naming = &naming{absolute: true}
	}
	return checkLiteral(m.Host, guard)
}

// checkLiteral refuses an address that the guard would refuse whenever it is connected to.
func checkLiteral(host string, guard netguard.Mode) error {
	addr, err := netip.ParseAddr(host)
	if err != nil || !guard.Checks(true) {
		return nil // a name, the path of a socket, or an address that is trusted
	}
	if class := netguard.Classify(addr); class != netguard.Public {
		return fmt.Errorf("guard %v: refusing %v: the address is %v (guard dns or allow_private would permit it)", guard, addr, class)
	}
	return nil
}

// limits returns what the limits come to. nil is no limit.
func (l *EndpointLimits) limits() (limits health.Limits, err error) {
	for _, limit := range []struct {
		name  string
		value *int64
		to    *int64
	}{
		{"max_connections", l.MaxConnections, &limits.Connections},
		{"max_pending", l.MaxPending, &limits.Pending},
		{"max_requests", l.MaxRequests, &limits.Requests},
		{"max_retries", l.MaxRetries, &limits.Retries},
	} {
		if *limit.to, err = takeLimit(limit.name, limit.value); err != nil {
			return limits, err
		}
	}
	return limits, nil
}

// takeLimit checks a limit. 0 stands for no limit where it is used, and is therefore refused where it is written.
func takeLimit(name string, value *int64) (int64, error) {
	if value == nil {
		return 0, nil
	}
	if *value < 1 || *value > maxLimit {
		return 0, fmt.Errorf("%s: %d is out of range, 1 to %d", name, *value, maxLimit)
	}
	return *value, nil
}

// setLimits takes the limits of the cluster.
func (c *Config) setLimits(_ caddy.Context, s *settings) (err error) {
	if c.Limits == nil {
		return nil
	}
	if s.policy.Limits, err = c.Limits.limits(); err == nil {
		s.perClient, err = takeLimit("max_connections_per_ip", c.Limits.MaxConnectionsPerIP)
	}
	if err != nil {
		return fmt.Errorf("limits.%w", err)
	}
	return nil
}
