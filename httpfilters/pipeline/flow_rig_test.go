package pipeline

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	_ "github.com/caddyserver/caddy/v2/modules/caddyhttp/headers"      // to set headers in branches
	_ "github.com/caddyserver/caddy/v2/modules/caddyhttp/intercept"    // has routes for answers
	_ "github.com/caddyserver/caddy/v2/modules/caddyhttp/reverseproxy" // has routes for answers
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/caddy-sluice/sluice/internal/testkit/modules"
)

func init() {
	caddy.RegisterModule(new(testFilter))
	caddy.RegisterModule(new(testBody))
	caddy.RegisterModule(new(testGuard))
	caddy.RegisterModule(new(testUpstream))
	caddy.RegisterModule(new(testNothing))
}

// notes is what happens to one request, in order: the label of a filter and the hook.
type notes []string

// notesKey is the key of a request's notes in its context.
const notesKey caddy.CtxKey = "test_notes"

// withNotes returns the context of a request that has these notes.
func withNotes(r *http.Request, n *notes) context.Context {
	return context.WithValue(r.Context(), notesKey, n)
}

// doing is what test filters do in each hook, by its name, besides taking a note: `fail`, `panic`, `abort` or
// `reject`.
type doing struct {
	Label string            `json:"label,omitempty"`
	Do    map[string]string `json:"do,omitempty"`
}

var errTest = errors.New("test: it fails")

func (d *doing) hook(x *Exchange, name string) error {
	n := x.Request().Context().Value(notesKey).(*notes)
	*n = append(*n, d.Label+" "+name)
	switch d.Do[name] {
	case "fail":
		return errTest
	case "panic":
		panic("test: it panics")
	case "abort":
		panic(http.ErrAbortHandler)
	case "reject":
		return Reject(http.StatusTeapot, errors.New("test: it rejects"))
	}
	return nil
}

// testFilter sees headers.
type testFilter struct {
	doing
	// Results are set for requests; a value may be a placeholder.
	Results map[string]string `json:"results,omitempty"`
	// Times is the key of the result that says how often the filter was asked about the request.
	Times string `json:"times,omitempty"`
	// Headers are set for requests, and owned.
	Headers map[string]string `json:"headers,omitempty"`
	// Declared are the results that the filter says it sets.
	Declared map[string][]string `json:"declared,omitempty"`
}

func (*testFilter) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: "http.filters.test_filter", New: func() caddy.Module { return new(testFilter) }}
}

func (f *testFilter) Request(x *Exchange) error {
	if err := f.hook(x, "request"); err != nil {
		return err
	}
	for key, value := range f.Results {
		if value = x.Replacer().ReplaceAll(value, ""); value == "" {
			continue
		}
		if err := x.Set(key, value); err != nil {
			return err
		}
	}
	for name, value := range f.Headers {
		x.Request().Header.Set(name, value)
	}
	if f.Times == "" {
		return nil
	}
	times, _ := x.State().(int)
	x.SetState(times + 1)
	return x.Set(f.Times, fmt.Sprint(times+1))
}

func (f *testFilter) Response(x *Exchange) error { return f.hook(x, "response") }
func (f *testFilter) Log(x *Exchange)            { _ = f.hook(x, "log") }

func (f *testFilter) DeclaredResults() map[string][]string { return f.Declared }

func (f *testFilter) OwnedHeaders() (names []string) {
	for name := range f.Headers {
		names = append(names, name)
	}
	return names
}

// testBody sees bodies.
type testBody struct {
	doing
	Hold bool `json:"hold,omitempty"`
	Idle bool `json:"idle,omitempty"`
	// Most is how many bytes to hold back.
	Most int64 `json:"most,omitempty"`
}

func (*testBody) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: "http.filters.test_body", New: func() caddy.Module { return new(testBody) }}
}

func (f *testBody) wish() Wish {
	switch {
	case f.Idle:
		return Wish{}
	case f.Hold:
		return Wish{Access: ReadOnly, Mode: Buffer, Whole: true}
	case f.Most > 0:
		return Wish{Access: ReadOnly, Mode: Buffer, Max: f.Most}
	}
	return Wish{Access: ReadOnly}
}

func (f *testBody) RequestBodyWish() Wish  { return f.wish() }
func (f *testBody) ResponseBodyWish() Wish { return f.wish() }

func (f *testBody) RequestBody(x *Exchange, _ *Chunk) (Action, error) {
	return Done, f.hook(x, "request body")
}

