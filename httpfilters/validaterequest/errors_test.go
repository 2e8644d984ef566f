package validaterequest

import (
	"context"
	"errors"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/caddy-sluice/sluice/internal/testkit/counts"
	"github.com/caddy-sluice/sluice/modules/reserved"
)

// marked is a request for a URL with reserved headers and trailers beside others.
func marked(method, target string) *http.Request {
	r := httptest.NewRequest(method, target, http.NoBody)
	for _, name := range []string{"X-Sluice-Admin", "x_sluice.other", "X-Kept"} {
		r.Header[name] = []string{"1"}
	}
	r.Trailer = http.Header{"X-Sluice-Sum": nil, "X-Sum": nil}
	return caddyhttp.PrepareRequest(r, caddy.NewReplacer(), httptest.NewRecorder(), new(caddyhttp.Server))
}

// inErrorRoute is a request as error routes have it.
func inErrorRoute(r *http.Request, err error) *http.Request {
	return r.WithContext(context.WithValue(r.Context(), caddyhttp.ErrorCtxKey, err))
}

// checkStripped checks that a request has nothing reserved left, and all the rest.
func checkStripped(t *testing.T, r *http.Request) {
	t.Helper()
	header := slices.DeleteFunc(slices.Sorted(maps.Keys(r.Header)), func(name string) bool { return name == "Max-Forwards" })
	trailer := slices.Sorted(maps.Keys(r.Trailer))
	if !slices.Equal(header, []string{"X-Kept"}) || !slices.Equal(trailer, []string{"X-Sum"}) {
		t.Errorf("got header %q, trailer %q, want X-Kept and X-Sum", header, trailer)
	}
	names, ok := caddyhttp.GetVar(r.Context(), reserved.Var).(*reserved.Names)
	if !ok || !names.Has("X-Sluice-A") {
		t.Error("what passes the request on isn't told which names are reserved")
	}
}

// nowhere is a next handler that mustn't be called.
func nowhere(t *testing.T) caddyhttp.Handler {
	t.Helper()
	return caddyhttp.HandlerFunc(func(http.ResponseWriter, *http.Request) error {
		t.Error("the request came through")
		return nil
	})
}

// TestRefusedRequestsAreStripped checks what error routes get of requests that were refused, whatever for.
func TestRefusedRequestsAreStripped(t *testing.T) {
	h := load(t, `{"encoded_dot_segments":"refuse"}`)
	for _, target := range []string{"/", "/a/../b", "/a/%2e%2e/b", "/a%00"} {
		r := marked(http.MethodPost, target)
		if err := h.ServeHTTP(httptest.NewRecorder(), r, nowhere(t)); !isBroken(err) {
			t.Errorf("%s: got %v, want a refusal", target, err)
		}
		checkStripped(t, r)
	}
	r := marked(http.MethodGet, "/")
	r.Host = ""
	if err := h.ServeHTTP(httptest.NewRecorder(), r, nowhere(t)); !errors.Is(err, hostMissing.err()) {
		t.Errorf("got %v, want %v", err, hostMissing.err())
	}
	checkStripped(t, r)
}

// TestErrorRoutes checks requests that come by a second time, to have an error handled.
func TestErrorRoutes(t *testing.T) {
	h := load(t, `{}`)
	for _, tc := range []struct {
		name, target string
		err          error
		refused      bool
	}{
		{"refused_for_a_header", "/", caddyhttp.Error(400, reservedHeader.err()), false},
		{"refused_for_its_path", "/a/../b", caddyhttp.Error(400, dotSegment.err()), false},
		{"of_another_handler", "/", caddyhttp.Error(502, errors.New("no")), false},
		{"never_judged", "/a/../b", caddyhttp.Error(503, errors.New("no")), true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			before := counts.Of(t, register)
			r, w, came := inErrorRoute(marked(http.MethodGet, tc.target), tc.err), httptest.NewRecorder(), false
			err := h.ServeHTTP(w, r, caddyhttp.HandlerFunc(func(w http.ResponseWriter, r *http.Request) error {
				came = true
				checkStripped(t, r)
				w.Header().Set("X-Sluice-Secret", "a")
				w.WriteHeader(http.StatusTeapot)
				return nil
			}))
			if (err != nil) != tc.refused || came == tc.refused {
				t.Errorf("got %v, came through %v, want refused %v", err, came, tc.refused)
			}
			if counted := len(counts.Of(t, register).Since(before)) > 0; counted != tc.refused {
				t.Errorf("counted %v, want %v", counted, tc.refused)
			}
			checkStripped(t, r)
			checkClean(t, w.Result().Header)
		})
	}
}

// TestMaxForwardsOfErrors checks that a hop counts once, and that an error isn't answered as a success.
func TestMaxForwardsOfErrors(t *testing.T) {
	h := load(t, `{}`)
	for _, left := range []string{"0", "1"} {
		r, came := inErrorRoute(marked(http.MethodOptions, "/"), errors.New("no")), false
		r.Header.Set("Max-Forwards", left)
		err := h.ServeHTTP(httptest.NewRecorder(), r, caddyhttp.HandlerFunc(func(http.ResponseWriter, *http.Request) error {
			came = true
			return nil
		}))
		if got := r.Header.Get("Max-Forwards"); err != nil || !came || got != left {
			t.Errorf("%s: got %v, came through %v with %s", left, err, came, got)
		}
	}
}

// TestLateTrailers checks that reserved trailers, which can come without having been announced, are gone when an error is
// handled. Headers that handlers have set stay.
func TestLateTrailers(t *testing.T) {
	h, failure := load(t, `{}`), errors.New("no")
	r := httptest.NewRequest(http.MethodPost, "/", http.NoBody)
	r.Trailer = http.Header{"X-Sum": nil}
	err := h.ServeHTTP(httptest.NewRecorder(), r, caddyhttp.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) error {
		r.Header.Set("X-Sluice-Model", "large")
		r.Trailer["X-Sum"], r.Trailer["X-Sluice-Admin"] = []string{"1"}, []string{"1"}
		return failure
	}))
	if !errors.Is(err, failure) || len(r.Trailer) != 1 || r.Trailer.Get("X-Sum") != "1" || r.Header.Get("X-Sluice-Model") != "large" {
		t.Errorf("got %v, header %v, trailer %v", err, r.Header, r.Trailer)
	}
}
