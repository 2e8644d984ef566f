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

// refuse answers a request that the cluster doesn't take, or for which this machine is short of something.
func (l *link) refuse(w http.ResponseWriter, r *http.Request, err error) error {
	// That there is no endpoint is in the cluster's log.
	refused, ok := errors.AsType[*cluster.Refused](err)
	if !ok || refused.Why != health.NoEndpoint {
		l.watch.Refused(l.logger, zap.Error(err))
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
