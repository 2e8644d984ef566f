package pipeline

import (
	"errors"
	"fmt"
	"net/http"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
)

const (
	// maxBranches is how many branches a filter has at most, and maxDepth how deep they are nested: more is beyond what
	// somebody who reads the config can follow.
	maxBranches = 16
	maxDepth    = 10
	// maxIterations is how often a branch jumps back at most.
	maxIterations = 100
	// statusKey is the key of the result that branches look at if they don't say which.
	statusKey = "status"
)

// What comes after a branch, but for the name of a filter.
const (
	rejoinNext     = "next"
	rejoinEnd      = "end"
	rejoinTerminal = "terminal"
)

// Branch is a way that requests take after a filter. Its routes run when all of its conditions hold. What they answer is
// the answer; a request that they pass on takes up the pipeline again where `rejoin` says.
type Branch struct {
	// The name, for logs. Letters, digits, `_` and `-`. It is unique among the branches and the filters.
	Name string `json:"name,omitempty"`

	// The result of the filter that the branch is for. Without it, and without `match`, all requests take the branch.
	OnResult *OnResult `json:"on_result,omitempty"`

	// Matchers, of which one must match.
	MatchRaw caddyhttp.RawMatcherSets `json:"match,omitempty" caddy:"namespace=http.matchers"`

	// The routes. A `filters` among them must not look at bodies.
	Routes caddyhttp.RouteList `json:"routes,omitempty"`

	// Where a request goes on that the routes have passed on: `next` (the next branch, then the next filter), `end` (what
	// comes after all filters), `terminal` (nowhere: the routes must answer, otherwise it is a 500), or the name of a
	// filter. Default: `next`.
	Rejoin string `json:"rejoin,omitempty"`

	// How often a request may go back to an earlier filter, or to the same. Then it doesn't take the branch any more.
	// Range: 1 to 100. It is required there, and has no meaning otherwise.
	MaxIterations int `json:"max_iterations,omitempty"`
}

// OnResult is a result of a filter.
type OnResult struct {
	// The key of the result. Default: `status`.
	Key string `json:"key,omitempty"`

	// What it must be.
	Result string `json:"result"`
}

// branch is a Branch, ready to use.
type branch struct {
	name string
	// key is that of the result to look at; empty is none.
	key, value string
	match      caddyhttp.MatcherSets
	sub        caddyhttp.Subroute
	rejoin     string
	// target is the filter to go on with, -1 where rejoin is one of the words above.
	target int
	// most is how often it may jump back, number is the place of its count.
	most, number int
}

// provisionBranches loads the branches of all filters.
func (h *Handler) provisionBranches(ctx caddy.Context, list []Entry, filters map[string]int) error {
	names := make(map[string]bool)
	for i := range list {
		if n := len(list[i].Branches); n > maxBranches {
			return fmt.Errorf("filters[%d]: branches: %d branches, at most %d", i, n, maxBranches)
		}
		for k := range list[i].Branches {
			from := &list[i].Branches[k]
			b, err := h.provisionBranch(ctx, i, from, filters)
			if err == nil && names[from.Name] {
				err = fmt.Errorf("name: %q is the name of another branch", from.Name)
			}
			if err != nil {
				return fmt.Errorf("filters[%d]: branches[%d]: %w", i, k, err)
			}
			names[from.Name] = true
			h.entries[i].branches = append(h.entries[i].branches, b)
		}
	}
	return nil
}

// provisionBranch loads a branch of filter i.
func (h *Handler) provisionBranch(ctx caddy.Context, i int, from *Branch, filters map[string]int) (branch, error) {
	b := branch{name: from.Name, rejoin: from.Rejoin, target: -1, most: from.MaxIterations, number: h.branches}
	h.branches++
	if !validName(b.name) {
		return b, fmt.Errorf("name: %q must have 1 to %d letters, digits, _ and -", b.name, maxName)
	}
	if _, taken := filters[b.name]; taken {
		return b, fmt.Errorf("name: %q is the name of a filter", b.name)
	}
	if r := from.OnResult; r != nil {
		if b.key, b.value = r.Key, r.Result; b.key == "" {
			b.key = statusKey
		}
		if err := checkResult(b.key, b.value); err != nil {
			return b, fmt.Errorf("on_result: %w", err)
		}
	}
	if err := b.aim(i, filters); err != nil {
		return b, err
	}
	var err error
	if from.MatchRaw != nil {
		if b.match, err = loadMatchers(ctx, from, "MatchRaw"); err != nil {
			return b, fmt.Errorf("match: %w", err)
		}
	}
	b.sub.Routes = from.Routes
	if err := b.sub.Provision(ctx); err != nil {
		return b, fmt.Errorf("routes: %w", err)
	}
	depth, err := depthOf(b.sub.Routes)
	if err != nil {
		return b, fmt.Errorf("routes: %w", err)
	}
	if h.depth = max(h.depth, depth+1); h.depth > maxDepth {
		return b, fmt.Errorf("branches are nested deeper than %d", maxDepth)
	}
	return b, nil
}

