package pipeline

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"go.uber.org/zap"

	"github.com/caddy-sluice/sluice/internal/testkit/sites"
)

// toEndpoint is a next handler that does what cluster_proxy does with the bodies that endpoints get.
func toEndpoint(w http.ResponseWriter, r *http.Request) error {
	if b := BodiesOf(r); b != nil {
		if err := b.Bind("c"); err != nil {
			return err
		}
		if _, err := b.Select("e"); err != nil {
			return err
		}
	}
	return answer(w, r)
}

// failing returns the entry of a filter that does something in a hook.
func failing(hook, do, fields string) string {
	settings := `"label":"a","do":{"` + hook + `":"` + do + `"}` + fields
	switch hook {
	case "request", "response", "log":
		return `{"filter":{"filter":"test_filter",` + settings + `}`
	case "bound", "selected":
		return `{"filter":{"filter":"test_upstream",` + settings + `}`
	}
	return `{"filter":{"filter":"test_body",` + settings + `}`
}

// hooks are the hooks that can fail before the answer has begun.
var hooks = []struct {
	name, hook, fields string
	// again says that a filter that may fail is asked again: a body comes in pieces.
	again bool
}{
	{"request", "request", "", false},
	{"request body", "request body", "", true},
	{"request body held", "request body", `,"hold":true`, false},
	{"bound", "bound", "", false},
	{"selected", "selected", "", false},
	{"response", "response", "", false},
	{"response body held", "response body", `,"hold":true`, false},
}

// sent has a request with a body answered.
func (f *flow) sent() *trip {
	f.Helper()
	f.next = toEndpoint
	return f.do(httptest.NewRequest(http.MethodPost, "/", strings.NewReader("hello")))
}

// TestFailureModes checks what comes of a filter that fails, that rejects, and that panics, in each hook. Each request
// counts once.
func TestFailureModes(t *testing.T) {
	for _, tc := range hooks {
		t.Run(tc.name, func(t *testing.T) {
			serve := func(do, mode string) (*flow, *trip) {
				f := newFlow(t, entries(failing(tc.hook, do, tc.fields)+`,"failure_mode":"`+mode+`"}`))
				return f, f.sent()
			}
			check := func(tr *trip, status int, body string) {
				t.Helper()
				if tr.Code != status || tr.Body.String() != body || tr.panic != nil {
					t.Errorf("got %d %q (%v, panic %v), want %d %q", tr.Code, tr.Body, tr.err, tr.panic, status, body)
				}
				if n := times(tr.notes, "a "+tc.hook); n != 1 && !tc.again {
					t.Errorf("got %q, want %s once", tr.notes, tc.hook)
				}
			}
			t.Run("closed", func(t *testing.T) {
				before := countNow(t)
				_, tr := serve("fail", "closed")
				check(tr, 500, "")
				if !errors.Is(tr.err, errTest) {
					t.Errorf("got %v, want the error of the filter for handle_errors", tr.err)
				}
				before.expect(t, "request_failed")
			})
			t.Run("open", func(t *testing.T) {
				before := countNow(t)
				f, tr := serve("fail", "open")
				check(tr, 200, "ok")
				before.expect(t, "passed_over")
				warned := f.logs.FilterMessage("filter failed, request goes on").AllUntimed()
				if len(warned) != 1 || warned[0].Level != zap.WarnLevel || warned[0].ContextMap()["error"] != errTest.Error() {
					t.Errorf("got log %v", warned)
				}
			})
			for _, mode := range []string{"closed", "open"} {
				t.Run("rejects "+mode, func(t *testing.T) {
					before := countNow(t)
					_, tr := serve("reject", mode)
					check(tr, 418, "")
					before.expect(t, "filter")
				})
				t.Run("panics "+mode, func(t *testing.T) {
					before := countNow(t)
					f, tr := serve("panic", mode)
					check(tr, 500, "")
					before.expect(t, "panic")
					logged := f.logs.FilterLevelExact(zap.ErrorLevel).AllUntimed()
					if len(logged) != 1 || !strings.Contains(fmt.Sprint(logged[0].ContextMap()["stack"]), "(*doing).hook") {
						t.Errorf("got log %v, want one line with the place", logged)
					}
				})
			}
		})
	}
}

// times returns how often something is in a list.
func times(list []string, what string) (n int) {
	for _, s := range list {
		if s == what {
			n++
		}
	}
	return n
}

// TestLogPanics checks that a filter that panics at the end harms nobody: the answer is out, the others are told.
func TestLogPanics(t *testing.T) {
	f := newFlow(t, entries(filter("a", "", ""), filter("b", `"do":{"log":"panic"}`, ""), filter("c", "", "")))
	before := countNow(t)
	f.expect(f.get("/"), 200, all("a", "b", "c")...)
	before.expect(t, "panic")
	if logged := f.logs.FilterMessage("filter panicked").Len(); logged != 1 {
		t.Errorf("got %d lines", logged)
	}
}

// TestAbort checks that the panic that ends a connection passes, from filters and from the next handler.
func TestAbort(t *testing.T) {
	for _, hook := range []string{"request", "response"} {
		f := newFlow(t, entries(failing(hook, "abort", "")+"}", filter("b", "", "")))
		before := countNow(t)
		if tr := f.sent(); tr.panic != http.ErrAbortHandler || times(tr.notes, "b log") != 1 {
			t.Errorf("%s: got panic %v, hooks %q", hook, tr.panic, tr.notes)
		}
		before.expect(t)
	}
	f := newFlow(t, entries(filter("a", "", "")))
	f.next = func(http.ResponseWriter, *http.Request) error { panic("test: the next handler panics") }
	tr := f.get("/")
	if fmt.Sprint(tr.panic) != "test: the next handler panics" || !slices.Equal(tr.notes, []string{"a request", "a log"}) {
		t.Errorf("got panic %v, hooks %q", tr.panic, tr.notes)
	}
}

