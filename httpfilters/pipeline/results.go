package pipeline

import (
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"unicode"
	"unicode/utf8"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
)

const (
	// maxValue is the longest value of a result, as long as what is worth a place in a log line.
	maxValue = 256
	// resultsVar is the variable that has the results of a request.
	resultsVar = "sluice.filters.results"
	// resultPrefix is what their placeholders begin with.
	resultPrefix = namespace + "."
)

// result is what a filter found out about a request.
type result struct {
	// h and entry say which filter, filter is its name.
	h     *Handler
	entry int

	filter, key, value string
	// ofBody says that a hook for a body has set it, which runs once for each piece of it.
	ofBody bool
}

// results are those of one request, from all the handlers that it passed. They outlive the exchange, for what is logged.
type results struct {
	// mu guards list, in which the last counts.
	mu   sync.Mutex
	list []result
}

// resultsOf returns the results of a request, which has them from the first time on.
func resultsOf(r *http.Request) *results {
	vars, ok := r.Context().Value(caddyhttp.VarsCtxKey).(map[string]any)
	if !ok {
		return new(results)
	}
	if all, ok := vars[resultsVar].(*results); ok {
		return all
	}
	all := new(results)
	vars[resultsVar] = all
	r.Context().Value(caddy.ReplacerCtxKey).(*caddy.Replacer).Map(all.placeholder)
	return all
}

// String is for who prints the variables of a request.
func (s *results) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var b strings.Builder
	for _, r := range s.list {
		fmt.Fprintf(&b, "%s.%s=%q ", r.filter, r.key, r.value)
	}
	return strings.TrimSpace(b.String())
}

// placeholder returns the value of a placeholder.
func (s *results) placeholder(key string) (any, bool) {
	rest, ours := strings.CutPrefix(key, resultPrefix)
	if !ours {
		return nil, false
	}
	filter, name, _ := strings.Cut(rest, ".")
	value, ok := s.named(filter, name)
	return value, ok
}

// set adds a result, or changes it.
func (s *results) set(r result) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.list = slices.DeleteFunc(s.list, func(old result) bool { return old.h == r.h && old.entry == r.entry && old.key == r.key })
	s.list = append(s.list, r)
}

// named returns the last result of a filter with a name.
func (s *results) named(filter, key string) (string, bool) {
	return s.last(func(r *result) bool { return r.filter == filter && r.key == key })
}

// of returns a result of an entry.
func (s *results) of(h *Handler, entry int, key string) (string, bool) {
	return s.last(func(r *result) bool { return r.h == h && r.entry == entry && r.key == key })
}

func (s *results) last(is func(*result) bool) (string, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range slices.Backward(s.list) {
		if is(&s.list[i]) {
			return s.list[i].value, true
		}
	}
	return "", false
}

// forget drops the results of a handler: the request passes it again.
func (s *results) forget(h *Handler) {
	s.drop(func(r result) bool { return r.h == h })
}

// forgetFrom drops the results of the entries from one on: they run again, but for their hooks for bodies, which see none
// twice.
func (s *results) forgetFrom(h *Handler, from int) {
	s.drop(func(r result) bool { return r.h == h && r.entry >= from && !r.ofBody })
}

func (s *results) drop(is func(r result) bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.list = slices.DeleteFunc(s.list, is)
}

// declared returns the results that a filter says it sets; nil if it doesn't say.
func declared(filter any) map[string][]string {
	if declarer, ok := filter.(ResultDeclarer); ok {
		return declarer.DeclaredResults()
	}
	return nil
}

// checkDeclared says what is wrong with a result if the filter with this name says which ones it sets, and never sets it.
func checkDeclared(results map[string][]string, filter, key, value string) error {
	if len(results) == 0 {
		return nil
	}
	values, known := results[key]
	if !known {
		return fmt.Errorf("%s never sets a result %q; must be one of %s", filter, key, strings.Join(slices.Sorted(maps.Keys(results)), ", "))
	}
	if len(values) > 0 && !slices.Contains(values, value) {
		return fmt.Errorf("%s never sets %s to %q; must be one of %s", filter, key, value, strings.Join(values, ", "))
	}
	return nil
}

// checkResult says what is wrong with a result.
func checkResult(key, value string) error {
	if !validName(key) {
		return fmt.Errorf("key %q of a result: must have 1 to %d letters, digits, _ and -", key, maxName)
	}
	if len(value) > maxValue {
		return fmt.Errorf("result %s: %d bytes, at most %d", key, len(value), maxValue)
	}
	if !utf8.ValidString(value) || strings.ContainsFunc(value, unicode.IsControl) {
		return fmt.Errorf("result %s: %q has a control character, or isn't UTF-8", key, value)
	}
	return nil
}