func (f *testBody) ResponseBody(x *Exchange, _ *Chunk) (Action, error) {
	return Done, f.hook(x, "response body")
}

// testGuard protects something.
type testGuard struct{ testFilter }

func (*testGuard) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: "http.filters.test_guard", New: func() caddy.Module { return new(testGuard) }}
}

func (*testGuard) Guard() {}

// testUpstream sees the bodies that endpoints get.
type testUpstream struct{ doing }

func (*testUpstream) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: "http.filters.test_upstream", New: func() caddy.Module { return new(testUpstream) }}
}

func (*testUpstream) BoundBodyAccess() Access                    { return ReadOnly }
func (f *testUpstream) BoundBody(x *Exchange, _ *Chunk) error    { return f.hook(x, "bound") }
func (*testUpstream) SelectedBodyAccess() Access                 { return ReadOnly }
func (f *testUpstream) SelectedBody(x *Exchange, _ *Chunk) error { return f.hook(x, "selected") }

// testNothing has no hook.
type testNothing struct{}

func (*testNothing) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: "http.filters.test_nothing", New: func() caddy.Module { return new(testNothing) }}
}

// flow is a handler from a config, with the next handler behind it.
type flow struct {
	testing.TB
	handler *Handler
	logs    *observer.ObservedLogs
	// next is the next handler; the default one reads the body and says "ok".
	next caddyhttp.HandlerFunc
}

// newFlow loads a handler from its JSON, or from that of the list of its filters.
func newFlow(t testing.TB, config string) *flow {
	t.Helper()
	return newFlowIn(t, modules.Context(t), config)
}

func newFlowIn(t testing.TB, ctx caddy.Context, config string) *flow {
	t.Helper()
	loaded, err := ctx.LoadModuleByID("http.handlers.filters", []byte(handlerConfig(config)))
	if err != nil {
		t.Fatal(err)
	}
	h := loaded.(*Handler)
	core, logs := observer.New(zap.DebugLevel)
	h.logger = zap.New(core)
	return &flow{TB: t, handler: h, logs: logs}
}

// handlerConfig returns the config of a handler with a list of filters.
func handlerConfig(config string) string {
	if strings.HasPrefix(config, "[") {
		return `{"filters":` + config + `}`
	}
	return config
}

// trip is a request that was answered.
type trip struct {
	*httptest.ResponseRecorder
	notes notes
	// passed are the headers of the request each time that it came to the next handler.
	passed []http.Header
	repl   *caddy.Replacer
	err    error
	panic  any
}

// get has a GET request answered. headers are names and values.
func (f *flow) get(path string, headers ...string) *trip {
	f.Helper()
	r := httptest.NewRequest(http.MethodGet, path, nil)
	for pair := range slices.Chunk(headers, 2) {
		r.Header.Add(pair[0], pair[1])
	}
	return f.do(r)
}

// do has a request answered as Caddy's server does it.
func (f *flow) do(r *http.Request) *trip {
	f.Helper()
	tr := &trip{ResponseRecorder: httptest.NewRecorder(), repl: caddy.NewReplacer()}
	r = caddyhttp.PrepareRequest(r, tr.repl, tr, withErrorRoutes())
	r = r.WithContext(withNotes(r, &tr.notes))
	next := func(w http.ResponseWriter, r *http.Request) error {
		tr.passed = append(tr.passed, r.Header.Clone())
		if f.next != nil {
			return f.next(w, r)
		}
		return answer(w, r)
	}
	func() {
		defer func() { tr.panic = recover() }()
		tr.err = f.handler.ServeHTTP(tr, r, caddyhttp.HandlerFunc(next))
	}()
	if tr.err != nil {
		tr.Code = http.StatusInternalServerError
		if failed, ok := errors.AsType[caddyhttp.HandlerError](tr.err); ok {
			tr.Code = failed.StatusCode
		}
	}
	return tr
}

// expect checks the status and the notes.
func (f *flow) expect(tr *trip, status int, want ...string) {
	f.Helper()
	if tr.Code != status {
		f.Errorf("got status %d (%v), want %d", tr.Code, tr.err, status)
	}
	if !slices.Equal(tr.notes, want) {
		f.Errorf("got hooks %q, want %q", tr.notes, want)
	}
}

// answer reads the body and says "ok".
func answer(w http.ResponseWriter, r *http.Request) error {
	if _, err := io.ReadAll(r.Body); err != nil {
		return err
	}
	_, err := io.WriteString(w, "ok")
	return err
}
