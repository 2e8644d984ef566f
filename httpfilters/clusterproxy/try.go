package clusterproxy

import (
	"context"
	"math"
	"net/http"
	"net/http/httptrace"
	"net/textproto"
	"net/url"
	"sync/atomic"
	"time"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp/reverseproxy"

	"github.com/caddy-sluice/sluice/internal/health"
	"github.com/caddy-sluice/sluice/modules/cluster"
)

// tryKey is what the context of an attempt has it under.
type tryKey struct{}

// try is one attempt, a replay of it included. It is the context of what is sent. What is said to be safe may be used by
// anyone; what dials sees besides only what is set before anything is sent, and may go on when the attempt has ended.
type try struct {
	context.Context
	state    *state
	endpoint *cluster.Endpoint
	info     reverseproxy.DialInfo
	vars     map[string]any
	// onlyHTTP1 says that the request is to switch to another protocol.
	onlyHTTP1 bool

	// phase is waiting until either some of the answer has arrived, or the time is over. It is safe.
	phase atomic.Uint32
	// passed says that the client got some of the answer. It is safe.
	passed atomic.Bool
	// limited is the context of an attempt that has a time of its own.
	limited context.Context
	timer   *time.Timer
	time    time.Duration
	cancel  context.CancelFunc

	// conn is what the request goes over, until it is done with it. It is safe.
	conn atomic.Pointer[conn]
	// body is that of what is sent; nil if it isn't the client's.
	body *bodyReader
	// sent says that there was one, reused that it came out of a pool, and begin is where it stood, if that matters.
	// refused says that the transport was kept from sending the request again.
	sent, reused, refused bool
	begin                 mark
	// spare is the connection that was made for this request, or noSpare once it has another. It is safe.
	spare atomic.Pointer[conn]

	// old is what the trace told before.
	old hooks
	// target is where what is sent goes; first is that of what is sent first: a later one must not change it.
	target *url.URL
	first  url.URL
}

// hooks are the hooks of a trace that an attempt has taken over.
type hooks struct {
	gotConn              func(httptrace.GotConnInfo)
	gotFirstResponseByte func()
	got1xxResponse       func(int, textproto.MIMEHeader) error
}

// The phases of an attempt.
const (
	waiting uint32 = iota
	began
	expired
)

// began says that some of the answer has arrived. It is safe.
func (t *try) began() bool { return t.phase.Load() == began }

// noSpare stands for a connection that isn't waited for.
var noSpare = new(conn)

// noVars are the variables of what sends no PROXY header. Nobody writes to them.
var noVars = map[string]any{}

// Value returns the attempt, or what the request's context has.
func (t *try) Value(key any) any {
	if key == (tryKey{}) {
		return t
	}
	return t.Context.Value(key)
}

// newTry returns an attempt for what Caddy's handler wants to send.
func (s *state) newTry(r *http.Request) *try {
	t := &s.first
	if s.current != nil {
		t = new(try)
	}
	s.current = t
	t.Context, t.state, t.endpoint, t.vars = r.Context(), s, s.lease.Endpoint(), noVars
	t.info, _ = reverseproxy.GetDialInfo(r.Context())
	t.onlyHTTP1 = len(r.Header[upgradeHeader]) > 0
	if s.link.proxied {
		t.vars = map[string]any{proxyVar: caddyhttp.GetVar(r.Context(), proxyVar)}
	}
	t.watch(r.Context())
	return t
}

// watch makes what happens to the request known to the attempt. The trace is the one that Caddy's handler makes for each
// attempt; another one beside it would cost more.
func (t *try) watch(ctx context.Context) {
	trace := httptrace.ContextClientTrace(ctx)
	if trace == nil {
		return
	}
	t.old = hooks{trace.GotConn, trace.GotFirstResponseByte, trace.Got1xxResponse}
	trace.GotConn = t.gotConn
	trace.GotFirstResponseByte = t.gotFirstResponseByte
	trace.Got1xxResponse = t.got1xxResponse
}

// roundTrip makes an attempt, and repeats it on a new connection if the pooled one was stale.
func (s *state) roundTrip(r *http.Request) (*http.Response, error) {
	s.prepare(r)
	t := s.newTry(r)
	if err := t.check(r); err != nil {
		s.settle(cluster.Outcome{Kind: health.Aborted})
		return nil, caddyhttp.Error(http.StatusInternalServerError, err)
	}
	if err := t.adapt(); err != nil {
		s.settle(cluster.Outcome{Kind: health.Aborted})
		return nil, err
	}
	fresh := isForeign(r) || s.moved
	for s.moved = false; ; fresh = true {
		t.arm()
		res, err := s.link.transport(fresh).RoundTrip(t.request(r))
		v, ok := t.examine(r, res, err)
		if ok {
			return s.accept(t, res), nil
		}
		t.end()
		if v.decided || s.fail(t, v) != health.Replay || !s.replay(t, v) {
			return nil, v.error()
		}
	}
}

// check refuses what can't be sent to any endpoint.
func (t *try) check(r *http.Request) error {
	if !t.state.link.proxied {
		return checkPath(r)
	}
	if info, ok := t.vars[proxyVar].(reverseproxy.ProxyProtocolInfo); !ok || !info.AddrPort.IsValid() {
		return errStranger
	}
	return checkPath(r)
}

