// Package pipeline is the handler `filters`: it passes a request, its answer and the bodies of both by a list of filters.
// What the filters need is merged once, when the config is loaded, so that a pipeline costs what its filters need and no
// more: without filters for bodies, bodies go by as if it weren't there.
package pipeline

import (
	"encoding/json"
	"errors"
	"net/http"
	"sync"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"go.uber.org/zap"

	"github.com/caddy-sluice/sluice/internal/bodypipe"
	"github.com/caddy-sluice/sluice/modules/sluiceapp"
)

const (
	// defaultBodyTimeout is longer than any network stalls that recovers, and short enough that who sends nothing holds
	// little for long.
	defaultBodyTimeout = 30 * time.Second
	minBodyTimeout     = 10 * time.Millisecond
	maxBodyTimeout     = time.Hour
	// maxFilters is as many as a plan takes, but for the place that filters for upstream bodies share.
	maxFilters = bodypipe.MaxFilters - 1
)

func init() {
	caddy.RegisterModule(&Handler{})
}

// Handler is the handler `filters`. It passes requests and responses by a list of filters, modules in the namespace
// `http.filters`: requests in the order of the list, responses in the opposite order.
//
// What filters find out is in placeholders, `{http.filters.<filter>.<key>}`, and in the request headers that they set, so
// that the routes after the handler can match on it.
type Handler struct {
	// The filters. At most 63.
	Filters []Entry `json:"filters,omitempty"`

	// How many bytes of a request's body are held back at most, for filters that want it so. One that is longer is refused
	// with 413. Range: 1 to 64 MiB. Default: 10 MiB. No placeholders.
	RequestBodyLimit int64 `json:"request_body_limit,omitempty"`

	// How many bytes of a response's body are held back at most, for filters that want it so. In place of one that is
	// longer the client gets 502. Range: 1 to 64 MiB. Default: 10 MiB. No placeholders.
	ResponseBodyLimit int64 `json:"response_body_limit,omitempty"`

	// How long to wait for the next byte of a request's body, where filters look at it. A client that sends nothing for so
	// long gets 408, and the connection is closed. It ends when the client has the beginning of the answer. Range: 10 ms to 1 h. Default: `30s`. No placeholders.
	BodyTimeout caddy.Duration `json:"body_timeout,omitempty"`

	entries []entry
	// plans has what the entries wish for, each in the order in which bodies pass them.
	plans plans
	// owned are the request headers that filters set.
	owned []string
	// watches says that something looks at responses, or at how requests end.
	watches bool
	// branches is how many branches the entries have.
	branches int

	budget bodypipe.Budget
	logger *zap.Logger
	// unbound is done when it was said that filters for upstream bodies had no part.
	unbound sync.Once
}

// Entry is a filter in its place.
type Entry struct {
	// The name of the filter, for its placeholders and for branches to jump to. 1 to 64 letters, digits, `_` and `-`, but not
	// `next`, `end` or `terminal`. Default: the name of its module; of several filters without a name the first has it.
	Name string `json:"name,omitempty"`

	// The filter.
	FilterRaw json.RawMessage `json:"filter,omitempty" caddy:"namespace=http.filters inline_key=filter"`

	// The name of a chain of the app `sluice` (`filter_chains`), whose filters are put in this place. It stands alone.
	Chain string `json:"chain,omitempty"`

	// Requests to which the filter applies: all conditions must hold. A filter that doesn't apply to a request doesn't
	// apply to its response either.
	Conditions []Condition `json:"conditions,omitempty"`

	// Responses to which the filter applies: all must match. It applies to requests all the same.
	OnResponse []caddyhttp.ResponseMatcher `json:"on_response,omitempty"`

	// What happens when the filter fails, that is, returns an error that is no rejection: `closed` (the request ends with
	// 500) or `open` (a warning is logged, and the request goes on). Filters that protect something can't be `open`.
	// Default: `closed`.
	FailureMode string `json:"failure_mode,omitempty"`

	// What to do when the filter has looked at the header of a request, in this order. At most 16.
	Branches []Branch `json:"branches,omitempty"`
}

// Condition says to which requests a filter applies. It has either `when` or `unless`.
type Condition struct {
	// Matchers, of which one must match.
	WhenRaw caddyhttp.RawMatcherSets `json:"when,omitempty" caddy:"namespace=http.matchers"`

	// Matchers, of which none may match.
	UnlessRaw caddyhttp.RawMatcherSets `json:"unless,omitempty" caddy:"namespace=http.matchers"`
}

// CaddyModule returns the Caddy module information.
func (*Handler) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{
		ID:  "http.handlers.filters",
		New: func() caddy.Module { return new(Handler) },
	}
}

// Provision sets the defaults and loads the filters.
func (h *Handler) Provision(ctx caddy.Context) error {
	h.logger = ctx.Logger()
	if err := h.provisionSettings(); err != nil {
		return err
	}
	app, err := sluiceapp.Of(ctx)
	if err != nil {
		return err
	}
	h.budget = app.BodyBudget()
	entries, err := expand(h.Filters, app)
	if err != nil {
		return err
	}
	if err := h.provisionEntries(ctx, entries); err != nil {
		return err
	}
	if err := h.plan(); err != nil {
		return err
	}
	if depthOf(ctx) > 0 && !(h.plans.requestIdle && h.plans.responseIdle) {
		return errors.New("filters: in a branch they must not look at bodies, which have gone by")
	}
	h.warnOfMemory()
	return register(ctx.GetMetricsRegistry())
}

// ServeHTTP passes the request by the filters to next.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request, next caddyhttp.Handler) error {
	if len(h.entries) == 0 {
		return next.ServeHTTP(w, r)
	}
	x := newExchange(h, w, r, next)
	defer x.end()
	return x.serve()
}

// Interface guards
var (
	_ caddy.Provisioner           = (*Handler)(nil)
	_ caddyhttp.MiddlewareHandler = (*Handler)(nil)
)
