package snitable

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

// modelRank says how strong the hold of a pattern on a name is; a greater one decides. ok is false when the pattern
// doesn't cover the name. It compares label by label and shares no code with the table.
func modelRank(pattern, name string) (rank int, ok bool) {
	if len(name) > 253 {
		return 0, false
	}
	p, n := strings.Split(strings.ToLower(pattern), "."), strings.Split(name, ".")
	if slices.Contains(n, "") {
		return 0, false
	}
	kind := p[0]
	if kind == "*" || kind == "**" || kind == "" {
		p = p[1:]
	} else {
		kind = "exact"
	}
	extra := len(n) - len(p)
	if extra < 0 || !slices.Equal(n[extra:], p) {
		return 0, false
	}
	switch kind {
	case "exact":
		return 10*len(p) + 4, extra == 0
	case "*":
		return 10*len(p) + 3, extra == 1
	case "**":
		return 10*len(p) + 2, extra >= 1
	}
	return 10*len(p) + 1, true
}

// modelLookup is Lookup by trial of each pattern of each route.
func modelLookup(routes []Route, name string, offer []string) (Match, Result) {
	best, decided := 0, Match{}
	for _, r := range routes {
		for _, pattern := range r.Names {
			if rank, ok := modelRank(pattern, name); ok && rank > best {
				best, decided.Pattern = rank, strings.ToLower(pattern)
			}
		}
	}
	if best == 0 {
		return Match{}, UnknownName
	}
	for _, protocol := range offer {
		for i, r := range routes {
			if lists(r, decided.Pattern) && slices.Contains(r.ALPN, protocol) {
				decided.Route, decided.Protocol = i, protocol
				return decided, Matched
			}
		}
	}
	for i, r := range routes {
		if lists(r, decided.Pattern) && len(r.ALPN) == 0 {
			decided.Route = i
			return decided, Matched
		}
	}
	return decided, UnknownProtocol
}

func lists(r Route, pattern string) bool {
	return slices.ContainsFunc(r.Names, func(name string) bool { return strings.ToLower(name) == pattern })
}

// modelFault says which fault the first bad route has, when all patterns and protocols are good in themselves. The
// order of the faults within that route is left open: all of them are returned.
func modelFault(routes []Route) []error {
	for i, r := range routes {
		faults := ownFaults(r)
		for _, earlier := range routes[:i] {
			faults = append(faults, sharedFaults(earlier, r)...)
		}
		if len(faults) > 0 {
			return faults
		}
	}
	return nil
}

func ownFaults(r Route) (faults []error) {
	if len(r.Names) == 0 {
		return []error{ErrNoNames}
	}
	for i, name := range r.Names {
		if lists(Route{Names: r.Names[:i]}, strings.ToLower(name)) {
			faults = append(faults, ErrDuplicate)
		}
	}
	for i, protocol := range r.ALPN {
		if slices.Contains(r.ALPN[:i], protocol) {
			faults = append(faults, ErrDuplicate)
		}
	}
	return faults
}

func sharedFaults(a, b Route) (faults []error) {
	for _, name := range b.Names {
		if !lists(a, strings.ToLower(name)) {
			continue
		}
		if len(a.ALPN) == 0 && len(b.ALPN) == 0 {
			faults = append(faults, ErrCatchAlls)
		}
		if slices.ContainsFunc(b.ALPN, func(p string) bool { return slices.Contains(a.ALPN, p) }) {
			faults = append(faults, ErrOverlap)
		}
	}
	return faults
}

// checkNew holds New against the model and returns the table, nil when the routes are at fault.
func checkNew(t *testing.T, routes []Route) *Table {
	t.Helper()
	table, err := New(routes)
	faults := modelFault(routes)
	if len(faults) == 0 {
		if err != nil {
			t.Fatalf("%q: got %v, want none", routes, err)
		}
		return table
	}
	if !slices.ContainsFunc(faults, func(fault error) bool { return errors.Is(err, fault) }) {
		t.Fatalf("%q: got %v, want one of %v", routes, err, faults)
	}
	return nil
}

