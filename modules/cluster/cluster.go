// Package cluster is the health-aware choice of endpoints, for connections and for requests alike. A Cluster is a
// configuration's hold on a cluster; what is known about the endpoints belongs to the name, outlives a reload, and is
// shared by all that use it.
//
//	Admit → Pick → Lease → Done or Fail → (Pick again) → Finish
package cluster

import (
	"context"
	"net"
	"time"

	"github.com/caddy-sluice/sluice/internal/health"
	"github.com/caddy-sluice/sluice/modules/balancers"
	"github.com/caddy-sluice/sluice/modules/upstreamtls"
)

// Other names for what a user of this package has to do with.
type (
	Outcome  = health.Outcome
	Failure  = health.Failure
	Decision = health.Decision
)

// Cluster is a cluster of one config.
type Cluster struct {
	name string
}

func (c *Cluster) Name() string               { return c.name }
func (c *Cluster) Key() balancers.Key         { panic("not yet") }
func (c *Cluster) TLS() *upstreamtls.Client   { panic("not yet") }
func (c *Cluster) ProxyProtocol() string      { panic("not yet") }
func (c *Cluster) MaxConnectionsPerIP() int64 { panic("not yet") }
func (c *Cluster) BodyLimit() int64           { panic("not yet") }
func (c *Cluster) Retries(method string) bool { panic("not yet") }
func (c *Cluster) MaxRetries() int            { panic("not yet") }

// Key is the hash of what an endpoint is chosen by.
type Key struct {
	hash uint64
	set  bool
}

// HashKey returns the key of a text. No text is no key.
func HashKey(text string) Key { panic("not yet") }

// Request is one request or one session.
type Request struct{ health.Request }

// Admit begins a request. The error is a *Refused.
func (c *Cluster) Admit(r *Request) error { panic("not yet") }

// Pick leases an endpoint for an attempt. The error is a *Refused.
func (r *Request) Pick(l *Lease, key Key) error { panic("not yet") }

// Lease is one attempt at an endpoint.
type Lease struct {
	attempt  health.Attempt
	endpoint *Endpoint
}

func (l *Lease) Endpoint() *Endpoint      { return l.endpoint }
func (l *Lease) Done(o Outcome) bool      { panic("not yet") }
func (l *Lease) Fail(f Failure) Decision  { panic("not yet") }
func (l *Lease) Proven()                  { panic("not yet") }
func (l *Lease) OnStop(f func(why Cause)) { panic("not yet") }

// Cause says why what goes on at an endpoint is to end.
type Cause uint8

const (
	// Unhealthy means that the endpoint has become unhealthy.
	Unhealthy Cause = iota
	// Drained means that it was taken out by hand.
	Drained
)

// Endpoint is an endpoint of a cluster.
type Endpoint struct{}

// Address returns the address as it is shown. Host, Port and Path are its parts.
func (e *Endpoint) Address() string { panic("not yet") }
func (e *Endpoint) Host() string    { panic("not yet") }
func (e *Endpoint) Port() uint16    { panic("not yet") }
func (e *Endpoint) Path() string    { panic("not yet") }

// Trusted says that the operator wrote the address.
func (e *Endpoint) Trusted() bool { panic("not yet") }

// Conn counts one connection to an endpoint: Connected, Idle, Reused, Close of health.Conn.
type Conn = health.Conn

// Count counts a connection that is about to be made. The error is a *Refused.
func (c *Cluster) Count(k *Conn, e *Endpoint) error { panic("not yet") }

// Dial connects to an endpoint, through the guard.
func (c *Cluster) Dial(ctx context.Context, e *Endpoint) (net.Conn, error) { panic("not yet") }

// Refused is the error of what the cluster doesn't let through.
type Refused struct {
	Cluster string
	Why     health.Refusal // NoEndpoint if no endpoint is available
	Text    string
}

func (r *Refused) Error() string { return r.Text }

var _ = time.Now
