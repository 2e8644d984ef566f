package pipeline

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
)

// TestH152_Conditions has the matchers that filters of other proxies have as conditions, and how they read.
func TestH152_Conditions(t *testing.T) {
	for _, tc := range []struct {
		name, conditions string
		applies, not     []string // method, path, and headers
	}{
		{
			"path is exact", `{"when":[{"path":["/api"]}]}`,
			[]string{"GET /api", "GET /api?x=1", "GET /API"},
			[]string{"GET /", "GET /api/", "GET /apis", "GET /x/api"},
		},
		{
			"prefix ends at no segment", `{"when":[{"path":["/api*"]}]}`,
			[]string{"GET /api", "GET /api/x", "GET /apis"},
			[]string{"GET /", "GET /ap", "GET /x/api"},
		},
		{
			"method", `{"when":[{"method":["GET","put"]}]}`,
			[]string{"GET /", "PUT /"},
			[]string{"POST /", "HEAD /", "get /", "put /"},
		},
		{
			"header: name in any case, value in its case", `{"when":[{"header":{"x-Kind":["Blue"]}}]}`,
			[]string{"GET / X-KIND:Blue", "GET / x-kind:Blue"},
			[]string{"GET /", "GET / X-Kind:blue", "GET / X-Kind:Bluer", "GET / X-Kind:"},
		},
		{
			"header is there", `{"when":[{"header":{"X-Kind":["*"]}}]}`,
			[]string{"GET / X-Kind:Blue", "GET / X-Kind:"},
			[]string{"GET /"},
		},
		{
			"all matchers of a set", `{"when":[{"path":["/a"],"method":["POST"]}]}`,
			[]string{"POST /a"},
			[]string{"GET /a", "POST /b"},
		},
		{
			"any set", `{"when":[{"path":["/a"]},{"method":["POST"]}]}`,
			[]string{"GET /a", "POST /b", "POST /a"},
			[]string{"GET /b"},
		},
		{
			"unless any set", `{"unless":[{"path":["/a"]},{"method":["POST"]}]}`,
			[]string{"GET /b"},
			[]string{"GET /a", "POST /b", "POST /a"},
		},
		{
			"unless a header", `{"unless":[{"header":{"X-Kind":["Blue"]}}]}`,
			[]string{"GET /", "GET / X-Kind:blue"},
			[]string{"GET / X-Kind:Blue"},
		},
		{
			"all conditions", `{"when":[{"path":["/a*"]}]},{"unless":[{"path":["/ab"]}]},{"when":[{"method":["GET"]}]}`,
			[]string{"GET /a", "GET /abc"},
			[]string{"GET /ab", "POST /a", "GET /b"},
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			f := newFlow(t, entries(filter("a", "", `"conditions":[`+tc.conditions+`]`), filter("b", "", "")))
			for _, request := range tc.applies {
				f.expect(f.do(requestOf(request)), 200, all("a", "b")...)
			}
			for _, request := range tc.not {
				f.expect(f.do(requestOf(request)), 200, all("b")...)
			}
		})
	}
}

// requestOf makes a request of a method, a path and perhaps a header.
func requestOf(line string) *http.Request {
	words := strings.Fields(line)
	r := httptest.NewRequest(words[0], words[1], nil)
	for _, field := range words[2:] {
		name, value, _ := strings.Cut(field, ":")
		r.Header.Add(name, value)
	}
	return r
}

// TestConditionsSeeEarlierFilters checks that a condition is looked at when it is the filter's turn, and once.
func TestConditionsSeeEarlierFilters(t *testing.T) {
	const ifMarked = `"conditions":[{"when":[{"header":{"X-Mark":["1"]}}]}]`
	f := newFlow(t, entries(
		filter("b", "", ifMarked),
		filter("a", `"headers":{"X-Mark":"1"}`, ""),
		filter("c", "", ifMarked+","+branches(`"rejoin":"b","max_iterations":1`)),
	))
	f.expect(f.get("/", "X-Mark", "1"), 200, "a request", "c request", "a request", "c request",
		"c response", "a response", "c log", "a log")
}

