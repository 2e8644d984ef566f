package clusterproxy

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp/reverseproxy"

	"github.com/caddy-sluice/sluice/caddyfile/args"
	"github.com/caddy-sluice/sluice/internal/health"
	"github.com/caddy-sluice/sluice/modules/balancers"
	"github.com/caddy-sluice/sluice/modules/cluster"
	"github.com/caddy-sluice/sluice/modules/sluiceapp"
)

func init() {
	caddy.RegisterModule(&Source{})
}

// Source lets Caddy's reverse_proxy pick endpoints from a cluster: for each attempt it gives the one that was picked. The
// cluster never learns what became of the attempt, and its guard, TLS and retries have no part in it: `cluster_proxy` is
// for that.
type Source struct {
	// The name of the cluster. Required. No placeholders but those such as `{env.NAME}`, which are replaced at load.
	Cluster string `json:"cluster,omitempty"`

	cluster *cluster.Cluster
	key     balancers.Key
	// visitVar is the name of the variable that has the visit of a request. Each source has its own.
	visitVar string
}

// CaddyModule returns the Caddy module information.
func (*Source) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{
		ID:  "http.reverse_proxy.upstreams.cluster",
		New: func() caddy.Module { return new(Source) },
	}
}

// Provision finds the cluster.
func (s *Source) Provision(ctx caddy.Context) error {
	if s.Cluster == "" {
		return errors.New("cluster: is required")
	}
	app, err := sluiceapp.Of(ctx)
	if err != nil {
		return err
	}
	s.Cluster = caddy.NewReplacer().ReplaceKnown(s.Cluster, "")
	if s.cluster, err = app.Cluster(s.Cluster); err != nil {
		return err // it names the cluster
	}
	s.key, s.visitVar = s.cluster.Key(), fmt.Sprintf("sluice.upstreams.cluster.%p", s)
	return checkKey(s.cluster)
}

// UnmarshalCaddyfile reads the source. Syntax:
//
//	dynamic cluster <name>
func (s *Source) UnmarshalCaddyfile(d *caddyfile.Dispenser) (err error) {
	d.Next() // consume source name
	if s.Cluster, err = args.One(d); err != nil {
		return err
	}
	return args.NoBlock(d, "cluster")
}

// GetUpstreams picks an endpoint. It gives none if the cluster has none, or takes no more: the client gets a 503.
func (s *Source) GetUpstreams(r *http.Request) ([]*reverseproxy.Upstream, error) {
	v, again := caddyhttp.GetVar(r.Context(), s.visitVar).(*visit)
	if !again {
		v = new(visit)
		if s.cluster.Admit(&v.request) != nil {
			return []*reverseproxy.Upstream{}, nil
		}
		caddyhttp.SetVar(r.Context(), s.visitVar, v)
		context.AfterFunc(r.Context(), v.end)
	}
	key := cluster.Key{}
	if s.key.Source != balancers.NoKey {
		key = cluster.HashKey(keyText(r, s.key))
	}
	e := v.pick(key)
	if e == nil {
		return []*reverseproxy.Upstream{}, nil
	}
	return []*reverseproxy.Upstream{{Dial: e.Upstream().Dial}}, nil
}

// visit is a request at the cluster, until its context ends.
type visit struct {
	// mu guards the fields below: the context ends when it likes.
	mu      sync.Mutex
	request cluster.Request
	lease   cluster.Lease
	leased  bool
	ended   bool
}

// pick picks an endpoint, another one than before. If there was one before, the attempt at it has failed in a way that
// the cluster doesn't learn. It returns nil if there is none.
func (v *visit) pick(key cluster.Key) *cluster.Endpoint {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.leased {
		v.lease.Fail(cluster.Failure{Outcome: cluster.Outcome{Kind: health.Aborted}})
		v.leased = false
	}
	if v.ended || v.request.Pick(&v.lease, key) != nil {
		return nil
	}
	v.leased = true
	return v.lease.Endpoint()
}

// end settles what is open. It says nothing about the endpoint.
func (v *visit) end() {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.ended = true
	if v.leased {
		v.lease.Done(cluster.Outcome{Kind: health.Aborted})
		v.leased = false
	}
	v.request.Finish()
}

// Interface guards
var (
	_ caddy.Provisioner           = (*Source)(nil)
	_ caddyfile.Unmarshaler       = (*Source)(nil)
	_ reverseproxy.UpstreamSource = (*Source)(nil)
)
