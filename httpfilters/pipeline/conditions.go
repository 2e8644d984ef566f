package pipeline

import (
	"errors"
	"fmt"
	"net/http"
	"slices"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
)

// condition is a Condition, ready to use.
type condition struct {
	match caddyhttp.MatcherSets
	// want is what the matchers must say.
	want bool
}

// provisionConditions loads the matchers of conditions.
func provisionConditions(ctx caddy.Context, list []Condition) ([]condition, error) {
	conditions := make([]condition, len(list))
	for i := range list {
		c, from := &conditions[i], &list[i]
		if (from.WhenRaw != nil) == (from.UnlessRaw != nil) {
			return nil, fmt.Errorf("conditions[%d]: must have either when or unless", i)
		}
		name, field, raw := "unless", "UnlessRaw", from.UnlessRaw
		if c.want = from.WhenRaw != nil; c.want {
			name, field, raw = "when", "WhenRaw", from.WhenRaw
		}
		var err error
		if c.match, err = loadMatchers(ctx, from, field, raw); err != nil {
			return nil, fmt.Errorf("conditions[%d]: %s: %w", i, name, err)
		}
	}
	return conditions, nil
}

// loadMatchers loads the matchers in a field of a struct.
func loadMatchers(ctx caddy.Context, from any, field string, raw caddyhttp.RawMatcherSets) (caddyhttp.MatcherSets, error) {
	if len(raw) == 0 || slices.ContainsFunc(raw, func(set caddy.ModuleMap) bool { return len(set) == 0 }) {
		return nil, errors.New("a matcher is missing")
	}
	loaded, err := ctx.LoadModule(from, field)
	if err != nil {
		return nil, err
	}
	var sets caddyhttp.MatcherSets
	err = sets.FromInterface(loaded)
	return sets, err
}

// checkResponses says what is wrong with matchers for responses.
func checkResponses(list []caddyhttp.ResponseMatcher) error {
	for i := range list {
		if err := checkStatuses(list[i]); err != nil {
			return fmt.Errorf("on_response[%d]: status_code: %w", i, err)
		}
	}
	return nil
}

// checkStatuses says which status of a matcher no response has.
func checkStatuses(match caddyhttp.ResponseMatcher) error {
	for _, code := range match.StatusCode {
		if (code < 1 || code > 5) && (code < 200 || code > 599) {
			return fmt.Errorf("%d is out of range, 200 to 599, or 1 to 5 for a class", code)
		}
	}
	return nil
}

// applies reports whether a filter applies to a request.
func (e *entry) applies(r *http.Request) (bool, error) {
	for i := range e.conditions {
		c := &e.conditions[i]
		got, err := c.match.AnyMatchWithError(r)
		if err != nil || got != c.want {
			return false, err
		}
	}
	return true, nil
}

// appliesTo reports whether a filter applies to a response.
func (e *entry) appliesTo(status int, header http.Header) bool {
	for i := range e.onResponse {
		if !e.onResponse[i].Match(status, header) {
			return false
		}
	}
	return true
}
