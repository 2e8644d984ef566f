package pipeline

import (
	"fmt"
	"net/http"

	"github.com/caddy-sluice/sluice/internal/bodypipe"
)

// A filter is a guest module in the namespace `http.filters`. It implements the hooks that it needs, at least one:
// RequestFilter, RequestBodyFilter, BoundBodyFilter, SelectedBodyFilter, ResponseFilter, ResponseBodyFilter, LogFilter.
//
// One filter serves many requests at a time. What belongs to one request is in its Exchange. The hooks of one request
// never run at the same time. A hook that returns an error ends the request: with the status that it asks for, if the
// error is from Reject, otherwise with 500, unless the filter may fail. A hook that panics counts as one that failed, and
// the request ends.

// RequestFilter looks at the header of a request, and may change it, before the next handler gets it.
type RequestFilter interface {
	Request(x *Exchange) error
}

// RequestBodyFilter sees the body of a request.
type RequestBodyFilter interface {
	// RequestBodyWish is asked once, after the filter is provisioned.
	RequestBodyWish() Wish
	// RequestBody gets the body in pieces, or complete if the wish says so. The last piece says that it is the end; it may
	// be empty. A request without a body has an empty one.
	RequestBody(x *Exchange, c *Chunk) (Action, error)
}

// BoundBodyFilter sees the complete body of a request when it is known which cluster the request is for, once. What it
// makes of the body is what goes to every endpoint. It needs `cluster_proxy`.
type BoundBodyFilter interface {
	// BoundBodyAccess is asked once, after the filter is provisioned.
	BoundBodyAccess() Access
	BoundBody(x *Exchange, c *Chunk) error
}

// SelectedBodyFilter sees the complete body of a request when it is known which endpoint gets it, once for each attempt,
// always the same body. What it makes of it goes to this endpoint only. It needs `cluster_proxy`.
type SelectedBodyFilter interface {
	// SelectedBodyAccess is asked once, after the filter is provisioned.
	SelectedBodyAccess() Access
	SelectedBody(x *Exchange, c *Chunk) error
}

// ResponseFilter looks at the header of a response, and may change it, before it goes out. It also sees the answers that
// Caddy makes of errors, for which Exchange.Err is set, also where the request came no further than its body. Informational responses pass it by.
type ResponseFilter interface {
	Response(x *Exchange) error
}

// ResponseBodyFilter sees the body of a response. It sees nothing of responses without a body (to HEAD, 204, 304), of
// upgraded connections, and of the answers that Caddy makes of errors. So that it can read what it sees, the request goes
// on with `Accept-Encoding: identity`.
type ResponseBodyFilter interface {
	// ResponseBodyWish is asked once, after the filter is provisioned.
	ResponseBodyWish() Wish
	ResponseBody(x *Exchange, c *Chunk) (Action, error)
}

// LogFilter is told when a request is over, whatever became of it. It can't change anything any more.
type LogFilter interface {
	Log(x *Exchange)
}

// HeaderOwner is a filter that sets request headers. They are removed from every request before any filter runs, so that
// no client can send them, nor anything that backends take for them: `X_Model` and `X.Model` for `X-Model`. Nor can it have
// proxies remove them, by `Connection: X-Model`.
type HeaderOwner interface {
	// OwnedHeaders is asked once, after the filter is provisioned.
	OwnedHeaders() []string
}

// ResultDeclarer is a filter that says which results it sets. A branch on any other is refused when the config is loaded:
// it would never be taken, and what it should refuse would go on.
type ResultDeclarer interface {
	// DeclaredResults returns the keys of all results that the filter may set, each with its values, or without where
	// they can't be listed. It is also asked while a Caddyfile is read, before the filter is provisioned.
	DeclaredResults() map[string][]string
}

// Guard is a filter that protects something. It can't be configured to be passed over when it fails.
type Guard interface {
	Guard()
}

// Wish is what a filter declares for the body of one direction: whether it reads or writes, and how the body goes on.
type Wish = bodypipe.Wish

// Access says what a filter does with a body.
type Access = bodypipe.Access

// The kinds of access.
const (
	// None is not to look at the body.
	None = bodypipe.None
	// ReadOnly is to look at it.
	ReadOnly = bodypipe.ReadOnly
	// ReadWrite is to look at it and to put other bytes in its place.
	ReadWrite = bodypipe.ReadWrite
)

// Mode says how a body goes on.
type Mode = bodypipe.Mode

// The modes. Of what several filters wish for, the last of these counts.
const (
	// Stream passes each piece on when the filters have seen it.
	Stream = bodypipe.Stream
	// SizeLimit is Stream with a limit on the length of the whole body.
	SizeLimit = bodypipe.SizeLimit
	// Buffer holds the body back until all filters that wish for it, and look at the body, have released it, or it ends.
	// Then the rest streams.
	Buffer = bodypipe.Buffer
)

// Action is what a filter wants after it has seen a piece of a body. Release and Done may be joined with |.
type Action = bodypipe.Action

// The actions.
const (
	// Continue is to go on.
	Continue = bodypipe.Continue
	// Release is that the filter doesn't need the body held back any more. It goes on when all that wish for Buffer have
	// said so, and none wants it whole. From a filter that doesn't wish for Buffer it means nothing.
	Release = bodypipe.Release
	// Done is to see no more of this body. It means Release too.
	Done = bodypipe.Done
)

// Chunk is a piece of a body, as the filters before left it.
type Chunk = bodypipe.Chunk

// ErrTooLarge means that a body is longer than a limit allows. It is the cause to give where a filter rejects one itself.
var ErrTooLarge = bodypipe.ErrTooLarge

// Rejection is the error by which a filter refuses a request or a response on purpose. It is no failure.
type Rejection struct {
	// Status is the status to answer with, from 400 to 599. With another the filter has failed.
	Status int
	// Header has what the answer gets besides.
	Header http.Header
	// Body is the body of the answer. Without one the answer is what `handle_errors` makes of the status.
	Body []byte
	// Cause says why, for logs and for `{err.message}`. It may be nil.
	Cause error
}

// Reject returns a Rejection with a status, from 400 to 599, and a cause for the logs.
func Reject(status int, cause error) *Rejection { return &Rejection{Status: status, Cause: cause} }

// Error says why.
func (r *Rejection) Error() string {
	if r.Cause == nil {
		return fmt.Sprintf("rejected with status %d", r.Status)
	}
	return r.Cause.Error()
}

// Unwrap returns the cause.
func (r *Rejection) Unwrap() error { return r.Cause }

// RefusalStatus returns the status.
func (r *Rejection) RefusalStatus() int { return r.Status }

// Interface guards
var _ bodypipe.Refusal = (*Rejection)(nil)
