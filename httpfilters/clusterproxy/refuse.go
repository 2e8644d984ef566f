package clusterproxy

import (
	"errors"
	"net/http"
	"strconv"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/caddy-sluice/sluice/httpfilters/pipeline"
	"github.com/caddy-sluice/sluice/internal/health"
	"github.com/caddy-sluice/sluice/modules/cluster"
	"github.com/caddy-sluice/sluice/modules/refusal"
)

// calm is how long nothing must have been refused before the log says that it is over: a limit that is reached time and
// again is one line, not one for each time.
const calm = 10 * time.Second

// refusals are what a cluster doesn't take, for the log: one line when that begins, and one when it is over. The zero value
// is ready. It is safe.
type refusals struct {
	// last is when a request was refused, in nanoseconds since 1970; 0 while the log doesn't say so.
	last atomic.Int64
	// count is how many were, since the log says so.
	count atomic.Int64
}

// add counts one, and says whether it is the first.
func (f *refusals) add(now time.Time) bool {
	f.count.Add(1)
	return f.last.Swap(now.UnixNano()) == 0
}

// over says whether it is over by now, once, and how many there were.
func (f *refusals) over(now time.Time) (count int64, over bool) {
	last := f.last.Load()
	if last == 0 || now.UnixNano()-last < int64(calm) || !f.last.CompareAndSwap(last, 0) {
		return 0, false
	}
	return f.count.Swap(0), true
}

// refuse answers a request that the cluster doesn't take, or for which this machine is short of something.
func (l *link) refuse(w http.ResponseWriter, r *http.Request, err error) error {
	// That there is no endpoint is in the cluster's log.
	refused, ok := errors.AsType[*cluster.Refused](err)
	if (!ok || refused.Why != health.NoEndpoint) && l.refusals.add(time.Now()) {
		l.logger.Warn("refusing requests", zap.String("cluster", l.cluster.Name()), zap.Error(err))
	}
	retryAfter(w, l.cluster)
	return answerError(w, r, http.StatusServiceUnavailable, err)
}

// granted tells the log that a request was not refused, if it says that they are.
func (l *link) granted() {
	if l.refusals.last.Load() == 0 {
		return
	}
	if count, over := l.refusals.over(time.Now()); over {
		l.logger.Info("no longer refusing requests", zap.String("cluster", l.cluster.Name()), zap.Int64("refused", count))
	}
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
