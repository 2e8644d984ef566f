package clusterproxy

import (
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/caddy-sluice/sluice/httpfilters/pipeline"
	"github.com/caddy-sluice/sluice/modules/sluiceapp"
)

func init() {
	caddy.RegisterModule(&boundFilter{})
	caddy.RegisterModule(&selectedFilter{})
	caddy.RegisterModule(&bodyFilter{})
	caddy.RegisterModule(&loopFilter{})
}

// bodyHook is what a filter does to a body.
type bodyHook func(x *pipeline.Exchange, c *pipeline.Chunk) error

// bodyHooks has the hooks of the tests, by the names that configs have them under.
var bodyHooks sync.Map

// hooked is a filter whose hook a test has set.
type hooked struct {
	Hook string `json:"hook"`
	hook bodyHook
}

func (f *hooked) Provision(caddy.Context) error {
	hook, _ := bodyHooks.Load(f.Hook)
	f.hook = hook.(bodyHook)
	return nil
}

// boundFilter, selectedFilter and bodyFilter have their hook where their names say.
type (
	boundFilter    struct{ hooked }
	selectedFilter struct{ hooked }
	bodyFilter     struct{ hooked }
)

func (*boundFilter) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: "http.filters.test_bound", New: func() caddy.Module { return new(boundFilter) }}
}

func (*boundFilter) BoundBodyAccess() pipeline.Access { return pipeline.ReadWrite }

func (f *boundFilter) BoundBody(x *pipeline.Exchange, c *pipeline.Chunk) error { return f.hook(x, c) }

func (*selectedFilter) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: "http.filters.test_selected", New: func() caddy.Module { return new(selectedFilter) }}
}

func (*selectedFilter) SelectedBodyAccess() pipeline.Access { return pipeline.ReadWrite }

func (f *selectedFilter) SelectedBody(x *pipeline.Exchange, c *pipeline.Chunk) error {
	return f.hook(x, c)
}

func (*bodyFilter) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: "http.filters.test_body", New: func() caddy.Module { return new(bodyFilter) }}
}

func (*bodyFilter) RequestBodyWish() pipeline.Wish {
	return pipeline.Wish{Access: pipeline.ReadWrite, Mode: pipeline.Buffer, Whole: true}
}

func (f *bodyFilter) RequestBody(x *pipeline.Exchange, c *pipeline.Chunk) (pipeline.Action, error) {
	return pipeline.Continue, f.hook(x, c)
}

// loopFilter has its branches taken.
type loopFilter struct{}

func (*loopFilter) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: "http.filters.test_loop", New: func() caddy.Module { return new(loopFilter) }}
}

func (*loopFilter) Request(x *pipeline.Exchange) error { return x.Set("status", "again") }

// hooksMade counts the hooks, so that each has another name.
var hooksMade atomic.Int64

// hook returns the config of a filter whose hook is f: the kind is bound, selected, or body.
func hook(t testing.TB, kind string, f bodyHook) object {
	t.Helper()
	name := fmt.Sprintf("%s_%d", kind, hooksMade.Add(1))
	bodyHooks.Store(name, f)
	t.Cleanup(func() { bodyHooks.Delete(name) })
	return object{"name": name, "filter": object{"filter": "test_" + kind, "hook": name}}
}

// chain is handlers of which each is the next of the one before.
type chain []caddyhttp.MiddlewareHandler

func (c chain) ServeHTTP(w http.ResponseWriter, r *http.Request, next caddyhttp.Handler) error {
	if len(c) == 0 {
		return next.ServeHTTP(w, r)
	}
	return c[0].ServeHTTP(w, r, caddyhttp.HandlerFunc(func(w http.ResponseWriter, r *http.Request) error {
		return c[1:].ServeHTTP(w, r, next)
	}))
}

// filteredSite is a site with pipelines in front of handlers, and what it holds in memory.
type filteredSite struct {
	*site
	app *sluiceapp.App
}

// newFiltered serves handlers, given as name and options, in front of clusters.
func newFiltered(t testing.TB, clusters object, handlers ...handler) *filteredSite {
	t.Helper()
	ctx := provision(t, clusters)
	app, err := sluiceapp.Of(ctx)
	if err != nil {
		t.Fatal(err)
	}
	var all chain
	for _, h := range handlers {
		loaded, err := ctx.LoadModuleByID("http.handlers."+h.name, encode(t, h.options))
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, loaded.(caddyhttp.MiddlewareHandler))
	}
	return &filteredSite{serveHandler(t, all), app}
}

// handler is the name of a handler and its options.
type handler struct {
	name    string
	options object
}

// filters returns a pipeline.
func filters(list ...object) handler { return handler{"filters", object{"filters": list}} }

// proxyTo returns a cluster_proxy to the cluster.
func proxyTo(name string) handler { return handler{"cluster_proxy", object{"cluster": name}} }

// quiet checks that nothing is under way, and that no memory is held.
func (s *filteredSite) quiet(t testing.TB) {
	t.Helper()
	s.idle(t)
	eventually(t, "freed memory", func() bool { return s.app.BodyBudget().Held.Load() == 0 })
}
