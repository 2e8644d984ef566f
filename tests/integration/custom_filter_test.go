package integration

import (
	"io"
	"net/http"
	"strings"
	"testing"

	_ "github.com/caddy-sluice/sluice/examples/custom-filter" // the filter of its Caddyfile
)

// TestCustomFilter runs the example of a filter that isn't ours, and tries what its first lines say. Pieces are what the
// client sends at a time.
func TestCustomFilter(t *testing.T) {
	p, ports := newLab(t).example("custom-filter")
	for name, try := range map[string]struct {
		pieces []string
		status int
		words  string
		want   string
	}{
		"as_many_as_may":   {[]string{"five words are not six"}, http.StatusOK, "5", "the backend got: five words are not six"},
		"too_many":         {[]string{"these are six of my words"}, http.StatusUnprocessableEntity, "", "422: more than 5 words"},
		"cut_in_a_word":    {[]string{"one tw", "o", " three"}, http.StatusOK, "3", "the backend got: one two three"},
		"too_many_at_last": {[]string{"one two ", "three four ", "five s", "ix"}, http.StatusUnprocessableEntity, "", "422: more than 5 words"},
		"no_body":          {nil, http.StatusOK, "0", "the backend got: "},
	} {
		t.Run(name, func(t *testing.T) {
			req, err := http.NewRequest(http.MethodPost, "http://127.0.0.1:"+ports["8080"], body(try.pieces))
			if err != nil {
				t.Fatal(err)
			}
			res, err := (&http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: patience}).Do(req)
			if err != nil {
				t.Fatal(err)
			}
			defer res.Body.Close()
			got, err := io.ReadAll(res.Body)
			if err != nil || res.StatusCode != try.status || string(got) != try.want {
				t.Errorf("got %d %q, %v, want %d %q", res.StatusCode, got, err, try.status, try.want)
			}
			if words := res.Header.Get("X-Words"); words != try.words {
				t.Errorf("got X-Words %q, want %q", words, try.words)
			}
		})
	}
	for _, want := range []string{`"words":"5"`, `"words":5,"complete":true`, `"words":6,"complete":false,"error":"{id=`} {
		p.eventually("a line with "+want, func() (string, bool) {
			lines := records.find(func(r logRecord) bool { return strings.Contains(r.Line, want) })
			return "none", len(lines) > 0
		})
	}
}

// body returns a body whose pieces are sent one by one, nil without any.
func body(pieces []string) io.Reader {
	if len(pieces) == 0 {
		return nil
	}
	r, w := io.Pipe()
	go func() {
		for _, piece := range pieces {
			_, _ = io.WriteString(w, piece)
		}
		w.Close()
	}()
	return r
}
