package pipeline

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/caddy-sluice/sluice/internal/testkit/sites"
)

// inOwnWords is a refusal with a body of its own.
func inOwnWords(status int) error {
	r := Reject(status, errTest)
	r.Body = []byte("own words")
	return r
}

// refusing returns an entry that refuses the bodies of requests with an error.
func refusingBodies(err error) entry {
	return entry{name: "refuses", requestBody: onRequestBody{streamed, func(*Exchange, *Chunk) (Action, error) { return Continue, err }}}
}

// once returns an entry that refuses a response, but not the answer in its place.
func once(err error) entry {
	return entry{name: "once", response: onResponse(func(x *Exchange) error {
		if x.Err() != nil {
			return nil
		}
		return err
	})}
}

// What a filter of the first of two pipelines refuses in its own words is for the first one to say.
func TestOwnWordsOfTwoPipelines(t *testing.T) {
	for name, inner := range map[string]entry{
		"streamed": {name: "in", requestBody: onRequestBody{streamed, idle}},
		"held":     {name: "in", requestBody: onRequestBody{rewrite, idle}},
		"no body":  {name: "in", log: onLog(func(*Exchange) {})},
	} {
		t.Run(name, func(t *testing.T) {
			s := inFront(t, newHandler(t, refusingBodies(inOwnWords(http.StatusUnprocessableEntity))), newHandler(t, inner))
			byVersion(t, func(t *testing.T, client *http.Client) {
				if res := s.send(t, client, http.MethodPost, "hello"); res.StatusCode != http.StatusUnprocessableEntity || res.body != "own words" {
					t.Errorf("got status %d, %q", res.StatusCode, res.body)
				}
			})
			s.idle(t)
		})
	}
}

// A handler that panics because the body was refused, as a proxy does in the middle of an answer, doesn't cost the client the
// answer, as long as nothing of another has gone out. Filters learn why.
func TestRefusedBodyAndPanic(t *testing.T) {
	for name, begins := range map[string]bool{"an answer is held back": true, "no answer has begun": false} {
		t.Run(name, func(t *testing.T) {
			check, told := watchCounts(t), make(chan error, 1)
			s := newSiteBoth(t, newHandler(t, refusingBodies(Reject(http.StatusUnprocessableEntity, errTest)),
				entry{name: "holds", responseBody: onResponseBody{buffered, idle}},
				entry{name: "log", log: onLog(func(x *Exchange) { told <- x.Err() })}))
			s.next = func(w http.ResponseWriter, r *http.Request) error {
				if begins {
					_, _ = io.WriteString(w, "beginning")
				}
				_, _ = io.ReadAll(r.Body)
				panic(http.ErrAbortHandler)
			}
			byVersion(t, func(t *testing.T, client *http.Client) {
				if res := s.send(t, client, http.MethodPost, "hello"); res.StatusCode != http.StatusUnprocessableEntity || res.body != "" {
					t.Errorf("got status %d, %q", res.StatusCode, res.body)
				}
				if err := within(t, "the log", told); !errors.Is(err, errTest) {
					t.Errorf("the log hook got %v", err)
				}
			})
			check("filter 2")
		})
	}
}

// Once some of an answer has gone out there is no other. But filters learn why it breaks off, and it counts.
func TestRefusedBodyInTheAnswer(t *testing.T) {
	check, told := watchCounts(t), make(chan error, 1)
	s := newSite(t, newHandler(t, refusingBodies(Reject(http.StatusUnprocessableEntity, errTest)), entry{name: "log", log: onLog(func(x *Exchange) { told <- x.Err() })}))
	s.next = func(w http.ResponseWriter, r *http.Request) error {
		_ = http.NewResponseController(w).EnableFullDuplex()
		_, _ = io.WriteString(w, "beginning")
		_ = http.NewResponseController(w).Flush()
		_, _ = io.ReadAll(r.Body)
		panic(http.ErrAbortHandler)
	}
	if res, err := s.Client().Do(s.request(t, http.MethodPost, "hello")); err == nil {
		if body, err := io.ReadAll(res.Body); err == nil {
			t.Errorf("got %q, as if it were complete", body)
		}
		res.Body.Close()
	}
	if err := within(t, "the log", told); !errors.Is(err, errTest) {
		t.Errorf("the log hook got %v", err)
	}
	check("filter 1")
}

