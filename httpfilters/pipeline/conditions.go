package pipeline

import (
	"errors"
	"fmt"
	"net/http"

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
		field, raw := "UnlessRaw", from.UnlessRaw
		if c.want = from.WhenRaw != nil; c.want {
			field, raw = "WhenRaw", from.WhenRaw
		}
		if (from.WhenRaw != nil) == (from.UnlessRaw != nil) || len(raw) == 0 {
			return nil, fmt.Errorf("conditions[%d]: %w", i, errors.New("must have either when or unless, with a matcher"))
		}
		var err error
		if c.match, err = loadMatchers(ctx, from, field); err != nil {
			return nil, fmt.Errorf("conditions[%d]: %w", i, err)
		}
	}
	return conditions, nil
}

// loadMatchers loads the matchers in a field of a struct.
func loadMatchers(ctx caddy.Context, from any, field string) (caddyhttp.MatcherSets, error) {
	loaded, err := ctx.LoadModule(from, field)
	if err != nil {
		return nil, err
	}
	var sets caddyhttp.MatcherSets
	err = sets.FromInterface(loaded)
	return sets, err
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
