package pipeline

import (
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/caddy-sluice/sluice/internal/testkit/sites"
)

// TestOwnedHeaders checks that no client can send a header that a filter sets.
func TestOwnedHeaders(t *testing.T) {
	const owner = `{"filter":{"filter":"test_filter","label":"a","headers":{"x-owned":"ours"}},"conditions":[{"unless":[{"path":["/skip"]}]}]}`
	for name, config := range map[string]string{
		"alone":           entries(filter("first", `"results":{"saw":"{http.request.header.X-Owned}"}`, ""), owner),
		"with body":       entries(filter("first", `"results":{"saw":"{http.request.header.X-Owned}"}`, ""), owner, `{"filter":{"filter":"test_body"}}`),
		"with a branch":   entries(filter("first", `"results":{"saw":"{http.request.header.X-Owned}"}`, branches(`"match":[{"path":["/skip"]}],"rejoin":"end"`)), owner),
		"with a held one": entries(filter("first", `"results":{"saw":"{http.request.header.X-Owned}"}`, ""), owner, `{"filter":{"filter":"test_body","hold":true}}`),
	} {
		t.Run(name, func(t *testing.T) {
			f := newFlow(t, config)
			for _, path := range []string{"/", "/skip"} {
				tr := f.get(path, "X-Owned", "theirs", "x-oWNED", "theirs too", "X_Owned", "theirs", "x.owned", "theirs", "X-Other", "theirs")
				want := []string{"ours"}
				if path == "/skip" {
					want = nil
				}
				if got := tr.passed[0]["X-Owned"]; !slices.Equal(got, want) {
					t.Errorf("%s: got %q, want %q", path, got, want)
				}
				if _, sent := tr.passed[0]["X_owned"]; sent || len(tr.passed[0]["X.owned"]) > 0 {
					t.Errorf("%s: got other spellings in %v", path, tr.passed[0])
				}
				if got := tr.passed[0].Get("X-Other"); got != "theirs" {
					t.Errorf("%s: got %q of another header", path, got)
				}
				if saw := tr.repl.ReplaceAll("{http.filters.first.saw}", ""); saw != "" {
					t.Errorf("%s: an earlier filter saw %q", path, saw)
				}
			}
		})
	}
}

// TestOwnedTrailers checks the same of trailers, announced or not.
func TestOwnedTrailers(t *testing.T) {
	const owner = `{"filter":{"filter":"test_filter","headers":{"X-Owned":"ours"}},"conditions":[{"unless":[{"path":["/skip"]}]}]}`
	for name, config := range map[string]string{
		"alone":        entries(owner),
		"body":         entries(owner, `{"filter":{"filter":"test_body"}}`),
		"body held":    entries(owner, `{"filter":{"filter":"test_body","hold":true}}`),
		"body skipped": entries(owner, `{"filter":{"filter":"test_body"},"conditions":[{"when":[{"path":["/never"]}]}]}`),
	} {
		for _, path := range []string{"/", "/skip"} {
			for _, announced := range []string{"X-Other", "X-Owned, X-Other", "x-owned"} {
				t.Run(name+" "+path+" "+announced, func(t *testing.T) {
					f := newFlow(t, config)
					site := prepareSite(f.handler)
					got := make(chan http.Header, 1)
					site.backend = func(_ http.ResponseWriter, r *http.Request) {
						_, _ = io.Copy(io.Discard, r.Body)
						got <- r.Trailer
					}
					conn := sites.Dial(t, sites.Serve(t, noted(site)))
					fmt.Fprintf(conn, "POST %s HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\nTrailer: %s\r\n\r\n"+
						"2\r\nhi\r\n0\r\nX-Owned: theirs\r\nX-Other: theirs\r\n\r\n", path, announced)
					trailer := <-got
					if names := slices.Collect(maps.Keys(trailer)); !slices.Equal(names, []string{"X-Other"}) || trailer.Get("X-Other") != "theirs" {
						t.Errorf("got trailers %v", trailer)
					}
				})
			}
		}
	}
}

// noted serves requests that test filters can take notes of.
func noted(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h.ServeHTTP(w, r.WithContext(withNotes(r, new(notes))))
	})
}

// TestNothingOwned checks that a body with trailers is left alone where filters set nothing.
func TestNothingOwned(t *testing.T) {
	f := newFlow(t, entries(filter("a", "", "")))
	body := io.NopCloser(strings.NewReader("x"))
	r := requestOf("POST /")
	r.Body, r.Trailer = body, http.Header{"X-Other": nil}
	f.next = func(_ http.ResponseWriter, r *http.Request) error {
		if r.Body != body {
			t.Errorf("got another body, %T", r.Body)
		}
		return nil
	}
	f.do(r)
}

// TestOwnedConnection checks that no client can have proxies remove a header that a filter sets.
func TestOwnedConnection(t *testing.T) {
	f := newFlow(t, entries(`{"filter":{"filter":"test_filter","headers":{"X-Owned":"ours"}},"conditions":[{"unless":[{"path":["/skip"]}]}]}`))
	for _, tc := range []struct{ sent, want []string }{
		{nil, nil},
		{[]string{"keep-alive"}, []string{"keep-alive"}},
		{[]string{"X-Owned"}, nil},
		{[]string{"x-owned", "X_OWNED,,x.owned"}, nil},
		{[]string{" X-Owned , close, X-Other"}, []string{"close, X-Other"}},
		{[]string{"Upgrade", "x-owned"}, []string{"Upgrade"}},
		{[]string{"X-Owned-Too"}, []string{"X-Owned-Too"}},
	} {
		for _, path := range []string{"/", "/skip"} {
			var headers []string
			for _, list := range tc.sent {
				headers = append(headers, "Connection", list)
			}
			if got := f.get(path, headers...).passed[0]["Connection"]; !slices.Equal(got, tc.want) {
				t.Errorf("%s %q: got %q, want %q", path, tc.sent, got, tc.want)
			}
		}
	}
}
