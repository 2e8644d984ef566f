package clusterproxy

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	_ "github.com/caddyserver/caddy/v2/modules/caddyhttp/standard" // handlers for responses, and matchers

	"github.com/caddy-sluice/sluice/internal/testkit/modules"
	"github.com/caddy-sluice/sluice/internal/testkit/sites"
	"github.com/caddy-sluice/sluice/modules/cluster"
	"github.com/caddy-sluice/sluice/modules/sluiceapp"
)

// patience is how long a test waits for what must come.
const patience = sites.Patience

// object is JSON.
type object = map[string]any

// site is a server with one handler, in front of clusters.
type site struct {
	*httptest.Server
	handler caddyhttp.MiddlewareHandler
	// repl is that of the last request.
	repl atomic.Pointer[caddy.Replacer]
	// failures has the errors of the handler.
	mu       sync.Mutex
	failures []error
	// aborted counts the answers that were cut.
	aborted atomic.Int32
	// before may change a request before the handler gets it.
	before func(*http.Request)
	// duplex lets a handler read a request while it answers, as Caddy's enable_full_duplex does.
	duplex bool
}

// provision returns the context of a config that has clusters, which have started, until the test ends.
func provision(t testing.TB, clusters object) caddy.Context {
	t.Helper()
	ctx, stop := run(t, clusters)
	t.Cleanup(stop)
	return ctx
}

// run is provision until stop is called.
func run(t testing.TB, clusters object) (ctx caddy.Context, stop func()) {
	t.Helper()
	ctx, cancel := prepare(t, clusters)
	app, err := sluiceapp.Of(ctx)
	if err == nil {
		err = app.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	return ctx, func() {
		if err := app.Stop(); err != nil {
			t.Error(err)
		}
		cancel()
	}
}

// prepare returns the context of a config that has clusters, which haven't started.
func prepare(t testing.TB, clusters object) (caddy.Context, func()) {
	t.Helper()
	return modules.ContextUntil(t, caddy.ModuleMap{"sluice": encode(t, object{"clusters": clusters})})
}

func encode(t testing.TB, v any) json.RawMessage {
	t.Helper()
	raw, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

// web returns the config of a cluster of these endpoints, with settings on top.
func web(addresses []string, settings object) object {
	var list []object
	for _, a := range addresses {
		list = append(list, object{"address": a})
	}
	config := object{"endpoints": list, "balance": object{"policy": "first"}}
	maps.Copy(config, settings)
	return config
}

// newSite serves a handler with options, in front of the cluster `web`.
func newSite(t testing.TB, config, options object) *site {
	t.Helper()
	if options == nil {
		options = object{}
	}
	options["cluster"] = "web"
	return serve(t, provision(t, object{"web": config}), "cluster_proxy", options)
}

// serve serves a handler.
func serve(t testing.TB, ctx caddy.Context, name string, options object) *site {
	t.Helper()
	loaded, err := ctx.LoadModuleByID("http.handlers."+name, encode(t, options))
	if err != nil {
		t.Fatal(err)
	}
	return serveHandler(t, loaded.(caddyhttp.MiddlewareHandler))
}

// serveHandler serves a handler that is loaded.
func serveHandler(t testing.TB, h caddyhttp.MiddlewareHandler) *site {
	t.Helper()
	s := &site{handler: h}
	s.Server = sites.Serve(t, s)
	s.Client().Transport.(*http.Transport).DisableCompression = true
	return s
}

// ServeHTTP is what Caddy's server does with a request.
func (s *site) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	repl := caddy.NewReplacer()
	r = caddyhttp.PrepareRequest(r, repl, w, new(caddyhttp.Server))
	if s.before != nil {
		s.before(r)
	}
	if s.duplex {
		_ = http.NewResponseController(w).EnableFullDuplex()
	}
	s.repl.Store(repl)
	defer func() {
		if err := recover(); err != nil {
			s.aborted.Add(1)
			panic(err)
		}
	}()
	err := s.handler.ServeHTTP(w, r, caddyhttp.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) error { return nil }))
	if err == nil {
		return
	}
	s.mu.Lock()
	s.failures = append(s.failures, err)
	s.mu.Unlock()
	w.WriteHeader(sites.Status(err))
	fmt.Fprint(w, err)
}

// placeholder returns what a placeholder is after the last request.
func (s *site) placeholder(name string) string {
	value, _ := s.repl.Load().GetString("http.sluice." + name)
	return value
}

// reply is what a client gets.
type reply struct {
	status int
	header http.Header
	body   string
	err    error
}

// send makes a request.
func (s *site) send(t testing.TB, r *http.Request) reply {
	t.Helper()
	res, err := s.Client().Do(r)
	if err != nil {
		return reply{err: err}
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	return reply{res.StatusCode, res.Header, string(body), err}
}

// request returns a request with a body; the empty one is none.
func (s *site) request(t testing.TB, method, path, body string) *http.Request {
	t.Helper()
	var r io.Reader
	if body != "" {
		r = strings.NewReader(body)
	}
	req, err := http.NewRequest(method, s.URL+path, r)
	if err != nil {
		t.Fatal(err)
	}
	return req
}

// do makes a request with a body.
func (s *site) do(t testing.TB, method, body string) reply {
	t.Helper()
	return s.send(t, s.request(t, method, "/", body))
}

// get makes a request without a body.
func (s *site) get(t testing.TB) reply {
	t.Helper()
	return s.do(t, http.MethodGet, "")
}

// want checks the status of an answer.
func (r reply) want(t testing.TB, status int) {
	t.Helper()
	if r.err != nil || r.status != status {
		t.Fatalf("got %d %q, %v, want %d", r.status, r.body, r.err, status)
	}
}

// idle checks that nothing is under way at the cluster, in a while.
func (s *site) idle(t testing.TB) {
	t.Helper()
	eventually(t, "a cluster without requests, retries and pending connections", func() bool {
		st, ok := cluster.StatusOf("web")
		active := int64(0)
		for _, e := range st.Endpoints {
			active += e.Active
		}
		return ok && st.Requests == 0 && st.Retries == 0 && st.Pending == 0 && active == 0
	})
}

// failuresOf returns the streak of failures of an endpoint.
func failuresOf(t testing.TB, address string) int {
	t.Helper()
	st, _ := cluster.StatusOf("web")
	for _, e := range st.Endpoints {
		if e.Address == address {
			return e.Failures
		}
	}
	t.Fatalf("no endpoint %s", address)
	return 0
}

// eventually waits until something is so.
func eventually(t testing.TB, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(patience); !ok(); {
		if time.Now().After(end) {
			t.Fatalf("no %s", what)
		}
		time.Sleep(time.Millisecond) // between two looks
	}
}
