package pipeline

import (
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
)

// filter returns an entry with a test filter that is called by its label.
func filter(label, settings, fields string) string {
	if settings != "" {
		settings = "," + settings
	}
	if fields != "" {
		fields = "," + fields
	}
	return `{"name":"` + label + `","filter":{"filter":"test_filter","label":"` + label + `"` + settings + `}` + fields + `}`
}

// entries returns a list of entries.
func entries(all ...string) string { return "[" + strings.Join(all, ",") + "]" }

// marking are the routes of a branch that note its name in a request header.
func marking(name string) string {
	return `"routes":[{"handle":[{"handler":"headers","request":{"add":{"X-Marks":["` + name + `"]}}}]}]`
}

// answering are the routes of a branch that answers.
func answering(status string) string {
	return `"routes":[{"handle":[{"handler":"static_response","status_code":` + status + `,"body":"from the branch"}]}]`
}

// branches returns the field with branches, which are b0, b1 and so on.
func branches(all ...string) string {
	list := make([]string, len(all))
	for i, b := range all {
		list[i] = `{"name":"b` + string(rune('0'+i)) + `",` + b + `}`
	}
	return `"branches":[` + strings.Join(list, ",") + `]`
}

// byHeader has a filter say what a request header says.
const byHeader = `"results":{"status":"{http.request.header.X-Say}"}`

// all are the notes of a request by filters with these labels, one after the other.
func all(labels ...string) (want []string) {
	for _, label := range labels {
		want = append(want, label+" request")
	}
	for _, hook := range []string{" response", " log"} {
		for _, label := range slices.Backward(labels) {
			want = append(want, label+hook)
		}
	}
	return want
}

// TestH140_Terminal is a filter that flags requests, and a branch that refuses them.
func TestH140_Terminal(t *testing.T) {
	f := newFlow(t, entries(
		filter("a", "", ""),
		filter("guard", byHeader, branches(`"on_result":{"result":"blocked"},`+answering("403")+`,"rejoin":"terminal"`)),
		filter("c", "", ""),
	))
	f.expect(f.get("/", "X-Say", "passed"), 200, all("a", "guard", "c")...)
	f.expect(f.get("/"), 200, all("a", "guard", "c")...)
	tr := f.get("/", "X-Say", "blocked")
	// The last one would have had a part, and so it is told of the end.
	f.expect(tr, 403, "a request", "guard request", "guard response", "a response", "c log", "guard log", "a log")
	if len(tr.passed) != 0 || tr.Body.String() != "from the branch" {
		t.Errorf("got %q, next handler %d times", tr.Body, len(tr.passed))
	}
}

func TestH141_Unconditional(t *testing.T) {
	f := newFlow(t, entries(filter("a", "", branches(marking("b"))), filter("c", "", "")))
	tr := f.get("/")
	f.expect(tr, 200, all("a", "c")...)
	if got := tr.passed[0]["X-Marks"]; !slices.Equal(got, []string{"b"}) {
		t.Errorf("got %q", got)
	}
}

func TestH142_Forward(t *testing.T) {
	jump := func(settings string) string { return `"match":[{"path":["/jump"]}],` + settings }
	for name, settings := range map[string]string{"bare": `"rejoin":"d"`, "routes": marking("b") + `,"rejoin":"d"`} {
		t.Run(name, func(t *testing.T) {
			f := newFlow(t, entries(filter("a", "", branches(jump(settings))), filter("b", "", ""), filter("c", "", ""), filter("d", "", "")))
			f.expect(f.get("/"), 200, all("a", "b", "c", "d")...)
			f.expect(f.get("/jump"), 200, all("a", "d")...)
		})
	}
	t.Run("end", func(t *testing.T) {
		f := newFlow(t, entries(filter("a", "", branches(jump(`"rejoin":"end"`))), filter("b", "", ""), filter("c", "", "")))
		f.expect(f.get("/"), 200, all("a", "b", "c")...)
		tr := f.get("/jump")
		f.expect(tr, 200, all("a")...)
		if len(tr.passed) != 1 {
			t.Errorf("got %d requests for the next handler, want 1", len(tr.passed))
		}
	})
	t.Run("to the next", func(t *testing.T) {
		f := newFlow(t, entries(filter("a", "", branches(`"rejoin":"b"`, answering("403"))), filter("b", "", "")))
		f.expect(f.get("/"), 200, all("a", "b")...)
	})
}

