package pipeline

import (
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/caddy-sluice/sluice/internal/testkit/sites"
)

func init() { caddy.RegisterModule(new(testReader)) }

// testReader is a handler that reads the body while the next ones have the request.
type testReader struct{}

func (*testReader) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: "http.handlers.test_reader", New: func() caddy.Module { return new(testReader) }}
}

func (*testReader) ServeHTTP(w http.ResponseWriter, r *http.Request, next caddyhttp.Handler) error {
	body, done := r.Body, make(chan struct{})
	go func() { // is waited for
		defer close(done)
		_, _ = io.Copy(io.Discard, body)
	}()
	err := next.ServeHTTP(w, r)
	<-done
	return err
}

// TestReaderInBranch: filters behind a branch get their turn while somebody in it still reads the body. What it says the
// race detector says.
func TestReaderInBranch(t *testing.T) {
	const reading = `"routes":[{"handle":[{"handler":"test_reader"}]}]`
	f := newFlow(t, entries(
		`{"name":"first","filter":{"filter":"test_counter"},`+branches(reading)+`}`,
		filter("a", `"times":"n"`, `"branches":[{"name":"jump","match":[{"path":["/jump"]}],"rejoin":"c"}]`),
		filter("b", `"times":"n"`, ""),
		`{"name":"c","filter":{"filter":"test_counter"}}`,
	))
	f.next = func(w http.ResponseWriter, _ *http.Request) error {
		_, err := io.WriteString(w, "ok")
		return err
	}
	for i := range 50 {
		path := []string{"/", "/jump"}[i%2]
		tr := f.do(httptest.NewRequest(http.MethodPost, path, io.NopCloser(strings.NewReader(strings.Repeat("x", 1<<18)))))
		if got := tr.repl.ReplaceAll("{http.filters.a.n}", ""); tr.Code != 200 || got != "1" {
			t.Errorf("got %d, %v, result %q", tr.Code, tr.err, got)
		}
	}
}

func init() { caddy.RegisterModule(new(testCounter)) }

// testCounter counts the pieces of a body, and sees headers.
type testCounter struct{}

func (*testCounter) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: "http.filters.test_counter", New: func() caddy.Module { return new(testCounter) }}
}

func (*testCounter) Request(x *Exchange) error  { return x.Set("request", "1") }
func (*testCounter) Response(x *Exchange) error { return nil }
func (*testCounter) RequestBodyWish() Wish      { return Wish{Access: ReadOnly} }

func (*testCounter) RequestBody(x *Exchange, _ *Chunk) (Action, error) {
	n, _ := x.State().(int)
	x.SetState(n + 1)
	return Continue, x.Set("pieces", fmt.Sprint(n+1))
}

// TestResultsOfStreams: the hook of a body that streams runs on the goroutine of whoever reads. It leaves the variables
// of the request alone, which the next handler may be using.
func TestResultsOfStreams(t *testing.T) {
	h := newHandler(t, entry{name: "f", requestBody: onRequestBody{streamed, func(x *Exchange, _ *Chunk) (Action, error) {
		_ = x.Result("f", "k")
		return Continue, x.Set("k", "v")
	}}})
	s := newSite(t, h)
	s.next = func(_ http.ResponseWriter, r *http.Request) error {
		vars := r.Context().Value(caddyhttp.VarsCtxKey).(map[string]any)
		before := slices.Sorted(maps.Keys(vars))
		repl := r.Context().Value(caddy.ReplacerCtxKey).(*caddy.Replacer)
		body, done := r.Body, make(chan struct{})
		go func() { // is waited for
			defer close(done)
			_, _ = io.ReadAll(body)
		}()
		for range 100 {
			caddyhttp.SetVar(r.Context(), before[0], true)
			_ = repl.ReplaceAll("{http.vars.x}", "")
		}
		<-done
		if after := slices.Sorted(maps.Keys(vars)); !slices.Equal(before, after) {
			t.Errorf("got variables %q, they were %q", after, before)
		}
		if got := repl.ReplaceAll("{http.filters.f.k}", ""); got != "v" {
			t.Errorf("got result %q", got)
		}
		return nil
	}
	post(t, s, "hello")
}

