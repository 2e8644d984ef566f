package pipeline

import (
	"context"
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
	// The name, for logs. 1 to 64 letters, digits, `_` and `-`. It is unique among the branches and the filters.
	Name string `json:"name,omitempty"`

	// The result of the filter that the branch is for. Without it, and without `match`, all requests take the branch.
	OnResult *OnResult `json:"on_result,omitempty"`

	// Matchers, of which one must match. Default: all requests.
	MatchRaw caddyhttp.RawMatcherSets `json:"match,omitempty" caddy:"namespace=http.matchers"`

	// The routes. A `filters` among them must not look at bodies, which have gone by. Branches in it are nested, at most 10
	// deep. Without routes the branch only leads elsewhere: to `end`, or to a filter.
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

	// What it must be. 1 to 256 bytes of UTF-8 without control characters.
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
func (h *Handler) provisionBranches(ctx caddy.Context, list []placed, filters map[string]int) error {
	names := make(map[string]bool)
	inner := insideBranch(ctx)
	for i := range list {
		switch n := len(list[i].Branches); {
		case n > maxBranches:
			return fmt.Errorf("%s: branches: %d branches, at most %d", list[i].where, n, maxBranches)
		case n > 0 && depthOf(inner) > maxDepth:
			return fmt.Errorf("%s: branches: they are nested %d deep, at most %d", list[i].where, depthOf(inner), maxDepth)
		}
		for k := range list[i].Branches {
			from := &list[i].Branches[k]
			b, err := h.provisionBranch(inner, i, from, filters)
			if err == nil && names[from.Name] {
				err = fmt.Errorf("name: %q is the name of another branch", from.Name)
			}
			if err != nil {
				return fmt.Errorf("%s: branches[%d]: %w", list[i].where, k, err)
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
	if err := b.look(from.OnResult, &h.entries[i]); err != nil {
		return b, fmt.Errorf("on_result: %w", err)
	}
	if err := b.aim(i, filters); err != nil {
		return b, err
	}
	if len(from.Routes) == 0 && from.leadsNowhere() {
		return b, fmt.Errorf("routes: missing; only a branch that rejoins at %s or at a filter may be without", rejoinEnd)
	}
	if from.MatchRaw != nil {
		var err error
		if b.match, err = loadMatchers(ctx, from, "MatchRaw", from.MatchRaw); err != nil {
			return b, fmt.Errorf("match: %w", err)
		}
	}
	b.sub.Routes = from.Routes
	if err := b.sub.Provision(ctx); err != nil {
		return b, fmt.Errorf("routes: %w", err)
	}
	return b, nil
}

// leadsNowhere reports whether requests that take the branch go on as if it weren't there, or not at all.
func (b *Branch) leadsNowhere() bool {
	return b.Rejoin == "" || b.Rejoin == rejoinNext || b.Rejoin == rejoinTerminal
}

// look takes the result of e to look at.
func (b *branch) look(from *OnResult, e *entry) error {
	if from == nil {
		return nil
	}
	if b.key, b.value = from.Key, from.Result; b.key == "" {
		b.key = statusKey
	}
	if b.value == "" {
		return errors.New("result: missing")
	}
	if err := checkResult(b.key, b.value); err != nil {
		return err
	}
	return checkDeclared(e.declared, e.name, b.key, b.value)
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

// depthKey is for the context that the routes of a branch are loaded with: whatever is in them finds it there, in which
// handler ever it is.
type depthKey struct{}

// depthOf returns in how many branches a handler is that is loaded with ctx.
func depthOf(ctx caddy.Context) int {
	depth, _ := ctx.Value(depthKey{}).(int)
	return depth
}

// insideBranch returns the context for what is in a branch of a handler that is loaded with ctx.
func insideBranch(ctx caddy.Context) caddy.Context {
	ctx.Context = context.WithValue(ctx.Context, depthKey{}, depthOf(ctx)+1)
	return ctx
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
		if len(b.sub.Routes) == 0 {
			return x.rejoin(w, i, k)
		}
		if err := x.prepare(); err != nil {
			return err
		}
		return b.sub.ServeHTTP(w, x.r, caddyhttp.HandlerFunc(func(w http.ResponseWriter, r *http.Request) error {
			x.mu.Lock()
			x.r = r
			x.mu.Unlock()
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
		x.jump(i+1, b.target)
		return x.run(w, b.target)
	case b.target >= 0:
		x.loops[b.number]++
		if x.results != nil {
			x.results.forgetFrom(x.h, b.target)
		}
		return x.run(w, b.target)
	case b.rejoin == rejoinEnd:
		x.jump(i+1, len(x.h.entries))
		return x.forward(w)
	case b.rejoin == rejoinTerminal:
		return x.refuse(fmt.Errorf("branch %q has no answer, and is terminal", b.name))
	}
	return x.branch(w, i, k+1)
}
