package cluster

import (
	"errors"
	"fmt"
	"hash/fnv"
	"slices"
	"time"

	"github.com/caddyserver/caddy/v2"

	"github.com/caddy-sluice/sluice/internal/netguard"
	"github.com/caddy-sluice/sluice/modules/balancers"
	"github.com/caddy-sluice/sluice/modules/healthchecks"
	"github.com/caddy-sluice/sluice/modules/upstreamtls"
)

const (
	// defaultPolicy is the balancer of a cluster that names none.
	defaultPolicy = "p2c"

	// minInterval bounds the load that checks are.
	minInterval     = 100 * time.Millisecond
	defaultInterval = 5 * time.Second
	defaultTimeout  = 2 * time.Second
)

// provision checks a config and returns what it comes to. guard is that of the app.
func (c *Config) provision(ctx caddy.Context, guard netguard.Mode) (*settings, error) {
	s := &settings{guard: guard, proxyProtocol: c.ProxyProtocol}
	for _, step := range []func(caddy.Context, *settings) error{
		c.setGuard, c.setEndpoints, c.setSources, c.setBalancer, c.setStance, c.setTimes, c.setHealth, c.setDetectors, c.setLimits,
		c.setRetry, c.setTransport,
	} {
		if err := step(ctx, s); err != nil {
			return nil, err
		}
	}
	return s, s.policy.Validate()
}

// setGuard takes the guard of the app unless the cluster has one of its own.
func (c *Config) setGuard(_ caddy.Context, s *settings) error {
	if c.Guard != nil {
		s.guard = *c.Guard
	}
	if !c.AllowPrivate {
		return nil
	}
	if c.Guard != nil && s.guard != netguard.Off {
		return fmt.Errorf("allow_private: contradicts guard %v", s.guard)
	}
	s.guard = netguard.Off
	return nil
}

// setSources prepares what finds endpoints.
func (c *Config) setSources(ctx caddy.Context, s *settings) error {
	if len(c.Endpoints) == 0 && len(c.Discover) == 0 {
		return errors.New("endpoints: a cluster needs at least one, or a discover")
	}
	known := make(map[string]int, len(c.Discover))
	for i := range c.Discover {
		source, err := c.Discover[i].Provision(ctx)
		if err != nil {
			return fmt.Errorf("discover[%d]: %w", i, err)
		}
		if first, twice := known[source.Identity()]; twice {
			return fmt.Errorf("discover[%d]: is the same as discover[%d]", i, first)
		}
		known[source.Identity()] = i
		s.sources = append(s.sources, source)
	}
	return nil
}

// setBalancer loads the balancer, and tries it with the endpoints that are known.
func (c *Config) setBalancer(ctx caddy.Context, s *settings) error {
	loaded, err := c.loadBalancer(ctx)
	if err != nil {
		return fmt.Errorf("balance: %w", err)
	}
	var ok bool
	if s.balancer, ok = loaded.(balancers.Balancer); !ok {
		return fmt.Errorf("balance: module %T is not a balancer", loaded)
	}
	list := make([]balancers.Endpoint, len(s.static))
	for i := range s.static {
		list[i] = balancers.Endpoint{Key: s.static[i].String(), Weight: int(s.static[i].weight), Live: new(balancers.Live)}
	}
	if _, err := s.balancer.Prepare(list, nil); err != nil {
		return fmt.Errorf("balance: %w", err)
	}
	return nil
}

func (c *Config) loadBalancer(ctx caddy.Context) (any, error) {
	if c.BalanceRaw == nil {
		return ctx.LoadModuleByID(balancers.Namespace+"."+defaultPolicy, nil)
	}
	return ctx.LoadModule(c, "BalanceRaw")
}

// setTimes takes the durations of the cluster itself.
func (c *Config) setTimes(_ caddy.Context, s *settings) error {
	t := &s.policy.Timeouts
	err := takeDurations(
		duration{"per_try_timeout", c.PerTryTimeout, &t.PerTry, shortest, 0},
		duration{"request_timeout", c.RequestTimeout, &t.Request, shortest, 0},
		duration{"close_on_unhealthy", c.CloseOnUnhealthy, &s.closeAfter, 1, 0},
	)
	if err == nil && t.Request > 0 && t.PerTry > t.Request {
		err = fmt.Errorf("per_try_timeout: %v is longer than request_timeout, %v", t.PerTry, t.Request)
	}
	return err
}

// setHealth prepares the active checks.
func (c *Config) setHealth(ctx caddy.Context, s *settings) error {
	h, t := c.Health, &s.policy.Active
	if h == nil {
		return nil
	}
	if err := takeNumbers(
		number{"health.rise", h.Rise, &t.Rise, 1, maxStreak, 2},
		number{"health.fall", h.Fall, &t.Fall, 1, maxStreak, 3},
	); err != nil {
		return err
	}
	if err := takeDurations(duration{"health.interval", h.Interval, &s.interval, minInterval, defaultInterval}); err != nil {
		return err
	}
	if err := takeDurations(
		duration{"health.timeout", h.Timeout, &s.timeout, shortest, min(defaultTimeout, s.interval/2)},
	); err != nil {
		return err
	}
	if s.timeout >= s.interval {
		return fmt.Errorf("health.timeout: %v must be less than the interval, %v", s.timeout, s.interval)
	}
	if h.CheckRaw == nil {
		return errors.New("health.check: is required")
	}
	s.check = checkOf(h.CheckRaw, s.interval)
	loaded, err := ctx.LoadModule(h, "CheckRaw")
	if err != nil {
		return fmt.Errorf("health.check: %w", err)
	}
	var ok bool
	if s.checker, ok = loaded.(healthchecks.Checker); !ok {
		return fmt.Errorf("health.check: module %T is not a check", loaded)
	}
	return nil
}

// checkOf returns a number that stands for a check and its interval.
func checkOf(raw []byte, interval time.Duration) uint64 {
	h := fnv.New64a()
	h.Write(raw)
	fmt.Fprint(h, interval)
	return h.Sum64()
}

// setTransport prepares what a connection to an endpoint begins with.
func (c *Config) setTransport(ctx caddy.Context, s *settings) (err error) {
	if v := c.ProxyProtocol; v != "" && v != "v1" && v != "v2" {
		return fmt.Errorf("proxy_protocol: %q is not known; must be one of v1, v2", v)
	}
	if c.TLS == nil {
		return nil
	}
	if s.tls, err = c.TLS.Client(ctx); err != nil {
		return fmt.Errorf("tls: %w", err)
	}
	if err = checkNames(s.static, s.tls); err != nil {
		return fmt.Errorf("tls.%w", err)
	}
	return nil
}

// checkNames refuses TLS without a name to check the certificate by: a unix socket has none of its own.
func checkNames(static []member, t *upstreamtls.Client) error {
	i := slices.IndexFunc(static, func(m member) bool { return m.Path != "" })
	if i < 0 || t.Config.ServerName != "" || t.Config.InsecureSkipVerify {
		return nil
	}
	return fmt.Errorf("server_name: is required for endpoints[%d], a unix socket", i)
}
