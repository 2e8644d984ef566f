// Package cluster is the health-aware choice of endpoints, for connections and for requests alike. A Cluster is a
// configuration's hold on a cluster; what is known about the endpoints belongs to the name, outlives a reload, and is
// shared by all that use it.
//
//	Admit → Pick → Lease → Done or Fail → (Pick again) → Finish
package cluster

import (
	"context"
	"fmt"
	"net"
	"sync"
	"time"

	"github.com/caddyserver/caddy/v2"
	"go.uber.org/zap"

	"github.com/caddy-sluice/sluice/internal/guarddial"
	"github.com/caddy-sluice/sluice/internal/health"
	"github.com/caddy-sluice/sluice/internal/netguard"
	"github.com/caddy-sluice/sluice/modules/balancers"
	"github.com/caddy-sluice/sluice/modules/upstreamtls"
)

// Other names for what a user of this package has to do with.
type (
	// Outcome is how an attempt ended.
	Outcome = health.Outcome
	// Failure is what is known about an attempt that has failed.
	Failure = health.Failure
	// Decision is the answer to a failure.
	Decision = health.Decision
)

// emitter is Caddy's events app.
type emitter interface {
	Emit(ctx caddy.Context, name string, data map[string]any) caddy.Event
}

// Cluster is a cluster of one config.
type Cluster struct {
	name   string
	set    *settings
	state  *state
	ctx    caddy.Context
	events emitter
	logger *zap.Logger
	dialer guarddial.Dialer
	// key is what the balancer chooses by.
	key balancers.Key

	// cancel ends the goroutines, which are counted by running. The state's mu guards it; nil means that there are none.
	cancel  context.CancelFunc
	running sync.WaitGroup
	// past is what the start has dropped of what the config before has learnt; nil if none runs any more. The state's building
	// guards it.
	past *health.Past
	// reseated has room for one word to the checks: there are other endpoints. The state's mu guards it; nil without checks.
	reseated chan struct{}
}

// New provisions a cluster. Nothing counts until it is started. guard is that of the app.
func New(ctx caddy.Context, name string, cfg *Config, guard netguard.Mode, logger *zap.Logger) (*Cluster, error) {
	set, err := cfg.provision(ctx, guard)
	if err != nil {
		return nil, err
	}
	events, err := ctx.App("events")
	if err != nil {
		return nil, fmt.Errorf("getting the events app: %w", err)
	}
	c := &Cluster{
		name: name, set: set, ctx: ctx, events: events.(emitter), logger: logger.With(zap.String("cluster", name)),
		dialer: guarddial.Dialer{Mode: set.guard}, key: set.balancer.Traits().Key,
	}
	if err := register(ctx); err != nil {
		return nil, err
	}
	if c.state, err = takeState(name); err != nil {
		return nil, err
	}
	return c, nil
}

// Cleanup gives back what New took.
func (c *Cluster) Cleanup() error { return releaseState(c.name) }

// Name returns the name of the cluster.
func (c *Cluster) Name() string { return c.name }

// Key returns what the balancer chooses by; the zero Key if there is no such thing.
func (c *Cluster) Key() balancers.Key { return c.key }

// TLS returns how to speak TLS to the endpoints; nil if they don't.
func (c *Cluster) TLS() *upstreamtls.Client { return c.set.tls }

// ProxyProtocol returns the version of the PROXY header that the endpoints get: `v1`, `v2`, or nothing.
func (c *Cluster) ProxyProtocol() string { return c.set.proxyProtocol }

// MaxConnectionsPerIP returns how many connections a client may have; 0 if it may have as many as it likes.
func (c *Cluster) MaxConnectionsPerIP() int64 { return c.set.perClient }

// BodyLimit returns how long a body may be that is kept to be sent again.
func (c *Cluster) BodyLimit() int64 { return c.set.bodyLimit }

// Retries says whether requests with a method are tried again.
func (c *Cluster) Retries(method string) bool { return c.set.methods[method] }

// RetriesStatus says whether answers with a status are tried again.
func (c *Cluster) RetriesStatus(status int) bool { return c.set.policy.Retry.Statuses.Has(status) }

// TimesTries says whether an attempt has a time of its own.
func (c *Cluster) TimesTries() bool { return c.set.policy.Timeouts.PerTry > 0 }

// Fails says whether an answer with a status is a failure of its endpoint, to one of the detectors at least.
func (c *Cluster) Fails(status int) bool {
	return c.set.policy.Passive.Statuses.Has(status) || c.set.policy.Outlier.Statuses.Has(status)
}

// CheckTLS says whether settings of TLS that aren't the cluster's suit the configured endpoints.
func (c *Cluster) CheckTLS(t *upstreamtls.Client) error { return checkNames(c.set.static, t) }

// MaxRetries returns how many times a request is tried again at most.
func (c *Cluster) MaxRetries() int { return c.set.policy.Retry.Max }

// Guard returns the mode of the guard.
func (c *Cluster) Guard() netguard.Mode { return c.set.guard }

// Refused is the error of what the cluster doesn't let through.
type Refused struct {
	Cluster string
	// Why says which limit it is, or that there is no endpoint.
	Why health.Refusal
}

// Error names the cluster and the limit.
func (r *Refused) Error() string {
	if r.Why == health.NoEndpoint {
		return fmt.Sprintf("cluster %s: no endpoint is available", r.Cluster)
	}
	return fmt.Sprintf("cluster %s: refused by the limit %v", r.Cluster, r.Why)
}

// refuse returns the error of a refusal, and counts those that are counted nowhere else.
func (c *Cluster) refuse(why health.Refusal) error {
	if why == health.NoEndpoint {
		c.state.refused.Add(1)
	}
	return &Refused{c.name, why}
}

// RetryAfter returns when it makes sense to ask again after a refusal: when an endpoint may come back, as far as that is
// known, but in a second at least, and in a minute at most.
func (c *Cluster) RetryAfter() time.Duration {
	now := time.Now()
	view := c.state.health.View(now)
	if view.Offered() > 0 || view.Until().IsZero() {
		return time.Second
	}
	return min(max(view.Until().Sub(now), time.Second), time.Minute)
}

// Count counts a connection to the endpoint of a lease that is about to be made, unless there are too many. Then the error
// is a *Refused. It isn't for a connection that comes out of a pool.
func (c *Cluster) Count(k *Conn, e *Endpoint) error {
	if why := c.state.health.Dial(&k.counted, e.health.Load()); why != health.Granted {
		return c.refuse(why)
	}
	k.endpoint = e
	return nil
}

// Dial connects to an endpoint, through the guard.
func (c *Cluster) Dial(ctx context.Context, e *Endpoint) (net.Conn, error) {
	return c.dial(ctx, e, e.at.Host, e.at.Port)
}

// dial connects to a port of a host that belongs to an endpoint, or to its unix socket.
func (c *Cluster) dial(ctx context.Context, e *Endpoint, host string, port uint16) (net.Conn, error) {
	if e.at.Path != "" && host == e.at.Host && port == e.at.Port {
		var d net.Dialer
		return d.DialContext(ctx, "unix", e.at.Path)
	}
	if host != e.at.Host {
		return c.dialer.Dial(ctx, host, port, false)
	}
	return e.Dialer(&c.dialer).Dial(ctx, host, port, e.Trusted())
}
