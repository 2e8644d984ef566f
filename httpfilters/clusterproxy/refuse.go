package clusterproxy

import (
	"errors"
	"net/http"
	"strconv"
	"time"

	"go.uber.org/zap"

	"github.com/caddy-sluice/sluice/httpfilters/pipeline"
	"github.com/caddy-sluice/sluice/internal/health"
	"github.com/caddy-sluice/sluice/modules/cluster"
	"github.com/caddy-sluice/sluice/modules/refusal"
)

// options are the limits that can be in the way, by the names that they have in a config.
var options = map[health.Refusal]string{
	health.ClusterRequests:     "max_requests",
	health.ClusterConnections:  "max_connections",
	health.ClusterPending:      "max_pending",
	health.EndpointRequests:    "max_requests",
	health.EndpointConnections: "max_connections",
	health.EndpointPending:     "max_pending",
}

// refuse answers a request that the cluster doesn't take, or for which this machine is short of something: why is that, and
// err the error for the client.
func (l *link) refuse(w http.ResponseWriter, r *http.Request, err, why error) error {
	limit, of := "", "cluster"
	refused, ok := errors.AsType[*cluster.Refused](why)
	if ok {
		limit = options[refused.Why]
		if refused.Why.OfEndpoint() {
			of = "endpoint"
		}
	}
	switch {
	case limit != "":
		l.watch.Refused(l.logger, zap.String("limit", limit), zap.String("of", of))
	case !ok || refused.Why != health.NoEndpoint: // that there is none is in the cluster's log
		l.watch.Refused(l.logger, zap.Error(why))
	}
	retryAfter(w, l.cluster)
	return answerError(w, r, http.StatusServiceUnavailable, err)
}

// retryAfter says when to ask again.
func retryAfter(w http.ResponseWriter, c *cluster.Cluster) {
	seconds := (c.RetryAfter() + time.Second - 1) / time.Second
	w.Header().Set("Retry-After", strconv.Itoa(int(seconds)))
}

// answerError answers a request with an error of which there may be one for each request.
func answerError(w http.ResponseWriter, r *http.Request, status int, err error) error {
	if bodies := pipeline.BodiesOf(r); bodies != nil {
		bodies.Skip()
	}
	return refusal.Answer(w, r, status, err)
}