// TestPanicHarmsNobodyElse has requests pass a filter that panics for some of them, on the same connections.
func TestPanicHarmsNobodyElse(t *testing.T) {
	f := newFlow(t, entries(filter("a", "", ""), failing("request", "panic", "")+`,"conditions":[{"when":[{"path":["/bad"]}]}]}`))
	site := prepareSite(f.handler)
	server := sites.ServeBoth(t, noted(site))
	var wait sync.WaitGroup
	for i := range 8 {
		wait.Go(func() {
			for n := range 20 {
				path, want := "/good", 200
				if (n+i)%2 == 0 {
					path, want = "/bad", 500
				}
				res, err := server.Client().Get(server.URL + path)
				if err != nil {
					t.Errorf("%s: %v", path, err)
					return
				}
				_, _ = io.Copy(io.Discard, res.Body)
				res.Body.Close()
				if res.StatusCode != want {
					t.Errorf("%s: got %d, want %d", path, res.StatusCode, want)
				}
			}
		})
	}
	wait.Wait()
	if n := site.logs.FilterMessage("filter panicked").Len(); n != 80 {
		t.Errorf("got %d lines, want 80", n)
	}
}

// TestH160_ResponseFiltersRunOnce checks that the answer that Caddy makes of an error passes the filters, once.
func TestH160_ResponseFiltersRunOnce(t *testing.T) {
	for name, next := range map[string]caddyhttp.HandlerFunc{
		"error": func(http.ResponseWriter, *http.Request) error {
			return caddyhttp.Error(http.StatusBadGateway, errors.New("no endpoint"))
		},
		"error with a header": func(w http.ResponseWriter, _ *http.Request) error {
			w.Header().Set("X-Half", "1") // is for the answer, whoever writes it
			return caddyhttp.Error(http.StatusBadGateway, errors.New("no endpoint"))
		},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFlow(t, entries(filter("a", "", ""), filter("ok", "", `"on_response":[{"status_code":[2]}]`), filter("c", "", "")))
			f.next = next
			before := countNow(t)
			tr := f.get("/")
			f.expect(tr, 502, "a request", "ok request", "c request", "c response", "a response", "c log", "ok log", "a log")
			before.expect(t) // no filter did it
		})
	}
	t.Run("error after the answer has begun", func(t *testing.T) {
		f := newFlow(t, entries(filter("a", "", "")))
		f.next = func(w http.ResponseWriter, r *http.Request) error {
			if err := answer(w, r); err != nil {
				return err
			}
			return errTest
		}
		tr := f.get("/")
		if !errors.Is(tr.err, errTest) || !slices.Equal(tr.notes, all("a")) {
			t.Errorf("got %v, hooks %q", tr.err, tr.notes)
		}
	})
	t.Run("a filter refuses the request", func(t *testing.T) {
		f := newFlow(t, entries(filter("a", "", ""), filter("b", `"do":{"request":"reject"}`, ""), filter("c", "", "")))
		f.expect(f.get("/"), 418, "a request", "b request", "b response", "a response", "c log", "b log", "a log")
	})
	t.Run("a filter refuses the response", func(t *testing.T) {
		// The others see the answer that comes in its place too: it is another one. The one that has refused doesn't.
		f := newFlow(t, entries(filter("a", "", ""), filter("b", `"do":{"response":"reject"}`, ""), filter("c", "", "")))
		before := countNow(t)
		f.expect(f.get("/"), 418, "a request", "b request", "c request", "c response", "b response", "c response", "a response",
			"c log", "b log", "a log")
		before.expect(t, "filter")
	})
	t.Run("two filters refuse the response", func(t *testing.T) {
		f := newFlow(t, entries(filter("a", "", ""), filter("b", `"do":{"response":"fail"}`, ""), filter("c", `"do":{"response":"reject"}`, "")))
		before := countNow(t)
		f.expect(f.get("/"), 418, "a request", "b request", "c request", "c response", "b response", "a response",
			"c log", "b log", "a log")
		before.expect(t, "filter")
	})
	t.Run("a filter refuses the answer to an error of the next handler", func(t *testing.T) {
		f := newFlow(t, entries(filter("a", `"do":{"response":"reject"}`, "")))
		f.next = func(http.ResponseWriter, *http.Request) error {
			return caddyhttp.Error(http.StatusBadGateway, errors.New("no endpoint"))
		}
		before := countNow(t)
		f.expect(f.get("/"), 418, "a request", "a response", "a log")
		before.expect(t, "filter")
	})
	t.Run("a filter fails for the answer to an error", func(t *testing.T) {
		f := newFlow(t, entries(filter("a", "", ""), filter("b", `"do":{"response":"reject"}`, ""), filter("c", `"do":{"request":"fail"}`, "")))
		before := countNow(t)
		tr := f.get("/")
		if tr.Code != 418 || times(tr.notes, "b response") != 1 {
			t.Errorf("got %d, hooks %q", tr.Code, tr.notes)
		}
		before.expect(t, "request_failed")
	})
}