// TestPassedOverBodies checks that filters that a branch has passed over see no bodies, but for one that was held back
// before any branch was looked at.
func TestPassedOverBodies(t *testing.T) {
	for hold, want := range map[string][]string{
		"false": {"a request", "c request", "c response", "a response", "c log", "a log"},
		"true":  {"b request body", "a request", "c request", "c response", "a response", "b response body", "c log", "a log"},
	} {
		f := newFlow(t, entries(
			filter("a", "", branches(`"rejoin":"c"`)),
			`{"filter":{"filter":"test_body","label":"b","hold":`+hold+`}}`,
			filter("c", "", ""),
		))
		f.expect(f.sent(), 200, want...)
	}
}

// TestH143_Several checks that all branches that go on with the next one run, up to the first that doesn't.
func TestH143_Several(t *testing.T) {
	f := newFlow(t, entries(
		filter("a", byHeader, branches(
			marking("0"),
			`"on_result":{"result":"x"},`+marking("1"),
			`"match":[{"path":["/end"]}],`+marking("2")+`,"rejoin":"end"`,
			`"match":[{"path":["/end"]},{"path":["/c"]}],`+marking("3")+`,"rejoin":"c"`,
			marking("4"),
		)),
		filter("b", "", ""), filter("c", "", ""),
	))
	for _, tc := range []struct {
		path, say string
		marks     string
		ran       []string
	}{
		{"/", "", "0 4", []string{"a", "b", "c"}},
		{"/", "x", "0 1 4", []string{"a", "b", "c"}},
		{"/", "y", "0 4", []string{"a", "b", "c"}},
		{"/end", "x", "0 1 2", []string{"a"}},
		{"/c", "x", "0 1 3", []string{"a", "c"}},
	} {
		tr := f.get(tc.path, "X-Say", tc.say)
		f.expect(tr, 200, all(tc.ran...)...)
		if got := strings.Join(tr.passed[0]["X-Marks"], " "); got != tc.marks {
			t.Errorf("%s %s: got branches %s, want %s", tc.path, tc.say, got, tc.marks)
		}
	}
}

// TestH144_Nested checks that a branch in a branch answers, and that what it passes on comes back to both pipelines. An
// answer passes the inner one first, also by the filters of the outer one that come later.
func TestH144_Nested(t *testing.T) {
	inner := entries(
		filter("x", byHeader, branches(`"on_result":{"result":"blocked"},`+answering("403")+`,"rejoin":"terminal"`, `"match":[{"path":["/end"]}],"rejoin":"end"`)),
		filter("y", "", ""),
	)
	f := newFlow(t, entries(
		filter("a", "", branches(`"routes":[{"handle":[{"handler":"filters","filters":`+inner+`}]}],"rejoin":"c"`)),
		filter("b", "", ""), filter("c", "", ""),
	))
	f.expect(f.get("/"), 200, "a request", "x request", "y request", "c request",
		"y response", "x response", "c response", "a response", "y log", "x log", "c log", "a log")
	f.expect(f.get("/end"), 200, "a request", "x request", "c request", "x response", "c response", "a response", "x log", "c log", "a log")
	tr := f.get("/", "X-Say", "blocked")
	if len(tr.passed) != 0 || tr.Code != 403 {
		t.Errorf("got %d, next handler %d times", tr.Code, len(tr.passed))
	}
}

// TestDeepest checks that the deepest that is accepted works.
func TestDeepest(t *testing.T) {
	tr := newFlow(t, nested(10)).get("/")
	if tr.Code != 200 || len(tr.passed) != 1 || !slices.Contains(tr.notes, "deepest request") {
		t.Errorf("got %d, %q", tr.Code, tr.notes)
	}
}

