package clusterproxy

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"syscall"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/caddy-sluice/sluice/internal/guarddial"
	"github.com/caddy-sluice/sluice/internal/health"
	"github.com/caddy-sluice/sluice/internal/netguard"
	"github.com/caddy-sluice/sluice/modules/cluster"
	"github.com/caddy-sluice/sluice/modules/healthchecks"
)

// verdict is what an attempt without an answer to pass on comes to.
type verdict struct {
	kind   health.Kind
	status int
	err    error
	// decided says that the endpoint has answered with that status, and that it is tried again.
	decided bool
	// unseen says that the endpoint has certainly not got the request, again that the transport would have sent it again.
	unseen, again bool
	// elsewhere says that a limit of the endpoint stood in the way, so that another one may do.
	elsewhere bool
	// short is the limit that stood in the way, or what this machine is short of; nil if it is neither.
	short error
	// slow says that connecting took as long as it may, so that only an endpoint that wasn't tried may do.
	slow bool
}

// hide turns an error of a dial into one that Caddy's handler knows nothing about, unless it is the guard's. Whether the
// dial took too long is for ctx to say, and why it has failed for said, the error of the socket, if there is one: the error
// of Caddy's dial function tells neither.
func hide(ctx context.Context, err, said error) error {
	if _, refused := errors.AsType[*netguard.Refused](err); refused {
		return err
	}
	return &connectError{err.Error(), isTimeout(err) || guarddial.Over(ctx), healthchecks.NotMade(said)}
}

// isTimeout says whether an error means that something took too long.
func isTimeout(err error) bool {
	var timeout net.Error
	return errors.Is(err, context.DeadlineExceeded) || errors.As(err, &timeout) && timeout.Timeout()
}

// judge says what the error of an attempt means. Why an attempt was given up is known better than its error tells.
func (t *try) judge(err error) verdict {
	var refused *cluster.Refused
	var guarded *netguard.Refused
	var connect *connectError
	err = t.why(err)
	switch s := t.state; {
	case s.client.Err() != nil:
		return verdict{kind: health.Aborted, err: s.client.Err()}
	case s.expired.Load():
		return verdict{kind: health.Aborted, status: http.StatusGatewayTimeout, err: s.errTimeout()}
	case t.phase.Load() == expired:
		return t.failed(health.Timeout, errors.New("per_try_timeout is over"))
	case s.badBody() != nil:
		return verdict{kind: health.Aborted, status: http.StatusBadRequest, err: s.badBody()}
	case errors.As(err, &guarded):
		return t.failed(health.Aborted, err)
	case errors.As(err, &refused):
		v := t.failed(health.Aborted, err)
		v.status, v.short, v.elsewhere = http.StatusServiceUnavailable, refused, refused.Why.OfEndpoint()
		return v
	case errors.As(err, &connect):
		return t.unconnected(connect)
	case t.refused || errors.Is(err, errSentOnce):
		v := t.failed(health.Reset, errSentOnce)
		v.unseen, v.again = t.unseen(err), true
		return v
	case turnedDown(err):
		return t.unwanted()
	case isTimeout(err):
		return t.failed(health.Timeout, err)
	case t.began() && !isBroken(err):
		return t.failed(health.Malformed, err)
	}
	v := t.failed(health.Reset, err)
	v.unseen = t.unseen(err)
	return v
}

// why returns what has become of the connection if the transport only knows that nobody waits for the client's body any more.
func (t *try) why(err error) error {
	if c := t.conn.Load(); c != nil && errors.Is(err, errConnGone) {
		return cmp.Or(c.why(), err)
	}
	return err
}

// unwanted says what it means that the endpoint hasn't worked on a request with a body. If what was read of it is lost,
// nothing can be done, but the endpoint isn't to blame.
func (t *try) unwanted() verdict {
	v := t.failed(health.Reset, errTurnedDown)
	v.again = true
	if !t.state.repeatable() {
		v.kind = health.Aborted
	}
	return v
}

