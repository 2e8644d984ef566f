// Package clusterproxy passes HTTP requests to a cluster.
//
// The handler is Caddy's reverse proxy with three parts of its own: its selector is the cluster, its retry matcher answers
// what the cluster has decided, and its transport connects through the guard, keeps bodies, times attempts and tells the
// cluster what became of them. Each attempt goes through Caddy's own loop, so that headers and placeholders are those of
// the endpoint that the attempt goes to.
package clusterproxy

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp/reverseproxy"
	"go.uber.org/zap"

	"github.com/caddy-sluice/sluice/modules/cluster"
	"github.com/caddy-sluice/sluice/modules/sluiceapp"
)

// maxRounds is how often Caddy's loop may go round: the cluster decides. A request has six attempts at most, and each
// refusal by a limit of an endpoint leaves one endpoint less to try.
const maxRounds = math.MaxInt32

func init() {
	caddy.RegisterModule(&Handler{})
}

// Handler passes requests to a cluster. It takes what Caddy's reverse proxy takes, except for what the cluster says:
// endpoints, balancing, health and retries.
//
// It sets placeholders:
//
// Placeholder | Description
// ------------|-------------
// `{http.sluice.cluster}` | The name of the cluster
// `{http.sluice.endpoint}` | The address of the endpoint of the last attempt
// `{http.sluice.attempts}` | How many attempts there were
// `{http.sluice.retries}` | How many of them were retries
// `{http.sluice.replayed}` | Whether a stale connection was replaced
// `{http.sluice.budget_exhausted}` | Whether a retry was refused because there were too many
// `{http.sluice.failure}` | What became of the last attempt that failed
type Handler struct {
	reverseproxy.Handler

	// The name of the cluster. Required. With placeholders it is found anew for each request.
	Cluster string `json:"cluster,omitempty"`

	// The protocols, besides `websocket`, that a client may switch to by `Upgrade`. Default: none. No placeholders.
	AllowUpgrade []string `json:"allow_upgrade,omitempty"`

	ctx    caddy.Context
	logger *zap.Logger
	app    *sluiceapp.App
	// links has the connections to clusters; only is the one of a handler whose cluster has no placeholders.
	links *links
	only  *link
	// ownHost says that a `header_up` sets the Host header.
	ownHost bool
	// provisioned says that Caddy's handler has something to clean up.
	provisioned bool
}

// CaddyModule returns the Caddy module information.
func (*Handler) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{
		ID:  "http.handlers.cluster_proxy",
		New: func() caddy.Module { return new(Handler) },
	}
}

// Provision finds the cluster and puts our parts into Caddy's reverse proxy.
func (h *Handler) Provision(ctx caddy.Context) (err error) {
	h.ctx, h.logger = ctx, ctx.Logger()
	if err := h.checkOptions(); err != nil {
		return err
	}
	if err := register(ctx.GetMetricsRegistry()); err != nil {
		return err
	}
	if h.app, err = sluiceapp.Of(ctx); err != nil {
		return err
	}
	if h.links, err = h.newLinks(ctx); err != nil {
		return err
	}
	if err := h.provisionCluster(); err != nil {
		return err
	}
	h.Transport, h.ownHost = transport{}, h.setsHost()
	if err := h.Handler.Provision(ctx); err != nil {
		return err
	}
	h.provisioned = true
	h.LoadBalancing.SelectionPolicy = selector{}
	h.LoadBalancing.Retries = maxRounds
	h.LoadBalancing.RetryMatch = caddyhttp.MatcherSets{{decider{}}}
	return nil
}

// provisionCluster finds the cluster, if it is always the same.
func (h *Handler) provisionCluster() error {
	if h.Cluster == "" {
		return errors.New("cluster: is required")
	}
	h.Cluster = caddy.NewReplacer().ReplaceKnown(h.Cluster, "")
	if strings.Contains(h.Cluster, "{") {
		return h.checkAll()
	}
	c, err := h.app.Cluster(h.Cluster)
	if err != nil {
		return err // it names the cluster
	}
	if err := h.links.conflict(c); err != nil {
		return err
	}
	h.only, err = h.links.of(c)
	return err
}

// checkAll checks that the handler goes with every cluster: each may be named by a request.
func (h *Handler) checkAll() error {
	for _, name := range slices.Sorted(maps.Keys(h.app.Clusters)) {
		c, err := h.app.Cluster(name)
		if err != nil {
			return err
		}
		if err := h.links.conflict(c); err != nil {
			return fmt.Errorf("cluster %q, which requests can name: %w", name, err)
		}
	}
	return nil
}

// Cleanup closes what is idle. Upgraded connections end as `stream_close_delay` says. It may follow a Provision that has
// failed halfway, with which Caddy's handler must not be cleaned up.
func (h *Handler) Cleanup() error {
	if h.links != nil {
		h.links.close()
	}
	if !h.provisioned {
		return nil
	}
	return h.Handler.Cleanup()
}

// checkKey says whether requests have what the cluster's balancer chooses by.
func checkKey(c *cluster.Cluster) error {
	if key := c.Key(); !key.HTTP() {
		return fmt.Errorf("cluster: %q chooses by %q, which requests don't have", c.Name(), key)
	}
	return nil
}

// Interface guards
var (
	_ caddy.Provisioner           = (*Handler)(nil)
	_ caddy.CleanerUpper          = (*Handler)(nil)
	_ caddyhttp.MiddlewareHandler = (*Handler)(nil)
)