func TestH145_Backward(t *testing.T) {
	request := func(labels ...string) (want []string) {
		for _, label := range labels {
			want = append(want, label+" request")
		}
		return want
	}
	after := []string{"c response", "b response", "a response", "c log", "b log", "a log"}
	for _, tc := range []struct {
		name, branch string
		want         []string
	}{
		{"twice", `"rejoin":"a","max_iterations":2`, request("a", "b", "a", "b", "a", "b", "c")},
		{"self", `"rejoin":"b","max_iterations":2`, request("a", "b", "b", "b", "c")},
		{"as long as a result says so", `"on_result":{"key":"n","result":"1"},"rejoin":"a","max_iterations":100`, request("a", "b", "a", "b", "c")},
		{"never", `"on_result":{"key":"n","result":"0"},"rejoin":"a","max_iterations":100`, request("a", "b", "c")},
	} {
		t.Run(tc.name, func(t *testing.T) {
			f := newFlow(t, entries(filter("a", "", ""), filter("b", `"times":"n"`, branches(tc.branch)), filter("c", "", "")))
			for range 3 { // requests don't share the count
				f.expect(f.get("/"), 200, append(tc.want, after...)...)
			}
		})
	}
	t.Run("100", func(t *testing.T) {
		f := newFlow(t, entries(filter("a", `"times":"n"`, branches(`"rejoin":"a","max_iterations":100`))))
		tr := f.get("/")
		if value, _ := tr.repl.GetString("http.filters.a.n"); value != "101" {
			t.Errorf("got %q runs, want 101", value)
		}
	})
	t.Run("falls to the next branch", func(t *testing.T) {
		f := newFlow(t, entries(filter("a", "", branches(`"rejoin":"a","max_iterations":1`, answering("403")+`,"rejoin":"terminal"`)), filter("b", "", "")))
		f.expect(f.get("/"), 403, "a request", "a request", "a response", "b log", "a log")
	})
	t.Run("two branches count apart", func(t *testing.T) {
		f := newFlow(t, entries(filter("a", "", ""), filter("b", "", branches(`"rejoin":"a","max_iterations":1`, `"rejoin":"b","max_iterations":1`)), filter("c", "", "")))
		f.expect(f.get("/"), 200, append(request("a", "b", "a", "b", "b", "c"), after...)...)
	})
	t.Run("what was passed over runs the second time", func(t *testing.T) {
		f := newFlow(t, entries(
			filter("a", `"times":"n"`, branches(`"on_result":{"key":"n","result":"1"},"rejoin":"c"`)),
			filter("b", "", ""),
			filter("c", "", `"branches":[{"name":"back","rejoin":"a","max_iterations":1}]`),
		))
		f.expect(f.get("/"), 200, append(request("a", "c", "a", "b", "c"), after...)...)
	})
}

// TestTerminal has the ways by which a terminal branch ends.
func TestTerminal(t *testing.T) {
	serve := func(routes string) *flow {
		return newFlow(t, entries(filter("a", "", branches(routes+`,"rejoin":"terminal"`)), filter("b", "", "")))
	}
	t.Run("H148_no_answer", func(t *testing.T) {
		f := serve(marking("b"))
		before := countNow(t)
		tr := f.get("/")
		f.expect(tr, 500, "a request", "a response", "b log", "a log")
		if len(tr.passed) != 0 || tr.err == nil || !strings.Contains(tr.err.Error(), `branch "b0" has no answer`) {
			t.Errorf("got %v, next handler %d times", tr.err, len(tr.passed))
		}
		before.expect(t, "request_failed")
	})
	t.Run("H149_routed", func(t *testing.T) {
		endpoint := newSite(t, newFlow(t, `{}`).handler)
		f := serve(`"routes":[{"handle":[{"handler":"reverse_proxy","upstreams":[{"dial":"` + endpoint.Listener.Addr().String() + `"}]}]}]`)
		tr := f.get("/")
		f.expect(tr, 200, "a request", "a response", "b log", "a log")
		if tr.Body.String() != "ok" || len(tr.passed) != 0 {
			t.Errorf("got %q, next handler %d times", tr.Body, len(tr.passed))
		}
	})
	t.Run("answered", func(t *testing.T) {
		f := serve(answering("200"))
		f.expect(f.get("/"), 200, "a request", "a response", "b log", "a log")
	})
	t.Run("an error", func(t *testing.T) {
		f := serve(`"routes":[{"handle":[{"handler":"error","status_code":418}]}]`)
		before := countNow(t)
		f.expect(f.get("/"), 418, "a request", "a response", "b log", "a log")
		before.expect(t) // it is the route's error, none of a filter
	})
}