// TestBodyInHooks: a hook that reads the body of the request gets an error, and the body goes on as it was.
func TestBodyInHooks(t *testing.T) {
	read := func(t *testing.T, x *Exchange) {
		if got := x.Replacer().ReplaceAll("{http.request.body}", ""); got != "" {
			t.Errorf("a placeholder got the body %q", got)
		}
	}
	seeing := func(wish Wish) func(t *testing.T) entry {
		return func(t *testing.T) entry {
			return entry{requestBody: onRequestBody{wish, func(x *Exchange, _ *Chunk) (Action, error) {
				read(t, x)
				return Continue, nil
			}}}
		}
	}
	hook := func(t *testing.T) func(x *Exchange) error {
		return func(x *Exchange) error { read(t, x); return nil }
	}
	answering := func(t *testing.T) entry {
		return entry{responseBody: onResponseBody{streamed, func(x *Exchange, _ *Chunk) (Action, error) {
			read(t, x)
			return Continue, nil
		}}}
	}
	for name, of := range map[string]func(t *testing.T) entry{
		"request":       func(t *testing.T) entry { return entry{request: onRequest(hook(t))} },
		"response":      func(t *testing.T) entry { return entry{response: onResponse(hook(t))} },
		"response body": answering,
		"held":          seeing(Wish{Access: ReadOnly, Mode: Buffer}),
		"streamed":      seeing(streamed),
	} {
		for _, wish := range []Wish{streamed, {Access: ReadOnly, Mode: Buffer, Whole: true}} {
			t.Run(fmt.Sprint(name, " ", wish.Mode), func(t *testing.T) {
				e := of(t)
				e.name = "reads"
				s := newSite(t, newHandler(t, entry{name: "sees", requestBody: onRequestBody{wish, idle}}, e))
				got := sendWithin(t, s)
				if taken := s.taken(); got != http.StatusOK || len(taken) != 1 || taken[0].body != "hello" || taken[0].err != nil {
					t.Errorf("got %d, the next handler %+v", got, taken)
				}
			})
		}
	}
}

// TestBodyInUpstreamHooks is TestBodyInHooks for the bodies of endpoints.
func TestBodyInUpstreamHooks(t *testing.T) {
	s := newSite(t, newHandler(t, entry{name: "f", open: true, bound: onBound{ReadOnly, func(x *Exchange, c *Chunk) error {
		if got := x.Replacer().ReplaceAll("{http.request.body}", ""); got != "" || string(c.Bytes()) != "hello" {
			t.Errorf("a placeholder got the body %q, the filter %q", got, c.Bytes())
		}
		return nil
	}}}))
	s.next = func(_ http.ResponseWriter, r *http.Request) error {
		if err := BodiesOf(r).Bind("c"); err != nil {
			return err
		}
		body, err := io.ReadAll(r.Body)
		if string(body) != "hello" {
			t.Errorf("got body %q, %v", body, err)
		}
		return nil
	}
	if got := sendWithin(t, s); got != http.StatusOK {
		t.Errorf("got %d", got)
	}
}

// sendWithin sends a request that may wait for itself, and returns the status.
func sendWithin(t *testing.T, s *site) int {
	t.Helper()
	late := time.AfterFunc(sites.Patience, func() { panic("the request waits for itself") }) // the server would wait for it too
	defer late.Stop()
	return post(t, s, "hello").StatusCode
}

// TestReplacedBody: a body in the place of ours, which somebody in a branch has put there, isn't thrown away to hold ours back.
func TestReplacedBody(t *testing.T) {
	h := newHandler(t, entry{name: "f", requestBody: onRequestBody{streamed, idle}})
	r := httptest.NewRequest(http.MethodPost, "/", strings.NewReader("hello"))
	w := httptest.NewRecorder()
	x := newExchange(h, w, caddyhttp.PrepareRequest(r, caddy.NewReplacer(), w, new(caddyhttp.Server)), nil)
	defer x.end()
	if err := x.openBody(); err != nil {
		t.Fatal(err)
	}
	if err := x.prepare(); err != nil { // nothing is held back
		t.Fatal(err)
	}
	x.r.Body = io.NopCloser(x.r.Body)
	if !x.body.pipe.Upgrade(0, Buffer, 0) {
		t.Fatal("got no upgrade")
	}
	if err := x.prepare(); err == nil || !strings.Contains(err.Error(), "another body") {
		t.Errorf("got %v", err)
	}
}