// A filter sees every answer, also if one behind it fails at the answer to an error.
func TestFrontSeesEveryAnswer(t *testing.T) {
	fails := entry{name: "fails", response: onResponse(func(*Exchange) error { return errTest })}
	for name, tc := range map[string]struct {
		behind entry
		next   error
	}{
		"of the next handler": {entry{name: "none", log: onLog(func(*Exchange) {})}, caddyhttp.Error(http.StatusNotFound, errTest)},
		"of a filter": {entry{name: "rejects", request: onRequest(func(*Exchange) error {
			return Reject(http.StatusForbidden, errTest)
		})}, nil},
		"of a second filter": {once(Reject(http.StatusBadGateway, errTest)), nil},
	} {
		t.Run(name, func(t *testing.T) {
			var seen []int
			front := entry{name: "front", response: onResponse(func(x *Exchange) error {
				seen = append(seen, x.Response().Status)
				x.Response().Header.Set("X-Frame-Options", "DENY")
				return nil
			})}
			f := &flow{TB: t, handler: newHandler(t, front, fails, tc.behind)}
			if f.next = nil; tc.next != nil {
				f.next = func(http.ResponseWriter, *http.Request) error { return tc.next }
			}
			tr := f.get("/")
			if tr.Header().Get("X-Frame-Options") == "" || len(seen) != 1 || seen[0] != tr.Code {
				t.Errorf("got status %d, header %v, the filter in front saw %v", tr.Code, tr.Header(), seen)
			}
		})
	}
}

// What the handler of a refused response still sets is of no answer, also where a writer in front sends the header later.
func TestRefusedResponseLeaksNothing(t *testing.T) {
	h := newHandler(t, once(Reject(http.StatusBadGateway, errTest)))
	refused := caddyhttp.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) error {
		w.Header().Set("Trailer", "X-Sum")
		w.WriteHeader(http.StatusOK)
		w.Header().Set("X-Sum", "1")
		w.Header().Set("Set-Cookie", "a=b")
		w.Header().Set(http.TrailerPrefix+"X-More", "1")
		return nil
	})
	for name, front := range map[string]caddyhttp.MiddlewareHandler{
		"nothing in front": nil, "encode": encodeHandler(t),
		"another that holds back": newHandler(t, entry{name: "holds", responseBody: onResponseBody{buffered, idle}}),
	} {
		t.Run(name, func(t *testing.T) {
			s := newSiteBoth(t, h)
			s.next = refused
			if front != nil {
				s = newSiteBoth(t, newHandler(t))
				s.next = func(w http.ResponseWriter, r *http.Request) error {
					return front.ServeHTTP(w, r, caddyhttp.HandlerFunc(func(w http.ResponseWriter, r *http.Request) error {
						return h.ServeHTTP(w, r, refused)
					}))
				}
			}
			byVersion(t, func(t *testing.T, client *http.Client) {
				r := s.request(t, http.MethodGet, "")
				r.Header.Set("Accept-Encoding", "gzip")
				res, err := client.Do(r)
				if err != nil {
					t.Fatal(err)
				}
				defer res.Body.Close()
				_, _ = io.ReadAll(res.Body)
				for _, header := range []http.Header{res.Header, res.Trailer} {
					if header.Get("X-Sum") != "" || header.Get("X-More") != "" || header.Get("Set-Cookie") != "" {
						t.Errorf("got status %d with %v", res.StatusCode, header)
					}
				}
				if res.StatusCode != http.StatusBadGateway {
					t.Errorf("got status %d", res.StatusCode)
				}
			})
		})
	}
}