// unconnected says what it means that no connection could be made.
func (t *try) unconnected(err *connectError) verdict {
	if err.ours {
		v := t.failed(health.Aborted, err)
		v.status, v.short = http.StatusServiceUnavailable, err
		return v
	}
	v := t.failed(health.Connect, err)
	if v.slow = err.timeout; v.slow {
		v.status = http.StatusGatewayTimeout
	}
	return v
}

// badBody returns what was wrong with the client's body: that is nobody else's failure.
func (s *state) badBody() error {
	if s.body == nil {
		return nil
	}
	if failed := s.body.failed.Load(); failed != nil {
		return fmt.Errorf("reading the body of the request: %w", failed.err)
	}
	return nil
}

// failed returns the verdict of a failure, with the status that goes with its kind. Nothing of the error but its text is passed on: Caddy's handler would make more
// of it.
func (t *try) failed(kind health.Kind, err error) verdict {
	text := fmt.Errorf("cluster %s: endpoint %s: %v", t.state.link.cluster.Name(), t.endpoint.Address(), err) //nolint:errorlint // hidden on purpose
	return verdict{kind: kind, status: kind.GatewayStatus(), err: text}
}

// isBroken says whether an error means that a connection broke, and not that what came over it made no sense.
func isBroken(err error) bool {
	var broken *net.OpError
	return errors.As(err, &broken) || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) ||
		errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE) || errors.Is(err, net.ErrClosed)
}

// fail tells the cluster of a failure, and says what to do.
func (s *state) fail(t *try, v verdict) health.Action {
	if !s.open.Swap(false) {
		return health.Stop
	}
	if v.elsewhere {
		return s.elsewhere(t, v.short)
	}
	s.onward = v.slow
	s.lease.Because(v.err)
	return s.heed(v.kind, s.lease.Fail(s.failureOf(t, v)), v.short)
}

// heed keeps what the cluster has decided about an attempt that failed with a kind, and what is short, as in a verdict.
func (s *state) heed(kind health.Kind, d cluster.Decision, short error) health.Action {
	s.failed, s.failure = true, kind
	s.exhausted = s.exhausted || d.Why == health.OverBudget
	s.moved = d.Action == health.Move
	s.again, s.delay, s.short = s.moved || d.Action == health.Again, d.Delay, short
	s.replayed = s.replayed || s.moved
	return d.Action
}

// failureOf returns what is known about a failure.
func (s *state) failureOf(t *try, v verdict) cluster.Failure {
	return cluster.Failure{
		Outcome:    cluster.Outcome{Kind: v.kind, Status: v.status},
		Repeatable: s.repeatable() && !t.passed.Load(),
		Eligible:   s.eligible,
		Safe:       s.safe || v.again,
		Reused:     t.reused || v.again,
		Unseen:     v.unseen,
		Begun:      t.began(),
		Passed:     t.passed.Load(),
		Elsewhere:  v.slow,
	}
}

// elsewhere gives up an endpoint that has no room for a connection. Another one may, and nothing was sent yet.
func (s *state) elsewhere(t *try, full error) health.Action {
	s.lease.Crowded()
	s.onward = true
	d := cluster.Decision{Action: health.Stop}
	if !t.passed.Load() && (s.filtered != nil || s.repeatable()) {
		d.Action = health.Again
	}
	return s.heed(health.Aborted, d, full)
}

// reject tells the cluster of an answer that may be tried again, and says whether it is. If it isn't, it stands: it is
// passed on, and the lease stays open.
func (s *state) reject(t *try, v verdict) bool {
	s.onward = false
	s.lease.Because(v.err)
	if s.heed(v.kind, s.lease.Reject(s.failureOf(t, v)), nil) != health.Again {
		return false
	}
	s.open.Store(false)
	return true
}

// error returns the error for Caddy's handler: one with a status, or that the client has left.
func (v verdict) error() error {
	if v.status == 0 {
		return v.err
	}
	return caddyhttp.Error(v.status, v.err)
}
