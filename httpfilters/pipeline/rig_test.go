package pipeline

import (
	"io"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/caddy-sluice/sluice/internal/bodypipe"
	"github.com/caddy-sluice/sluice/internal/permit"
	"github.com/caddy-sluice/sluice/internal/testkit/sites"
)

// The hooks as functions.
type (
	onRequest     func(x *Exchange) error
	onResponse    func(x *Exchange) error
	onLog         func(x *Exchange)
	onRequestBody struct {
		wish Wish
		hook func(x *Exchange, c *Chunk) (Action, error)
	}
	onResponseBody struct {
		wish Wish
		hook func(x *Exchange, c *Chunk) (Action, error)
	}
	onBound struct {
		access Access
		hook   func(x *Exchange, c *Chunk) error
	}
	onSelected struct {
		access Access
		hook   func(x *Exchange, c *Chunk) error
	}
)

func (f onRequest) Request(x *Exchange) error                               { return f(x) }
func (f onResponse) Response(x *Exchange) error                             { return f(x) }
func (f onLog) Log(x *Exchange)                                             { f(x) }
func (f onRequestBody) RequestBodyWish() Wish                               { return f.wish }
func (f onRequestBody) RequestBody(x *Exchange, c *Chunk) (Action, error)   { return f.hook(x, c) }
func (f onResponseBody) ResponseBodyWish() Wish                             { return f.wish }
func (f onResponseBody) ResponseBody(x *Exchange, c *Chunk) (Action, error) { return f.hook(x, c) }
func (f onBound) BoundBodyAccess() Access                                   { return f.access }
func (f onBound) BoundBody(x *Exchange, c *Chunk) error                     { return f.hook(x, c) }
func (f onSelected) SelectedBodyAccess() Access                             { return f.access }
func (f onSelected) SelectedBody(x *Exchange, c *Chunk) error               { return f.hook(x, c) }

// newHandler returns a handler with these filters and the default settings.
func newHandler(t testing.TB, entries ...entry) *Handler {
	t.Helper()
	h := &Handler{entries: entries, logger: zap.NewNop(), budget: bodypipe.Budget{Held: new(permit.Gauge)}}
	if err := h.provisionSettings(); err != nil {
		t.Fatal(err)
	}
	if err := h.plan(); err != nil {
		t.Fatal(err)
	}
	return h
}

// seen is a request as the next handler gets it.
type seen struct {
	*http.Request
	body string
	err  error
}

// site is a server with the handler in front of a backend.
type site struct {
	*httptest.Server
	handler *Handler
	logs    *observer.ObservedLogs
	// backend answers; the default one says "ok". next is a backend that may fail.
	backend http.HandlerFunc
	next    caddyhttp.HandlerFunc

	// mu guards requests.
	mu       sync.Mutex
	requests []seen
}

// newSite serves a backend behind a handler, by HTTP/1.
func newSite(t testing.TB, h *Handler) *site {
	t.Helper()
	s := prepareSite(h)
	s.Server = sites.Serve(t, s)
	return s
}

// prepareSite is newSite without the server.
func prepareSite(h *Handler) *site {
	core, logs := observer.New(zap.DebugLevel)
	h.logger = zap.New(core)
	return &site{handler: h, logs: logs}
}

// ServeHTTP is what Caddy's server does with a request.
func (s *site) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	r = caddyhttp.PrepareRequest(r, caddy.NewReplacer(), w, new(caddyhttp.Server))
	err := s.handler.ServeHTTP(w, r, caddyhttp.HandlerFunc(s.serve))
	if err != nil {
		w.WriteHeader(sites.Status(err))
	}
}

// serve is the next handler.
func (s *site) serve(w http.ResponseWriter, r *http.Request) error {
	if s.next != nil {
		return s.next(w, r)
	}
	if s.backend != nil {
		s.backend(w, r)
		return nil
	}
	body, err := io.ReadAll(r.Body)
	s.mu.Lock()
	s.requests = append(s.requests, seen{r.Clone(r.Context()), string(body), err})
	s.mu.Unlock()
	if err != nil {
		return err
	}
	_, err = io.WriteString(w, "ok")
	return err
}

// taken returns the requests that have come through since the last call.
func (s *site) taken() []seen {
	s.mu.Lock()
	defer s.mu.Unlock()
	got := s.requests
	s.requests = nil
	return got
}
