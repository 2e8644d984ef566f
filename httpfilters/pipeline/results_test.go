package pipeline

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
)

func TestH156_Results(t *testing.T) {
	for _, tc := range []struct {
		key, value string
		ok         bool
	}{
		{"k", "", true},
		{"aZ09_-", "any text: {}, ünï, 漢字", true},
		{strings.Repeat("k", 64), strings.Repeat("v", 256), true},
		{"", "v", false},
		{strings.Repeat("k", 65), "v", false},
		{"a.b", "v", false},
		{"a b", "v", false},
		{"{k}", "v", false},
		{"ä", "v", false},
		{"k", strings.Repeat("v", 257), false},
		{"k", strings.Repeat("é", 129), false},
		{"k", "a\nb", false},
		{"k", "a\tb", false},
		{"k", "\x00", false},
		{"k", "\x7f", false},
		{"k", "a\u0085b", false},
		{"k", "a\xffb", false},
	} {
		t.Run(fmt.Sprintf("%.10q %.10q", tc.key, tc.value), func(t *testing.T) {
			var got error
			h := newHandler(t, entry{name: "a", request: onRequest(func(x *Exchange) error {
				got = x.Set(tc.key, tc.value)
				if value := x.Result("a", tc.key); got == nil && value != tc.value || got != nil && value != "" {
					t.Errorf("got %q back", value)
				}
				return nil
			})})
			f := &flow{TB: t, handler: h}
			tr := f.get("/")
			if (got == nil) != tc.ok {
				t.Errorf("got %v", got)
			}
			if value, known := tr.repl.GetString("http.filters.a." + tc.key); known != tc.ok || tc.ok && value != tc.value {
				t.Errorf("got placeholder %q, %v", value, known)
			}
		})
	}
}

// TestH150_ResultsDoNotLeak checks that branches look at the results of their own filter only, of this time only.
func TestH150_ResultsDoNotLeak(t *testing.T) {
	deny := func(name string) string {
		return `"branches":[{"name":"` + name + `","on_result":{"key":"n","result":"1"},` + answering("403") + `,"rejoin":"terminal"}]`
	}
	t.Run("to another filter", func(t *testing.T) {
		f := newFlow(t, entries(filter("a", `"times":"n"`, ""), filter("b", "", deny("x"))))
		f.expect(f.get("/"), 200, all("a", "b")...)
	})
	t.Run("to another one of the same module", func(t *testing.T) {
		f := newFlow(t, entries(`{"filter":{"filter":"test_filter","label":"a","times":"n"}}`, `{"filter":{"filter":"test_filter","label":"b"},`+deny("x")+`}`))
		f.expect(f.get("/"), 200, all("a", "b")...)
	})
	t.Run("to another handler", func(t *testing.T) {
		one := newFlow(t, entries(filter("a", `"times":"n"`, "")))
		two := newFlow(t, entries(filter("b", `"results":{"other":"1"}`, deny("x"))))
		one.next = func(w http.ResponseWriter, r *http.Request) error {
			return two.handler.ServeHTTP(w, r, caddyhttp.HandlerFunc(answer))
		}
		if tr := one.get("/"); tr.Code != 200 {
			t.Errorf("got %d", tr.Code)
		}
	})
	t.Run("by another handler", func(t *testing.T) {
		one, two := newFlow(t, entries(filter("a", `"times":"n"`, ""))), newFlow(t, entries(filter("b", `"results":{"n":"2"}`, "")))
		one.next = func(w http.ResponseWriter, r *http.Request) error {
			return two.handler.ServeHTTP(w, r, caddyhttp.HandlerFunc(answer))
		}
		if got := one.get("/").repl.ReplaceAll("{http.filters.a.n} {http.filters.b.n}", ""); got != "1 2" {
			t.Errorf("got %q", got)
		}
	})
	t.Run("from the time before", func(t *testing.T) {
		// The first time b says 1 and is sent back, the second time it says nothing.
		f := newFlow(t, entries(
			filter("a", `"times":"n"`, ""),
			filter("b", `"results":{"seen":"{http.filters.b.seen}{http.filters.a.n}"}`, branches(
				`"on_result":{"key":"seen","result":"1"},"rejoin":"a","max_iterations":2`,
				`"on_result":{"key":"seen","result":"12"},`+answering("403")+`,"rejoin":"terminal"`,
			)),
		))
		tr := f.get("/")
		f.expect(tr, 200, "a request", "b request", "a request", "b request", "b response", "a response", "b log", "a log")
		if got := tr.repl.ReplaceAll("{http.filters.b.seen}", ""); got != "2" {
			t.Errorf("got %q, want what the second time has found out", got)
		}
	})
	t.Run("to the same handler, later", func(t *testing.T) {
		f := newFlow(t, entries(
			filter("a", `"results":{"always":"1","status":"{http.request.header.X-Say}"}`, branches(`"on_result":{"result":"x"},"rejoin":"end"`)),
			filter("b", "", ""),
		))
		f.next = func(w http.ResponseWriter, r *http.Request) error {
			r.Header.Del("X-Say")
			return f.handler.ServeHTTP(w, r, caddyhttp.HandlerFunc(answer))
		}
		tr := f.get("/", "X-Say", "x")
		f.expect(tr, 200, "a request", "a request", "b request", "b response", "a response", "a response", "b log", "a log", "a log")
	})
	t.Run("to another request", func(t *testing.T) {
		f := newFlow(t, entries(filter("a", byHeader, branches(`"on_result":{"result":"x"},`+answering("403")+`,"rejoin":"terminal"`))))
		for range 3 {
			if tr := f.get("/", "X-Say", "x"); tr.Code != 403 {
				t.Errorf("got %d", tr.Code)
			}
			if tr := f.get("/"); tr.Code != 200 {
				t.Errorf("got %d", tr.Code)
			}
		}
	})
}

