package pipeline

import (
	"net/http"
	"sync"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/caddy-sluice/sluice/internal/bodypipe"
)

// Exchange is a request on its way by the filters, and its response on the way back, as one of them sees it. It is good
// while a hook runs: a filter must not keep it, nor anything that it got from it, beyond the hook's return.
type Exchange struct {
	h    *Handler
	w    http.ResponseWriter
	r    *http.Request
	next caddyhttp.Handler
	// came is the request as it came, r what handlers in branches have made of it.
	came *http.Request

	// mu is held while a hook runs, but that for logs, and guards what hooks change and what body hooks look at: at, inBody,
	// jumped, ran, passed, last, struck, states, response, err, cluster, endpoint, r, and of body what its own comment says.
	mu sync.Mutex
	// at is the entry whose hook runs, inBody says that the hook is one for a body.
	at     int
	inBody bool
	// decided are the entries of which it is known whether they take part, skipped those which don't, jumped those which
	// a branch has passed over, ran those that had a part.
	decided, skipped, jumped, ran bodypipe.Set
	// outside are the entries that the response doesn't apply to.
	outside bodypipe.Set
	// last is the entry whose body hook ran last, struck says that it has ended the request.
	last   int
	struck bool
	// refused are the entries whose hook for the response has ended it: the answer in its place passes them by. passed are
	// those whose failure with a body was passed over.
	refused, passed bodypipe.Set
	// states has what entries keep, results what they found out, loops how often branches have jumped back.
	states  []any
	results *results
	loops   []uint8

	body     *requestBody
	bodies   *Bodies
	out      writer
	response Response
	err      error
	// counted says that metrics say why the request has failed.
	counted bool
	// cluster and endpoint are where the request goes, as far as it is known.
	cluster, endpoint string
	// over says that serve has returned, and so that nothing runs any more; failing that it has no answer, or an error.
	over, failing bool
}

// Response is the header of a response.
type Response struct {
	// Status is the status. A hook may change it, to another from 200 to 599.
	Status int
	// Header has the header fields. A hook may change them.
	Header http.Header
}

// exchanges are for the next requests.
var exchanges = sync.Pool{New: func() any { return new(Exchange) }}

// newExchange returns an exchange for a request.
func newExchange(h *Handler, w http.ResponseWriter, r *http.Request, next caddyhttp.Handler) *Exchange {
	x := exchanges.Get().(*Exchange)
	x.h, x.w, x.r, x.came, x.next = h, w, r, r, next
	x.out.x, x.out.ResponseWriter = x, w
	return x
}

// release gives the exchange to another request.
func (x *Exchange) release() {
	clear(x.states)
	clear(x.loops)
	x.out.release()
	states, loops := x.states[:0], x.loops[:0]
	x.h, x.w, x.r, x.came, x.next = nil, nil, nil, nil, nil
	x.at, x.decided, x.skipped, x.jumped, x.ran = 0, 0, 0, 0, 0
	x.refused, x.passed, x.counted = 0, 0, false
	x.last, x.struck = 0, false
	x.states, x.loops, x.results = states, loops, nil
	x.body, x.bodies, x.response, x.err = nil, nil, Response{}, nil
	x.cluster, x.endpoint, x.over = "", "", false
	x.failing = false
	exchanges.Put(x)
}

// Request returns the request. Hooks may change its header, and its URL, until the next handler has it. They must not
// read its body: for that there are hooks. Where filters look at bodies, reading it in a hook fails.
func (x *Exchange) Request() *http.Request { return x.r }

// Response returns the response as far as it is known: nil before there is one. In LogFilter it is what went out.
func (x *Exchange) Response() *Response {
	if x.response.Status == 0 {
		return nil
	}
	return &x.response
}

// Err returns why the request has failed, nil if it hasn't. It is set in Response for the answers that Caddy makes of
// errors, and in Log.
func (x *Exchange) Err() error { return x.err }

// Replacer returns the replacer of the request.
func (x *Exchange) Replacer() *caddy.Replacer {
	return x.r.Context().Value(caddy.ReplacerCtxKey).(*caddy.Replacer)
}

// Cluster returns the cluster that the request is for. It is empty before it is known.
func (x *Exchange) Cluster() string { return x.cluster }

// Endpoint returns the address of the endpoint that the request goes to. It is empty before it is known.
func (x *Exchange) Endpoint() string { return x.endpoint }

// State returns what the filter has kept for this request with SetState, nil at first.
func (x *Exchange) State() any {
	if x.at >= len(x.states) {
		return nil
	}
	return x.states[x.at]
}

// SetState keeps something for the later hooks of the same filter and request.
func (x *Exchange) SetState(state any) {
	for len(x.states) <= x.at {
		x.states = append(x.states, nil)
	}
	x.states[x.at] = state
}

// UpgradeRequestBody asks for a stricter mode for the body of this request, with a limit as in a Wish, and reports
// whether it is in force. A mode never goes down, and a limit is never raised. Only filters that look at the body may
// ask, before the body has gone on.
func (x *Exchange) UpgradeRequestBody(mode Mode, most int64) bool {
	return x.body != nil && x.body.pipe.Upgrade(x.at, mode, most)
}

// UpgradeResponseBody is UpgradeRequestBody for the response. It is for the hooks Response and ResponseBody.
func (x *Exchange) UpgradeResponseBody(mode Mode, most int64) bool {
	return x.out.upgrade(mode, most)
}

// Set sets a result of the filter: the placeholder `{http.filters.<filter>.<key>}` has the value from then on. A key has
// 1 to 64 letters, digits, `_` and `-`; a value at most 256 bytes of UTF-8, without control characters.
func (x *Exchange) Set(key, value string) error {
	if err := checkResult(key, value); err != nil {
		return err
	}
	x.lookUp()
	x.results.set(result{x.h, x.at, x.h.entries[x.at].name, key, value, x.inBody})
	return nil
}

// Result returns a result that a filter has set, of the last one if several with this name did. It is empty if none has.
func (x *Exchange) Result(filter, key string) string {
	x.lookUp()
	value, _ := x.results.named(filter, key)
	return value
}

// lookUp looks up the results of the request. Those of the same handler are from another time that the request has passed
// it, which branches must not take for those of this time.
func (x *Exchange) lookUp() {
	if x.results != nil {
		return
	}
	x.results = resultsOf(x.r)
	if x.h.branches > 0 {
		x.results.forget(x.h)
	}
}