// TestH154_OnResponse checks that a filter for some responses has its part in all requests.
func TestH154_OnResponse(t *testing.T) {
	f := newFlow(t, entries(
		filter("codes", "", `"on_response":[{"status_code":[200,404]}]`),
		filter("class", "", `"on_response":[{"status_code":[4]}]`),
		filter("header", "", `"on_response":[{"headers":{"X-Kind":["Blue"]}}]`),
		filter("both", "", `"on_response":[{"status_code":[2]},{"headers":{"X-Kind":["*"]}}]`),
		`{"filter":{"filter":"test_body","label":"body"},"on_response":[{"status_code":[2]}]}`,
		filter("all", "", ""),
	))
	f.next = func(w http.ResponseWriter, r *http.Request) error {
		if kind := r.Header.Get("X-Kind"); kind != "" {
			w.Header().Set("X-Kind", kind)
		}
		var status int
		if _, err := fmt.Sscanf(r.URL.Path, "/%d", &status); err != nil {
			return err
		}
		w.WriteHeader(status)
		_, err := io.WriteString(w, "body")
		return err
	}
	for _, tc := range []struct {
		request string
		want    []string
	}{
		{"GET /200", []string{"all", "codes", "body"}},
		{"GET /201 X-Kind:Blue", []string{"all", "both", "header", "body"}},
		{"GET /200 X-Kind:blue", []string{"all", "both", "codes", "body"}},
		{"GET /404", []string{"all", "class", "codes"}},
		{"GET /410 X-Kind:Blue", []string{"all", "header", "class"}},
		{"GET /500", []string{"all"}},
	} {
		tr := f.do(requestOf(tc.request))
		var got []string
		for _, note := range tr.notes {
			if label, hook, _ := strings.Cut(note, " "); strings.HasPrefix(hook, "response") {
				got = append(got, label)
			}
		}
		if !slices.Equal(got, tc.want) {
			t.Errorf("%s: got filters %q for the response, want %q", tc.request, got, tc.want)
		}
		for _, label := range []string{"codes", "class", "header", "both", "all"} {
			if !slices.Contains(tr.notes, label+" request") || !slices.Contains(tr.notes, label+" log") {
				t.Errorf("%s: got %q, want %s to have its part in the request and to be told of the end", tc.request, tr.notes, label)
			}
		}
	}
}

// TestH155_SkippedEverywhere checks that a filter that is skipped has no part in anything.
func TestH155_SkippedEverywhere(t *testing.T) {
	for _, hold := range []string{"true", "false"} {
		t.Run("hold "+hold, func(t *testing.T) {
			const unless = `"conditions":[{"unless":[{"header":{"X-Skip":["*"]}}]}]`
			f := newFlow(t, entries(
				filter("head", "", unless),
				`{"filter":{"filter":"test_body","label":"body","hold":`+hold+`},`+unless+`}`,
				`{"filter":{"filter":"test_upstream","label":"up"},`+unless+`}`,
			))
			f.next = func(w http.ResponseWriter, r *http.Request) error {
				if b := BodiesOf(r); b != nil {
					if err := b.Bind("c"); err != nil {
						return err
					}
					payload, err := b.Select("e")
					if err != nil {
						return err
					}
					r.Body = payload.Open()
				}
				return answer(w, r)
			}
			tr := f.do(httptest.NewRequest(http.MethodPost, "/", strings.NewReader("hello")))
			slices.Sort(tr.notes)
			f.expect(tr, 200, "body request body", "body response body", "head log", "head request", "head response", "up bound", "up selected")
			r := httptest.NewRequest(http.MethodPost, "/", strings.NewReader("hello"))
			r.Header.Set("X-Skip", "1")
			f.expect(f.do(r), 200)
		})
	}
}