// checkLookup holds Lookup against the model.
func checkLookup(t *testing.T, table *Table, routes []Route, name string, offer []string) Result {
	t.Helper()
	got, result := table.Lookup([]byte(name), offerOf(offer...))
	want, wantResult := modelLookup(routes, name, offer)
	if result == UnknownProtocol {
		got.Route, want.Route = 0, 0
	}
	if got != want || result != wantResult {
		t.Fatalf("%q of %q offering %q: got %+v, %v, want %+v, %v", name, routes, offer, got, result, want, wantResult)
	}
	return result
}

// generator makes routes, names and offers of few words, so that they meet often.
type generator struct{ *rand.Rand }

func (g generator) pick(words ...string) string { return words[g.IntN(len(words))] }

func (g generator) base() string {
	labels := make([]string, 1+g.IntN(3))
	for i := range labels {
		labels[i] = g.pick("a", "b", "A", "aa")
	}
	return strings.Join(labels, ".")
}

func (g generator) name() string {
	labels := make([]string, 1+g.IntN(6))
	for i := range labels {
		labels[i] = g.pick("a", "b", "b", "aa", "c")
	}
	if g.IntN(10) == 0 {
		labels[g.IntN(len(labels))] = ""
	}
	return strings.Join(labels, ".")
}

func (g generator) protocols() []string {
	list := make([]string, g.IntN(4))
	for i := range list {
		list[i] = g.pick("h2", "h3", "http/1.1", "h", "H2", "x")
	}
	return list
}

func (g generator) routes() []Route {
	routes := make([]Route, g.IntN(8))
	for i := range routes {
		for range 1 + g.IntN(3) {
			routes[i].Names = append(routes[i].Names, g.pick("", "*.", "**.", ".")+g.base())
		}
		routes[i].ALPN = g.protocols()
	}
	return routes
}

// TestLookupIsTheModel compares random tables with the model, and wants to have seen all that can happen.
func TestLookupIsTheModel(t *testing.T) {
	g := generator{rand.New(rand.NewPCG(7, 11))}
	results, refused := map[Result]int{}, 0
	for range 3000 {
		routes := g.routes()
		table := checkNew(t, routes)
		if table == nil {
			refused++
			continue
		}
		for range 20 {
			results[checkLookup(t, table, routes, g.name(), g.protocols())]++
		}
	}
	for _, n := range []int{refused, results[Matched], results[UnknownName], results[UnknownProtocol]} {
		if n < 500 {
			t.Errorf("got results %v and %d tables refused, want 500 of each", results, refused)
		}
	}
}

// TestCoversIsTheModel compares Covers with what a lookup in a table of one pattern says. For a certificate's
// wildcard all labels that occur are tried in its place.
func TestCoversIsTheModel(t *testing.T) {
	g := generator{rand.New(rand.NewPCG(13, 17))}
	seen := map[string]int{}
	for range 20_000 {
		pattern := strings.ToLower(g.pick("", "*.", "**.", ".") + g.base())
		name := g.name()
		_, want := modelRank(pattern, name)
		kind := "name"
		if g.IntN(2) == 0 {
			kind = "wildcard"
			want = slices.ContainsFunc([]string{"a", "b", "aa", "other"}, func(label string) bool {
				_, ok := modelRank(pattern, label+"."+name)
				return ok
			})
			name = "*." + name
		}
		if got := Covers(pattern, name); got != want {
			t.Fatalf("Covers(%q, %q): got %v, want %v", pattern, name, got, want)
		}
		seen[fmt.Sprint(kind, want)]++
	}
	for _, what := range []string{"nametrue", "namefalse", "wildcardtrue", "wildcardfalse"} {
		if seen[what] < 500 {
			t.Errorf("got %v, want 500 of each", seen)
		}
	}
}
