package clusterproxy

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
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

	"github.com/caddy-sluice/sluice/modules/balancers"
	"github.com/caddy-sluice/sluice/modules/cluster"
	"github.com/caddy-sluice/sluice/modules/sluiceapp"
)

// patience is how long a test waits for what must come.
const patience = 10 * time.Second

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

// provision returns the context of a config that has clusters, which have started.
func provision(t testing.TB, clusters object) caddy.Context {
	t.Helper()
	config := &caddy.Config{
		Admin: &caddy.AdminConfig{Disabled: true},
		Logging: &caddy.Logging{Logs: map[string]*caddy.CustomLog{
			"default": {BaseLog: caddy.BaseLog{WriterRaw: []byte(`{"output":"discard"}`)}},
		}},
		AppsRaw: caddy.ModuleMap{"sluice": encode(t, object{"clusters": clusters})},
	}
	base, err := caddy.ProvisionContext(config)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := caddy.NewContext(base)
	t.Cleanup(cancel)
	app, err := sluiceapp.Of(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if err := app.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := app.Stop(); err != nil {
			t.Error(err)
		}
	})
	return ctx
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
	s := &site{handler: loaded.(caddyhttp.MiddlewareHandler)}
	s.Server = httptest.NewUnstartedServer(s)
	s.Config.ConnState = nil
	s.EnableHTTP2 = true
	s.Start()
	t.Cleanup(s.Close)
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
	status := http.StatusInternalServerError
	if failed, ok := errors.AsType[caddyhttp.HandlerError](err); ok {
		status = failed.StatusCode
	}
	w.WriteHeader(status)
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

// backend is an endpoint that answers with a handler, and counts.
type backend struct {
	*httptest.Server
	address  string
	requests atomic.Int32
	accepted atomic.Int32
}

// newBackend starts an endpoint.
func newBackend(t testing.TB, h http.HandlerFunc) *backend {
	t.Helper()
	b := unstarted(h)
	b.Start()
	return b.started(t)
}

func unstarted(h http.HandlerFunc) *backend {
	b := new(backend)
	b.Server = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		b.requests.Add(1)
		h(w, r)
	}))
	b.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		if state == http.StateNew {
			b.accepted.Add(1)
		}
	}
	return b
}

func (b *backend) started(t testing.TB) *backend {
	t.Helper()
	t.Cleanup(b.Close)
	b.address = b.Listener.Addr().String()
	return b
}

// echo answers with the method and the body.
func echo(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	fmt.Fprintf(w, "%s %s", r.Method, body)
}

// raw is an endpoint that speaks as a function does, on each connection.
type raw struct {
	address  string
	accepted atomic.Int32
}

// newRaw starts an endpoint. The connection is closed when the function returns.
func newRaw(t testing.TB, serve func(nth int, c net.Conn)) *raw {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	b := &raw{address: ln.Addr().String()}
	var running sync.WaitGroup
	running.Go(func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			nth := int(b.accepted.Add(1))
			running.Go(func() {
				defer c.Close()
				serve(nth, c)
			})
		}
	})
	t.Cleanup(func() {
		_ = ln.Close()
		running.Wait()
	})
	return b
}

// dead returns an address where nobody listens.
func dead(t testing.TB) string {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	return ln.Addr().String()
}

// relay passes bytes between a connection and an address, until one of them has ended.
func relay(c net.Conn, address string) {
	to, err := net.Dial("tcp", address)
	if err != nil {
		return
	}
	defer to.Close()
	var other sync.WaitGroup
	other.Go(func() {
		_, _ = io.Copy(to, c)
		_ = to.Close()
	})
	_, _ = io.Copy(c, to)
	_ = c.Close()
	other.Wait()
}

// listenAt listens at an address where another server was.
func listenAt(t testing.TB, address string) net.Listener {
	t.Helper()
	var ln net.Listener
	eventually(t, "free address", func() (ok bool) {
		var err error
		ln, err = net.Listen("tcp", address)
		return err == nil
	})
	return ln
}

// statusOf returns what is known about a cluster.
func statusOf(t testing.TB, name string) cluster.Status {
	t.Helper()
	st, ok := cluster.StatusOf(name)
	if !ok {
		t.Fatalf("no cluster %s", name)
	}
	return st
}

// parseKey reads a key.
func parseKey(t testing.TB, text string) balancers.Key {
	t.Helper()
	key, err := balancers.ParseKey(text)
	if err != nil {
		t.Fatal(err)
	}
	return key
}
