package pipeline

import (
	"bytes"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
)

func init() { caddy.RegisterModule(new(testFinder)) }

// testFinder finds out whether a body is without an `x`, and by what it set itself whether it has seen the header before.
type testFinder struct{}

func (*testFinder) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: "http.filters.test_finder", New: func() caddy.Module { return new(testFinder) }}
}

func (*testFinder) RequestBodyWish() Wish { return rewrite }

func (*testFinder) RequestBody(x *Exchange, c *Chunk) (Action, error) {
	if bytes.Contains(c.Bytes(), []byte("x")) {
		return Continue, nil
	}
	return Continue, x.Set("status", "missing")
}

// RequestBodyHead says what kind of body the header promises.
func (*testFinder) RequestBodyHead(x *Exchange) error {
	return x.Set("kind", x.Request().Header.Get("Content-Type"))
}

func (*testFinder) Request(x *Exchange) error {
	if x.Result("test_finder", "first") != "" {
		return x.Set("later", "1")
	}
	return x.Set("first", "1")
}

// TestH150_LoopKeepsWhatBodiesSay: a branch that leads back forgets what filters have found out, but for what they found in a
// body, which they don't see again: the next branch relies on it.
func TestH150_LoopKeepsWhatBodiesSay(t *testing.T) {
	f := newFlow(t, entries(`{"filter":{"filter":"test_finder"},`+branches(
		`"on_result":{"result":"missing"},"rejoin":"test_finder","max_iterations":2`,
		`"on_result":{"key":"later","result":"1"},`+answering("403")+`,"rejoin":"terminal"`,
		`"on_result":{"result":"missing"},`+answering("422")+`,"rejoin":"terminal"`,
	)+`}`))
	for body, want := range map[string]int{"x": http.StatusOK, "y": http.StatusUnprocessableEntity} {
		tr := f.do(httptest.NewRequest(http.MethodPost, "/", strings.NewReader(body)))
		if got, _ := tr.repl.GetString("http.filters.test_finder.status"); tr.Code != want || (got == "missing") != (want != http.StatusOK) {
			t.Errorf("%s: got %d, result %q", body, tr.Code, got)
		}
	}
}

// TestLoopKeepsWhatHeadsSay: nor is a filter asked again about the header of a body.
func TestLoopKeepsWhatHeadsSay(t *testing.T) {
	f := newFlow(t, entries(`{"filter":{"filter":"test_finder"},`+branches(`"rejoin":"test_finder","max_iterations":2`)+`}`))
	r := httptest.NewRequest(http.MethodPost, "/", strings.NewReader("x"))
	r.Header.Set("Content-Type", "text/plain")
	tr := f.do(r)
	if got, _ := tr.repl.GetString("http.filters.test_finder.kind"); tr.Code != http.StatusOK || got != "text/plain" {
		t.Errorf("got %d, result %q", tr.Code, got)
	}
}

// What a body has said is forgotten when the request passes the same handler once more.
func TestH150_PassingAgainForgetsBodies(t *testing.T) {
	f := newFlow(t, entries(`{"filter":{"filter":"test_finder"},`+branches(
		`"match":[{"method":["PUT"]}],"on_result":{"result":"missing"},`+answering("422")+`,"rejoin":"terminal"`,
	)+`}`))
	f.next = func(w http.ResponseWriter, r *http.Request) error {
		again := r.Clone(r.Context())
		again.Method, again.Body = http.MethodPut, httptest.NewRequest(http.MethodPut, "/", strings.NewReader("x")).Body
		return f.handler.ServeHTTP(w, again, caddyhttp.HandlerFunc(answer))
	}
	if tr := f.do(httptest.NewRequest(http.MethodPost, "/", strings.NewReader("y"))); tr.Code != http.StatusOK {
		t.Errorf("got %d, %v", tr.Code, tr.err)
	}
}
