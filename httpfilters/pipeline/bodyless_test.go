package pipeline

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
)

// posted returns a request with a body as Caddy's server has it: with a length, trailers, and what the header says of it.
func posted(t *testing.T, body io.Reader, length int64) *http.Request {
	t.Helper()
	r := httptest.NewRequest(http.MethodPost, "/", body)
	r.ContentLength = length
	r.Header.Set("Content-Digest", "sha-256=:x:")
	r.Header.Set("Content-Type", "text/plain")
	if length < 0 {
		r.TransferEncoding, r.Trailer = []string{"chunked"}, http.Header{"X-Trailer": nil}
	} else {
		r.Header.Set("Content-Length", fmt.Sprint(length))
		r.Header.Set("Expect", "100-continue")
	}
	return caddyhttp.PrepareRequest(r, caddy.NewReplacer(), httptest.NewRecorder(), withErrorRoutes())
}

// failingMatcher is a matcher that fails.
type failingMatcher struct{}

func (failingMatcher) MatchWithError(*http.Request) (bool, error) { return false, errTest }

// checkBodyless checks that a request says that it has no body, and has none.
func checkBodyless(t *testing.T, r *http.Request) {
	t.Helper()
	body, err := io.ReadAll(r.Body)
	if len(body) > 0 || err != nil || r.Body != http.NoBody {
		t.Errorf("got a body of %q, %v", body, err)
	}
	if r.ContentLength != 0 || r.TransferEncoding != nil || r.Trailer != nil {
		t.Errorf("got length %d, encoding %q, trailers %v", r.ContentLength, r.TransferEncoding, r.Trailer)
	}
	for _, name := range []string{"Content-Length", "Expect", "Content-Digest"} {
		if values, has := r.Header[name]; has {
			t.Errorf("got %s: %q", name, values)
		}
	}
	if r.Header.Get("Content-Type") == "" {
		t.Error("got no header that isn't about the bytes")
	}
}

// An error leaves a request without a body, which error routes can send on, wherever it comes from.
func TestErrorLeavesNoBody(t *testing.T) {
	refuses := func(*Exchange, *Chunk) (Action, error) {
		return Continue, Reject(http.StatusUnprocessableEntity, errTest)
	}
	fails := func(http.ResponseWriter, *http.Request) error { return errTest }
	closes := func(_ http.ResponseWriter, r *http.Request) error { return errors.Join(r.Body.Close(), errTest) }
	cannotTell := []condition{{match: caddyhttp.MatcherSets{{failingMatcher{}}}, want: true}}
	for name, tc := range map[string]struct {
		entry entry
		next  caddyhttp.HandlerFunc
	}{
		"a filter refuses":       {entry{requestBody: onRequestBody{buffered, refuses}}, nil},
		"too long":               {entry{requestBody: onRequestBody{Wish{Access: ReadOnly, Mode: Buffer, Max: 2, Whole: true}, idle}}, nil},
		"the handler fails":      {entry{requestBody: onRequestBody{buffered, idle}}, fails},
		"it fails, a stream":     {entry{requestBody: onRequestBody{streamed, idle}}, fails},
		"a response refused":     {entry{requestBody: onRequestBody{streamed, idle}, response: onResponse(func(*Exchange) error { return errTest })}, answer},
		"a condition fails":      {entry{requestBody: onRequestBody{streamed, idle}, conditions: cannotTell}, nil},
		"it fails, a closed one": {entry{requestBody: onRequestBody{streamed, idle}}, closes},
	} {
		t.Run(name, func(t *testing.T) {
			tc.entry.name = "f"
			for _, length := range []int64{5, -1} {
				r := posted(t, strings.NewReader("hello"), length)
				if err := newHandler(t, tc.entry).ServeHTTP(httptest.NewRecorder(), r, tc.next); err == nil {
					t.Error("got no error")
				}
				checkBodyless(t, r)
			}
		})
	}
	t.Run("CONNECT", func(t *testing.T) {
		r := posted(t, strings.NewReader("hello"), -1)
		r.Method = http.MethodConnect
		if err := newHandler(t, entry{name: "f", requestBody: onRequestBody{streamed, idle}}).ServeHTTP(httptest.NewRecorder(), r, nil); err == nil {
			t.Error("got no error")
		}
		checkBodyless(t, r)
	})
}

// The request that a branch has made of it has no body either, nor that of a pipeline in front.
func TestErrorLeavesNoBodyBehind(t *testing.T) {
	inner := newHandler(t, entry{name: "in", requestBody: onRequestBody{streamed, idle}})
	outer := newHandler(t, entry{name: "out", requestBody: onRequestBody{streamed, idle}})
	r := posted(t, strings.NewReader("hello"), 5)
	var made *http.Request
	err := outer.ServeHTTP(httptest.NewRecorder(), r, caddyhttp.HandlerFunc(func(w http.ResponseWriter, r *http.Request) error {
		made = r.WithContext(r.Context())
		err := inner.ServeHTTP(w, made, caddyhttp.HandlerFunc(func(http.ResponseWriter, *http.Request) error { return errTest }))
		checkBodyless(t, made)
		return err
	}))
	if !errors.Is(err, errTest) {
		t.Errorf("got %v", err)
	}
	checkBodyless(t, r)
}

// A request that has an answer has no body any more, but what is logged and measured still finds its header and its length.
func TestAnswerLeavesTheHeader(t *testing.T) {
	r := posted(t, strings.NewReader("hello"), 5)
	if err := newHandler(t, entry{name: "f", requestBody: onRequestBody{streamed, idle}}).ServeHTTP(httptest.NewRecorder(), r, caddyhttp.HandlerFunc(answer)); err != nil {
		t.Fatal(err)
	}
	if r.Body != http.NoBody || r.ContentLength != 5 || r.Header.Get("Content-Length") != "5" {
		t.Errorf("got %v, length %d, header %v", r.Body, r.ContentLength, r.Header)
	}
}

// A body that no filter looks at stays as it is.
func TestUnseenBodyStays(t *testing.T) {
	r := posted(t, strings.NewReader("hello"), 5)
	fails := caddyhttp.HandlerFunc(func(http.ResponseWriter, *http.Request) error { return errTest })
	if err := newHandler(t, headerFilters()...).ServeHTTP(httptest.NewRecorder(), r, fails); err == nil {
		t.Fatal("got no error")
	}
	if body, err := io.ReadAll(r.Body); string(body) != "hello" || err != nil || r.ContentLength != 5 {
		t.Errorf("got %q, %v, length %d", body, err, r.ContentLength)
	}
}