// TestBranchAnswers checks that what a branch answers is the answer also where the branch would go on.
func TestBranchAnswers(t *testing.T) {
	for _, rejoin := range []string{"next", "end", "b"} {
		f := newFlow(t, entries(filter("a", "", branches(answering("203")+`,"rejoin":"`+rejoin+`"`)), filter("b", "", "")))
		tr := f.get("/")
		f.expect(tr, 203, "a request", "a response", "b log", "a log")
		if len(tr.passed) != 0 {
			t.Errorf("%s: got to the next handler", rejoin)
		}
	}
}

// TestSkippedFilterHasNoBranches checks that the branches of a filter that doesn't apply aren't looked at.
func TestSkippedFilterHasNoBranches(t *testing.T) {
	f := newFlow(t, entries(filter("a", "", `"conditions":[{"unless":[{"path":["/skip"]}]}],`+branches(answering("403"))), filter("b", "", "")))
	f.expect(f.get("/skip"), 200, all("b")...)
	if tr := f.get("/"); tr.Code != 403 {
		t.Errorf("got %d", tr.Code)
	}
}

// TestMatcherError checks that a matcher that fails ends the request, wherever it is.
func TestMatcherError(t *testing.T) {
	const failing = `[{"expression":"int({http.request.header.X-Say}) == 1"}]`
	for name, config := range map[string]string{
		"when":   entries(filter("a", "", `"conditions":[{"when":`+failing+`}]`)),
		"unless": entries(filter("a", "", `"conditions":[{"unless":`+failing+`}]`)),
		"branch": entries(filter("a", "", branches(`"match":`+failing+`,"rejoin":"end"`))),
	} {
		t.Run(name, func(t *testing.T) {
			f := newFlow(t, config)
			if tr := f.get("/", "X-Say", "1"); tr.Code != 200 {
				t.Errorf("got %d (%v)", tr.Code, tr.err)
			}
			if tr := f.get("/", "X-Say", "one"); tr.Code != 500 || len(tr.passed) != 0 {
				t.Errorf("got %d (%v), next handler %d times", tr.Code, tr.err, len(tr.passed))
			}
		})
	}
}

// TestBranchPassesOnAnother checks that the pipeline goes on with the request and the writer that a branch has made.
func TestBranchPassesOnAnother(t *testing.T) {
	f := newFlow(t, entries(filter("a", "", branches(`"routes":[{"handle":[{"handler":"subroute","routes":[`+
		`{"handle":[{"handler":"headers","response":{"set":{"X-Branch":["{http.request.uri}"]}}}]}]}]}]`)), filter("b", "", "")))
	f.next = func(w http.ResponseWriter, _ *http.Request) error {
		_, err := io.WriteString(w, "ok")
		return err
	}
	tr := f.get("/x")
	f.expect(tr, 200, all("a", "b")...)
	if got := tr.Header().Get("X-Branch"); got != "/x" {
		t.Errorf("got %q", got)
	}
}

// TestBranchAsksForPlainBodies checks that what a branch answers can be read by the filters that see it.
func TestBranchAsksForPlainBodies(t *testing.T) {
	f := newFlow(t, entries(
		`{"filter":{"filter":"test_body","label":"body"}}`,
		filter("a", "", branches(`"routes":[{"handle":[{"handler":"static_response","body":"{http.request.header.Accept-Encoding}"}]}]`)),
	))
	tr := f.get("/", "Accept-Encoding", "gzip")
	if tr.Body.String() != "identity" || !slices.Contains(tr.notes, "body response body") {
		t.Errorf("got %q, hooks %q", tr.Body, tr.notes)
	}
}