// aim finds out where the branch of filter i leads.
func (b *branch) aim(i int, filters map[string]int) error {
	back := false
	switch b.rejoin {
	case "":
		b.rejoin = rejoinNext
	case rejoinNext, rejoinEnd, rejoinTerminal:
	default:
		target, known := filters[b.rejoin]
		if !known {
			return fmt.Errorf("rejoin: there is no filter %q; must be %s, %s, %s or the name of one", b.rejoin, rejoinNext, rejoinEnd, rejoinTerminal)
		}
		b.target, back = target, target <= i
	}
	switch {
	case back && (b.most < 1 || b.most > maxIterations):
		return fmt.Errorf("max_iterations: %d is out of range, 1 to %d; going back to %q needs it", b.most, maxIterations, b.rejoin)
	case !back && b.most != 0:
		return errors.New("max_iterations: has no meaning for a branch that doesn't go back")
	}
	return nil
}

// depthOf returns how deep branches are nested in routes. Pipelines in them must not look at bodies: these have gone by
// the filters already.
func depthOf(routes caddyhttp.RouteList) (depth int, err error) {
	for _, route := range routes {
		for _, handler := range route.Handlers {
			n := 0
			switch inner := handler.(type) {
			case *Handler:
				if !inner.plans.requestIdle || !inner.plans.responseIdle {
					return 0, errors.New("filters in a branch must not look at bodies")
				}
				n = inner.depth
			case *caddyhttp.Subroute:
				if n, err = depthOf(inner.Routes); err != nil {
					return 0, err
				}
			}
			depth = max(depth, n)
		}
	}
	return depth, nil
}

// branch has the request take the branches of filter i from one on.
func (x *Exchange) branch(w http.ResponseWriter, i, k int) error {
	e := &x.h.entries[i]
	for ; k < len(e.branches); k++ {
		b := &e.branches[k]
		takes, err := x.takes(i, b)
		if err != nil {
			return err
		}
		if !takes {
			continue
		}
		if err := x.prepare(); err != nil {
			return err
		}
		return b.sub.ServeHTTP(w, x.r, caddyhttp.HandlerFunc(func(w http.ResponseWriter, r *http.Request) error {
			x.r = r
			return x.rejoin(w, i, k)
		}))
	}
	return x.run(w, i+1)
}

// takes reports whether the request takes a branch of filter i.
func (x *Exchange) takes(i int, b *branch) (bool, error) {
	if b.most > 0 && x.looped(b) >= b.most {
		return false, nil
	}
	if b.key != "" {
		if x.results == nil {
			return false, nil
		}
		if value, ok := x.results.of(x.h, i, b.key); !ok || value != b.value {
			return false, nil
		}
	}
	return b.match.AnyMatchWithError(x.r)
}

// looped returns how often the request has gone back by a branch.
func (x *Exchange) looped(b *branch) int {
	for len(x.loops) < x.h.branches {
		x.loops = append(x.loops, 0)
	}
	return int(x.loops[b.number])
}

// rejoin has the request go on after a branch of filter i.
func (x *Exchange) rejoin(w http.ResponseWriter, i, k int) error {
	b := &x.h.entries[i].branches[k]
	switch {
	case b.target > i:
		for j := i + 1; j < b.target; j++ {
			x.jumped |= bit(j)
		}
		return x.run(w, b.target)
	case b.target >= 0:
		x.loops[b.number]++
		if x.results != nil {
			x.results.forget(x.h, b.target)
		}
		return x.run(w, b.target)
	case b.rejoin == rejoinEnd:
		for j := i + 1; j < len(x.h.entries); j++ {
			x.jumped |= bit(j)
		}
		return x.forward(w)
	case b.rejoin == rejoinTerminal:
		return x.refuse(fmt.Errorf("branch %s has no answer, and is terminal", b.name))
	}
	return x.branch(w, i, k+1)
}