// TestPlaceholders checks that results are there for all that comes later, and after the request.
func TestPlaceholders(t *testing.T) {
	f := newFlow(t, entries(
		filter("first", byHeader, branches(`"match":[{"vars":{"{http.filters.first.status}":["deny"]}}],`+answering("403")+`,"rejoin":"terminal"`)),
		filter("when", "", `"conditions":[{"when":[{"expression":"{http.filters.first.status} == \"yes\""}]}]`),
		filter("copy", `"results":{"status":"{http.filters.first.status}!"}`, ""),
		`{"name":"first_again","filter":{"filter":"test_filter","label":"again","results":{"status":"again"}}}`,
	))
	for _, tc := range []struct {
		say, copied string
		status      int
		when        bool
	}{
		{"yes", "yes!", 200, true},
		{"no", "no!", 200, false},
		{"", "!", 200, false},
		{"deny", "", 403, false},
	} {
		tr := f.get("/", "X-Say", tc.say)
		when := false
		for _, note := range tr.notes {
			when = when || note == "when request"
		}
		if tr.Code != tc.status || when != tc.when {
			t.Errorf("%s: got %d, the filter with the condition ran %v", tc.say, tr.Code, when)
		}
		// What is logged comes after the handler.
		if got := tr.repl.ReplaceAll("{http.filters.first.status}, {http.filters.copy.status}", ""); got != tc.say+", "+tc.copied {
			t.Errorf("%s: got %q", tc.say, got)
		}
	}
	if _, known := f.get("/").repl.GetString("http.filters.first.status"); known {
		t.Error("got a result that nobody has set")
	}
}

// TestSameName checks that of several filters with a name the last result counts.
func TestSameName(t *testing.T) {
	f := newFlow(t, entries(
		`{"filter":{"filter":"test_filter","label":"a","results":{"k":"one","only":"a"}}}`,
		`{"filter":{"filter":"test_filter","label":"b","results":{"k":"two"}}}`,
	))
	if got := f.get("/").repl.ReplaceAll("{http.filters.test_filter.k} {http.filters.test_filter.only}", ""); got != "two a" {
		t.Errorf("got %q", got)
	}
}

// TestResultsAreText checks that the variables of a request can be printed.
func TestResultsAreText(t *testing.T) {
	f := newFlow(t, entries(filter("a", `"results":{"k":"v"}`, "")))
	var got string
	f.next = func(_ http.ResponseWriter, r *http.Request) error {
		got = fmt.Sprint(caddyhttp.GetVar(r.Context(), resultsVar))
		return nil
	}
	f.get("/")
	if got != `a.k="v"` {
		t.Errorf("got %s", got)
	}
}