// A header that was there before is again what it was, also if a handler has changed its values in place.
func TestHeaderChangedInPlace(t *testing.T) {
	h := newHandler(t, once(Reject(http.StatusBadGateway, errTest)))
	w := httptest.NewRecorder()
	w.Header()["X-One"], w.Header()["X-Two"] = []string{"front"}, []string{"a", "b"}
	r := caddyhttp.PrepareRequest(httptest.NewRequest(http.MethodGet, "/", nil), caddy.NewReplacer(), w, withErrorRoutes())
	err := h.ServeHTTP(w, r, caddyhttp.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) error {
		w.Header()["X-One"][0], w.Header()["X-Two"][1] = "refused", "refused"
		w.WriteHeader(http.StatusOK)
		return nil
	}))
	if got := w.Header(); sites.Status(err) != http.StatusBadGateway || got.Get("X-One") != "front" || strings.Join(got["X-Two"], "") != "ab" {
		t.Errorf("got %v with %v", err, got)
	}
}

// An error of Caddy's that a filter passes on is an accident, whatever its status.
func TestAccident(t *testing.T) {
	for _, status := range []int{http.StatusForbidden, http.StatusOK, http.StatusFound} {
		err := caddyhttp.Error(status, errTest)
		for name, e := range map[string]entry{
			"request":  {name: "f", request: onRequest(func(*Exchange) error { return err })},
			"response": {name: "f", response: onResponse(func(*Exchange) error { return err })},
			"body": {name: "f", requestBody: onRequestBody{rewrite, func(*Exchange, *Chunk) (Action, error) {
				return Continue, err
			}}},
		} {
			f := &flow{TB: t, handler: newHandler(t, e)}
			tr := f.do(httptest.NewRequest(http.MethodPost, "/", strings.NewReader("x")))
			if tr.Code != http.StatusInternalServerError || !errors.Is(tr.err, errTest) {
				t.Errorf("%s, %d: got %d, %v", name, status, tr.Code, tr.err)
			}
		}
	}
}

// A filter can't ask for the body of a response that was refused.
func TestNoUpgradeOfARefused(t *testing.T) {
	var asked []bool
	asks := entry{name: "asks", responseBody: onResponseBody{streamed, idle}, response: onResponse(func(x *Exchange) error {
		asked = append(asked, x.UpgradeResponseBody(Buffer, 0))
		return nil
	})}
	f := &flow{TB: t, handler: newHandler(t, asks, once(Reject(http.StatusBadGateway, errTest)))}
	if f.get("/"); len(asked) != 1 || asked[0] {
		t.Errorf("got %v, want one refusal", asked)
	}
}

// A status that can't be is one that no answer gets: it stays that of the refusal whose words go out.
func TestImpossibleStatusOfASecondRefusal(t *testing.T) {
	f := &flow{TB: t, handler: newHandler(t,
		entry{name: "front", response: onResponse(func(x *Exchange) error {
			x.Response().Status = 1000
			return nil
		})},
		entry{name: "fails", response: onResponse(func(*Exchange) error { return inOwnWords(http.StatusBadGateway) })},
		entry{name: "rejects", request: onRequest(func(*Exchange) error { return Reject(http.StatusForbidden, errTest) })})}
	if tr := f.get("/"); tr.Code != http.StatusBadGateway || tr.Body.String() != "own words" {
		t.Errorf("got %d %q, %v", tr.Code, tr.Body, tr.err)
	}
}

// Values that a handler in front shares between requests are only read.
func TestSharedValues(t *testing.T) {
	h, shared := newHandler(t, once(Reject(http.StatusBadGateway, errTest))), []string{"front"}
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() { // waited for below; the race detector looks
			w := httptest.NewRecorder()
			w.Header()["X-Shared"] = shared
			r := caddyhttp.PrepareRequest(httptest.NewRequest(http.MethodGet, "/", nil), caddy.NewReplacer(), w, withErrorRoutes())
			_ = h.ServeHTTP(w, r, caddyhttp.HandlerFunc(answer))
		})
	}
	all.Wait()
}
