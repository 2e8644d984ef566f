package clusterproxy

import (
	"context"
	"errors"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp/reverseproxy"

	"github.com/caddy-sluice/sluice/internal/health"
	"github.com/caddy-sluice/sluice/modules/cluster"
)

// stateVar is the name of the variable that has the state of a request, so that our parts find it. A request that goes
// through several such handlers, one in the answer of the other, is in one of them at a time: the last.
const stateVar = "sluice.cluster_proxy"

// state is a request while it is in the handler. One goroutine uses it, but for what is said to be safe.
type state struct {
	// ctx is the client's, or one that ends with the time for the whole request.
	ctx, client context.Context

	link    *link
	request cluster.Request
	lease   cluster.Lease
	key     cluster.Key

	// open says that the lease is to be settled. It is safe.
	open atomic.Bool
	// expired says that the time for the whole request is over. It is safe.
	expired atomic.Bool
	cancel  context.CancelFunc
	timer   *time.Timer

	// body keeps the request's body; nil without one.
	body *keeper
	// filtered has the body that filters make, in the place of the request's own; nil without any. bare says that the
	// request goes on without a body.
	filtered *filtered
	bare     bool
	// eligible says that the cluster tries such requests again, safe that they change nothing, and ready that these fields
	// are set.
	eligible, safe, ready bool
	// expects says that the client wants to hear that it may send the body.
	expects bool
	// picked says that the lease is for the next attempt, again that there is to be one after delay, and moved that it is
	// the replay of the last one, on a new connection to another endpoint.
	picked, again, moved bool
	delay                time.Duration
	// short is that of the last verdict. onward says that the next attempt is for an endpoint that wasn't tried.
	short  error
	onward bool

	current *try
	first   try
	answer  answer

	attempts    int
	replayed    bool
	exhausted   bool
	failure     health.Kind
	failed      bool
	ownHost     bool
	lastAddress string
}

// String returns the name of the cluster: the state is among the variables of the request, which can be printed.
func (s *state) String() string { return s.link.cluster.Name() }

// begin admits the request.
func (s *state) begin(r *http.Request) error {
	c := s.link.cluster
	if err := c.Admit(&s.request); err != nil {
		return err
	}
	if s.link.keyed {
		s.key = cluster.HashKey(keyText(r, c.Key()))
	}
	if at, by := s.request.Deadline(time.Time{}, false); by == health.ByRequest {
		s.ctx, s.cancel = context.WithCancel(s.ctx)
		s.timer = time.AfterFunc(time.Until(at), s.expire)
	}
	return nil
}

// expire ends the request: its time is over.
func (s *state) expire() {
	s.expired.Store(true)
	s.cancel()
}

// pick leases an endpoint for the next attempt. After one that had no room for a connection, or with which it took as long
// as it may, it is one that wasn't tried.
func (s *state) pick() error {
	var err error
	if s.onward {
		err = s.request.PickOther(&s.lease, s.key)
	} else {
		err = s.request.Pick(&s.lease, s.key)
	}
	if err != nil {
		return err
	}
	s.leased()
	s.picked = true
	return nil
}

// leased notes that there is a lease.
func (s *state) leased() {
	s.open.Store(true)
	s.attempts++
	s.lastAddress = s.lease.Endpoint().Address()
}

// settle settles the lease for good, unless it is. It is safe.
func (s *state) settle(o cluster.Outcome) {
	if s.open.Swap(false) {
		s.lease.Done(o)
	}
}

// finish ends the request, whatever became of it.
func (s *state) finish(w http.ResponseWriter) {
	if s.current != nil {
		s.current.end()
	}
	s.settle(s.outcome())
	s.request.Finish()
	if s.cancel != nil {
		s.timer.Stop()
		s.cancel()
	}
	if s.body != nil {
		s.body.release(func() { interrupt(w) })
	}
}

// outcome returns what became of the attempt if nothing has failed: an answer, unless the request was given up before.
func (s *state) outcome() cluster.Outcome {
	if s.answer.status == 0 || s.givenUp() {
		return cluster.Outcome{Kind: health.Aborted}
	}
	return health.Answered(s.answer.status)
}

// givenUp says whether nobody wants the answer any more: the client has left, the time for the request is over, or the
// endpoint was taken out by hand.
func (s *state) givenUp() bool {
	return s.client.Err() != nil || s.expired.Load() || s.answer.stopped.Load()
}

// repeatable says whether the whole request can be sent once more. It is safe.
func (s *state) repeatable() bool {
	if s.filtered != nil {
		return !s.filtered.large.Load()
	}
	return s.body == nil || s.body.repeatable()
}

// stateOf returns the state of a request; nil if it has none.
func stateOf(ctx context.Context) *state {
	s, _ := caddyhttp.GetVar(ctx, stateVar).(*state)
	return s
}

// selector is the cluster as a selection policy: it returns the one endpoint that was picked.
type selector struct{}

// Select returns the endpoint for the next attempt. The first was picked before Caddy's handler began. Nil means that the
// failure before stands; then again is false, and the decider ends the loop.
func (selector) Select(_ reverseproxy.UpstreamPool, r *http.Request, _ http.ResponseWriter) *reverseproxy.Upstream {
	s := stateOf(r.Context())
	if s == nil {
		return nil
	}
	if !s.picked && s.pick() != nil {
		return nil
	}
	s.picked = false
	return s.lease.Endpoint().Upstream()
}

// decider answers Caddy's loop whether there is another attempt, as the cluster has decided, and waits before it.
type decider struct{}

// MatchWithError implements caddyhttp.RequestMatcherWithError.
func (decider) MatchWithError(r *http.Request) (bool, error) {
	s := stateOf(r.Context())
	if s == nil || !s.again {
		return false, nil
	}
	s.again = false
	return cluster.Wait(s.ctx, s.delay), nil
}

// clientGone says whether the client has left.
func (s *state) clientGone() bool { return errors.Is(s.client.Err(), context.Canceled) }

// Interface guards
var (
	_ reverseproxy.Selector             = selector{}
	_ caddyhttp.RequestMatcherWithError = decider{}
)
