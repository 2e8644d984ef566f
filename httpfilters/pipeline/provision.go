package pipeline

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/caddy-sluice/sluice/internal/bodypipe"
)

// The failure modes.
const (
	closed = "closed"
	open   = "open"
)

// The names of the limits.
const (
	requestBodyLimit  = "request_body_limit"
	responseBodyLimit = "response_body_limit"
)

// entry is a filter in its place, ready to use. The hooks that it hasn't are nil.
type entry struct {
	name string
	// where is the place in the config that has it.
	where      string
	conditions []condition
	onResponse []caddyhttp.ResponseMatcher
	open       bool
	branches   []branch
	// declared are the results that the filter says it sets; nil if it doesn't say.
	declared map[string][]string

	request      RequestFilter
	requestBody  RequestBodyFilter
	bound        BoundBodyFilter
	selected     SelectedBodyFilter
	response     ResponseFilter
	responseBody ResponseBodyFilter
	log          LogFilter
}

// provisionSettings checks the settings of the handler and sets the defaults.
func (h *Handler) provisionSettings() error {
	if err := provisionLimit(requestBodyLimit, &h.RequestBodyLimit); err != nil {
		return err
	}
	if err := provisionLimit(responseBodyLimit, &h.ResponseBodyLimit); err != nil {
		return err
	}
	if h.BodyTimeout == 0 {
		h.BodyTimeout = caddy.Duration(defaultBodyTimeout)
	}
	if d := time.Duration(h.BodyTimeout); d < minBodyTimeout || d > maxBodyTimeout {
		return fmt.Errorf("body_timeout: %v is out of range, %v to %v", d, minBodyTimeout, maxBodyTimeout)
	}
	return nil
}

// provisionLimit checks a limit and sets the default.
func provisionLimit(name string, limit *int64) error {
	if *limit == 0 {
		*limit = bodypipe.DefaultCeiling
	}
	if *limit < 0 || *limit > bodypipe.MaxCeiling {
		return fmt.Errorf("%s: %d is out of range, 1 to %d (64MiB)", name, *limit, int64(bodypipe.MaxCeiling))
	}
	return nil
}

// provisionEntries loads the filters.
func (h *Handler) provisionEntries(ctx caddy.Context, list []placed) error {
	if len(list) > maxFilters {
		return fmt.Errorf("filters: %d filters, at most %d", len(list), maxFilters)
	}
	h.entries = make([]entry, len(list))
	named := make(map[string]int)
	inside := ctx
	inside.Context = context.WithValue(ctx.Context, limitKey{}, h.RequestBodyLimit)
	for i := range list {
		h.entries[i].where = list[i].where
		if err := h.entries[i].provision(inside, &list[i].Entry); err != nil {
			return fmt.Errorf("%s: %w", list[i].where, err)
		}
		before, taken := named[h.entries[i].name]
		switch {
		case taken && list[i].Name != "":
			return fmt.Errorf("%s: name: %q is the name of %s too", list[i].where, list[i].Name, list[before].where)
		case !taken:
			named[h.entries[i].name] = i
		}
		h.owned = append(h.owned, owned(h.entries[i])...)
	}
	slices.Sort(h.owned)
	h.owned = slices.Compact(h.owned)
	return h.provisionBranches(ctx, list, named)
}

// provision loads a filter and finds out which hooks it has.
func (e *entry) provision(ctx caddy.Context, from *Entry) error {
	if raw := string(from.FilterRaw); raw == "" || raw == "null" {
		return errors.New("filter: missing")
	}
	if err := checkModule(from.FilterRaw); err != nil {
		return err
	}
	of := moduleName(from.FilterRaw) // which is gone when it is loaded
	e.name = cmp.Or(from.Name, of)
	if err := checkName(e.name); err != nil {
		return fmt.Errorf("name: %w", err)
	}
	module, err := ctx.LoadModule(from, "FilterRaw")
	if err != nil {
		return fmt.Errorf("filter: %w", err)
	}
	if !e.take(module) {
		return fmt.Errorf("filter: %s has no hook of a filter", of)
	}
	e.declared = declared(module)
	switch from.FailureMode {
	case "", closed:
	case open:
		if _, guards := module.(Guard); guards {
			return fmt.Errorf("failure_mode: %q is not for filters that protect something", open)
		}
		e.open = true
	default:
		return fmt.Errorf("failure_mode: %q is not known; must be %s or %s", from.FailureMode, closed, open)
	}
	if err := checkResponses(from.OnResponse); err != nil {
		return err
	}
	if len(from.OnResponse) > 0 && !seesResponses(module) {
		return fmt.Errorf("on_response: has no meaning, %s doesn't look at responses", of)
	}
	e.onResponse = from.OnResponse
	e.conditions, err = provisionConditions(ctx, from.Conditions)
	return err
}

// limitKey is for the context that filters are loaded with.
type limitKey struct{}

// RequestBodyLimit returns how many bytes of a request's body the handler holds back at most whose filter is provisioned
// with ctx. A filter that has a limit of its own can say so if it is more than that.
func RequestBodyLimit(ctx caddy.Context) int64 {
	if limit, ok := ctx.Value(limitKey{}).(int64); ok {
		return limit
	}
	return bodypipe.MaxCeiling
}

// seesResponses reports whether a filter looks at responses.
func seesResponses(filter any) bool {
	_, head := filter.(ResponseFilter)
	_, body := filter.(ResponseBodyFilter)
	return head || body
}

// take takes the hooks of a filter. It reports whether it has one.
func (e *entry) take(filter any) bool {
	e.request, _ = filter.(RequestFilter)
	e.requestBody, _ = filter.(RequestBodyFilter)
	e.bound, _ = filter.(BoundBodyFilter)
	e.selected, _ = filter.(SelectedBodyFilter)
	e.response, _ = filter.(ResponseFilter)
	e.responseBody, _ = filter.(ResponseBodyFilter)
	e.log, _ = filter.(LogFilter)
	return e.request != nil || e.requestBody != nil || e.bound != nil || e.selected != nil || e.response != nil ||
		e.responseBody != nil || e.log != nil
}

// owned returns the headers that a filter sets.
func owned(e entry) []string {
	for _, hook := range []any{e.request, e.requestBody, e.bound, e.selected, e.response, e.responseBody, e.log} {
		owner, ok := hook.(HeaderOwner)
		if !ok {
			continue
		}
		var names []string
		for _, name := range owner.OwnedHeaders() {
			names = append(names, http.CanonicalHeaderKey(name))
		}
		return names
	}
	return nil
}
