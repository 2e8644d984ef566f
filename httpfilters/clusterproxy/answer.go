package clusterproxy

import (
	"context"
	"errors"
	"io"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/caddy-sluice/sluice/internal/health"
	"github.com/caddy-sluice/sluice/modules/cluster"
)

// examine says whether an answer is to be passed on. If not, it is closed.
func (t *try) examine(r *http.Request, res *http.Response, err error) (verdict, bool) {
	if err == nil && t.phase.Load() == expired {
		_ = res.Body.Close()
		err = context.Canceled
	}
	if err != nil {
		return t.judge(err), false
	}
	if res.StatusCode == http.StatusSwitchingProtocols {
		if err := checkSwitch(r, res); err != nil {
			_ = res.Body.Close()
			return t.failed(health.Malformed, err), false
		}
		return verdict{}, true
	}
	s := t.state
	if !s.link.cluster.RetriesStatus(res.StatusCode) || !s.eligible {
		return verdict{}, true
	}
	v := t.failed(health.Answer, errors.New(res.Status))
	v.status = res.StatusCode
	if v.decided = s.reject(t, v); !v.decided {
		return verdict{}, true // it stands
	}
	_ = res.Body.Close()
	return v, false
}

// longAnswer is the length, in bytes, from which an answer may take long. What is shorter is let go on whatever becomes of
// its endpoint, and costs nothing here.
const longAnswer = 1 << 20

// errDrained is the error of an answer whose endpoint was taken out by hand before it was complete.
var errDrained = errors.New("the endpoint was taken out by hand")

// accept passes on an answer. The lease is settled with its end, but a retry is over now: it must not use up the budget for as
// long as an event stream lasts.
func (s *state) accept(t *try, res *http.Response) *http.Response {
	a := &s.answer
	a.ReadCloser, a.state, a.status = res.Body, s, res.StatusCode
	if t.timer != nil {
		t.timer.Stop()
	}
	if s.request.Retries() > 0 {
		s.lease.Accepted()
	}
	if res.StatusCode == http.StatusSwitchingProtocols {
		s.switchOver(res)
		return res
	}
	long := res.Body != http.NoBody && (res.ContentLength < 0 || res.ContentLength >= longAnswer)
	if (s.lease.Trial() || long && s.lease.Awaited()) && !s.link.cluster.Fails(res.StatusCode) {
		s.lease.Proven()
	}
	if long {
		a.held = res.Uncompressed && res.ProtoMajor == 1
		s.lease.OnStop(a.stop)
	}
	res.Body = a
	return res
}

// answer is the body of an answer that is passed on.
type answer struct {
	io.ReadCloser
	state  *state
	status int
	// stopped says that the endpoint was taken out by hand, and what went on there ended. It is safe.
	stopped atomic.Bool
	// held says that closing the body may wait for its first bytes: the transport unpacks it, and locks it while it reads
	// them. The connection is the answer's alone, so that closing that one does.
	held bool
}

// stop ends an answer that may take long because its endpoint was taken out by hand. One that became unhealthy may still
// answer. It doesn't wait.
func (a *answer) stop(why cluster.Cause) {
	if why == cluster.Drained {
		time.AfterFunc(0, a.shut)
	}
}

// shut closes the body, for whoever reads it, and settles the lease: the client may take its time with what it has.
func (a *answer) shut() {
	a.stopped.Store(true)
	a.state.settle(cluster.Outcome{Kind: health.Aborted})
	if c := a.state.current.conn.Load(); c != nil && a.held {
		_ = c.Close()
	}
	_ = a.ReadCloser.Close()
	a.state.current.release()
}

// Read reads, and settles the lease at the end of the body.
func (a *answer) Read(p []byte) (int, error) {
	n, err := a.ReadCloser.Read(p)
	if err != nil {
		a.state.current.release()
		a.state.settle(a.outcome(err))
	}
	if err != nil && a.stopped.Load() {
		err = errDrained // an end too: the endpoint may have seen that nobody wants more, and have made one
	}
	return n, err
}

// outcome returns what became of an answer whose body has come to an end.
func (a *answer) outcome(err error) cluster.Outcome {
	switch s := a.state; {
	case errors.Is(err, io.EOF):
		return health.Answered(a.status)
	case s.givenUp():
		return cluster.Outcome{Kind: health.Aborted}
	}
	return cluster.Outcome{Kind: health.Reset}
}

// Close closes the body. If it wasn't read to its end, that was our wish, or the client's: nobody has failed.
func (a *answer) Close() error {
	err := a.ReadCloser.Close()
	a.state.current.release()
	a.state.settle(a.state.outcome())
	return err
}

// switchOver passes on an answer that switches to another protocol. It goes on for as long as both sides like; the time for
// the request is over with it, and the endpoint has proven that it works.
func (s *state) switchOver(res *http.Response) {
	if s.timer != nil {
		s.timer.Stop()
	}
	s.lease.Proven()
	rwc, ok := res.Body.(io.ReadWriteCloser)
	if !ok {
		res.Body = &s.answer
		return
	}
	tunnel := &tunnel{rwc, s}
	res.Body = tunnel
	if half, ok := rwc.(closeWriter); ok {
		res.Body = &halfTunnel{tunnel, half}
	}
	s.lease.OnStop(tunnel.stop)
}

// closeWriter is a connection that can be closed in one direction.
type closeWriter interface{ CloseWrite() error }

// tunnel is the connection to an endpoint that speaks another protocol by now.
type tunnel struct {
	io.ReadWriteCloser
	state *state
}

// halfTunnel is one that can be closed in one direction.
type halfTunnel struct {
	*tunnel
	closeWriter
}

// Close closes the connection and settles the lease.
func (t *tunnel) Close() error {
	err := t.ReadWriteCloser.Close()
	t.state.settle(health.Answered(http.StatusSwitchingProtocols))
	return err
}

// stop closes the connection because what goes on at the endpoint is to end. It doesn't wait: with TLS, closing says
// goodbye.
func (t *tunnel) stop(cluster.Cause) { time.AfterFunc(0, t.shut) }

// shut closes the connection. Caddy's handler sees it, and ends.
func (t *tunnel) shut() { _ = t.ReadWriteCloser.Close() }