// prepare looks at the request when its first attempt is made.
func (s *state) prepare(r *http.Request) {
	if s.ready {
		return
	}
	s.ready = true
	s.eligible, s.safe = s.link.cluster.Retries(r.Method), isSafe(r.Method)
	s.expects = len(r.Header["Expect"]) > 0
	s.keep(r)
}

// arm starts the timer of the attempt, if it has one: there is none for what isn't tried again. If the client has yet to send
// the body, it is loaded that starts it.
func (t *try) arm() {
	t.limited, t.timer = nil, nil
	if !t.state.link.cluster.TimesTries() {
		return // without a reading of the clock
	}
	now := time.Now()
	at, by := t.state.request.Deadline(now, t.state.eligible && t.state.repeatable())
	if by != health.ByTry {
		return
	}
	ctx, cancel := context.WithCancel(t)
	t.limited, t.cancel, t.time = ctx, cancel, at.Sub(now)
	wait := t.time
	if body := t.state.body; body != nil && !body.whole() {
		wait = math.MaxInt64
	}
	t.timer = time.AfterFunc(wait, func() { t.expire(cancel) })
}

// loaded starts the timer: what the attempt takes from now on isn't the client's time.
func (t *try) loaded() {
	if t != nil && t.timer != nil {
		t.timer.Reset(t.time)
	}
}

// expire ends the attempt, unless it is answered already, or can't be repeated any more.
func (t *try) expire(cancel context.CancelFunc) {
	if t.state.repeatable() && t.phase.CompareAndSwap(waiting, expired) {
		cancel()
	}
}

// release gives back the connection, if there is one. It is safe.
func (t *try) release() {
	if c := t.conn.Swap(nil); c != nil {
		c.leave(1)
	}
}

// end gives back what the attempt holds. What it waits for is given up.
func (t *try) end() {
	if t.body != nil {
		_ = t.body.Close()
	}
	if t.timer != nil {
		t.timer.Stop()
	}
	if t.cancel != nil {
		t.cancel()
	}
	t.leaveSpare(nil)
	t.release()
}

// request returns what is sent: a copy, so that nothing of an attempt reaches the next.
func (t *try) request(r *http.Request) *http.Request {
	s := t.state
	ctx := context.Context(t)
	if t.limited != nil {
		ctx = t.limited
	}
	out := r.WithContext(ctx)
	target := &t.first
	if t.target != nil {
		target = new(url.URL)
	}
	t.target = target
	*target = *r.URL
	target.Scheme = ""
	out.URL, out.GetBody = target, nil
	t.embody(out)
	s.link.http.SetScheme(out)
	if target.Scheme == "https" && !s.ownHost && t.endpoint.Path() == "" {
		out.Host = t.info.Address
	}
	if out.Host == "" {
		out.Host = target.Host // which doesn't stay
	}
	if s.link.proxied {
		target.Host = proxiedHost(t.vars, target.Host)
	}
	return out
}

// proxiedHost returns the host by which connections are pooled that have told the endpoint a client's address.
func proxiedHost(vars map[string]any, host string) string {
	info, ok := vars[proxyVar].(reverseproxy.ProxyProtocolInfo)
	if !ok {
		return host
	}
	return url.QueryEscape(info.AddrPort.String() + "->" + host)
}

// gotConn notes what the request goes over.
func (t *try) gotConn(info httptrace.GotConnInfo) {
	t.onlyOnce()
	t.release()
	t.sent, t.reused = true, t.reused || info.Reused
	c := counted(info.Conn)
	if c != nil {
		c.use()
		t.conn.Store(c)
	}
	if c != nil && t.reused && !t.state.safe && !t.state.eligible {
		t.begin = c.mark()
	}
	t.leaveSpare(c)
	if t.old.gotConn != nil {
		t.old.gotConn(info)
	}
}

// made takes the connection that was made for the request. If it has another by now, this one is idle.
func (t *try) made(c *conn) {
	if !t.spare.CompareAndSwap(nil, c) {
		c.leave(0)
	}
}

// cut returns what is closed when the connection that the request goes over is; nil without one. It is safe.
func (t *try) cut() <-chan struct{} {
	if t == nil {
		return nil
	}
	if c := t.conn.Load(); c != nil {
		return c.gone
	}
	return nil
}

// leaveSpare leaves the connection that was made for the request to others, unless it is taken.
func (t *try) leaveSpare(taken *conn) {
	if c := t.spare.Swap(noSpare); c != nil && c != noSpare && c != taken {
		c.leave(0)
	}
}

// gotFirstResponseByte notes that the answer has begun.
func (t *try) gotFirstResponseByte() {
	t.phase.CompareAndSwap(waiting, began)
	if t.old.gotFirstResponseByte != nil {
		t.old.gotFirstResponseByte()
	}
}

// got1xxResponse notes that the client gets some of the answer.
func (t *try) got1xxResponse(code int, header textproto.MIMEHeader) error {
	t.passed.Store(true)
	if t.old.got1xxResponse == nil || code == http.StatusContinue && t.state.expects {
		return nil // the server says so itself, when the body is read
	}
	return t.old.got1xxResponse(code, header)
}

// isSafe says whether requests with a method change nothing (RFC 9110 section 9.2.1).
func isSafe(method string) bool {
	switch method {
	case http.MethodGet, http.MethodHead, http.MethodOptions, http.MethodTrace:
		return true
	}
	return false
}
