package pipeline

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/caddy-sluice/sluice/internal/bodypipe"
	"github.com/caddy-sluice/sluice/internal/permit"
)

// appending is the hook of a filter that adds its mark at the end of a body.
func appending(mark string) func(*Exchange, *Chunk) (Action, error) {
	return func(_ *Exchange, c *Chunk) (Action, error) {
		if c.End() {
			c.Replace(append(slices.Clone(c.Bytes()), mark...))
		}
		return Continue, nil
	}
}

// H80: filters see the body of a request in their order, and that of the response in the opposite one.
func TestH80_Order(t *testing.T) {
	for name, wish := range map[string]Wish{"stream": writing, "buffer": rewrite} {
		t.Run(name, func(t *testing.T) {
			var entries []entry
			for _, mark := range []string{"a", "b", "c"} {
				entries = append(entries, onBodies(mark, wish, appending(mark)))
			}
			s := newSiteBoth(t, newHandler(t, entries...))
			s.backend = func(w http.ResponseWriter, r *http.Request) { _, _ = io.Copy(w, r.Body) }
			byVersion(t, func(t *testing.T, client *http.Client) {
				if res := s.send(t, client, http.MethodPost, "-"); res.body != "-abccba" {
					t.Errorf("got %q, want -abccba", res.body)
				}
			})
		})
	}
}

// H85: a filter that is done sees no more; others do.
func TestH85_Done(t *testing.T) {
	var mu sync.Mutex
	calls := make(map[string]int)
	note := func(name string, act Action) func(*Exchange, *Chunk) (Action, error) {
		return func(*Exchange, *Chunk) (Action, error) {
			mu.Lock()
			defer mu.Unlock()
			calls[name]++
			return act, nil
		}
	}
	s := newSiteBoth(t, newHandler(t, onBodies("done", streamed, note("done", Done)), onBodies("on", streamed, note("on", Continue))))
	s.backend = func(w http.ResponseWriter, r *http.Request) { _, _ = io.Copy(w, r.Body) }
	body := strings.Repeat("x", 1<<20)
	byVersion(t, func(t *testing.T, client *http.Client) {
		clear(calls)
		if res := s.send(t, client, http.MethodPost, body); res.body != body {
			t.Errorf("got %d bytes, want %d", len(res.body), len(body))
		}
		mu.Lock()
		defer mu.Unlock()
		if calls["done"] != 2 || calls["on"] < 10 {
			t.Errorf("got calls %v, want 2 for the one that is done", calls)
		}
	})
}

// H86: once a filter releases the body, what was held goes on, and the rest streams.
func TestH86_Release(t *testing.T) {
	for name, first := range map[string]string{"first byte": "x", "in the middle": "12345678x"} {
		t.Run(name, func(t *testing.T) {
			s := newSiteBoth(t, newHandler(t, entry{name: "f", requestBody: onRequestBody{buffered, func(_ *Exchange, c *Chunk) (Action, error) {
				if bytes.Contains(c.Bytes(), []byte("x")) {
					return Release | Done, nil
				}
				return Continue, nil
			}}}))
			prefix := make(chan string, 1)
			s.backend = func(_ http.ResponseWriter, r *http.Request) {
				got := make([]byte, len(first))
				_, _ = io.ReadFull(r.Body, got)
				prefix <- string(got)
				rest, err := io.ReadAll(r.Body)
				if string(rest) != "rest" || err != nil {
					t.Errorf("got %q and %v", rest, err)
				}
			}
			byVersion(t, func(t *testing.T, client *http.Client) {
				r, w := io.Pipe()
				req := s.request(t, http.MethodPost, "")
				req.Body, req.ContentLength = r, -1
				go func() {
					for _, b := range []byte(first) {
						_, _ = w.Write([]byte{b})
					}
				}()
				go func() {
					if got := within(t, "the backend", prefix); got != first {
						t.Errorf("got %q, want %q", got, first)
					}
					_, _ = io.WriteString(w, "rest") // only now, so nobody has waited for the end
					w.Close()
				}()
				if res := do(t, client, req); res.StatusCode != http.StatusOK {
					t.Errorf("got status %d", res.StatusCode)
				}
			})
			s.idle(t)
		})
	}
}

// H87: what a filter asks for while the request runs doesn't go beyond what the pipeline allows.
func TestH87_Upgrades(t *testing.T) {
	const limit = 1000
	ask := func(mode Mode, most int64) RequestFilter {
		return onRequest(func(x *Exchange) error {
			x.UpgradeRequestBody(mode, most)
			return nil
		})
	}
	cases := map[string]struct {
		wish   Wish
		ask    RequestFilter
		length int
		want   int
		calls  int // of the backend
	}{
		"no more than configured":    {Wish{Access: ReadOnly, Mode: Buffer, Max: limit}, ask(Buffer, 4*limit), limit + 1, 413, 0},
		"no more than the ceiling":   {streamed, ask(Buffer, 1<<30), 2*limit + 1, 413, 0},
		"up to the ceiling":          {streamed, ask(Buffer, 1<<30), 2 * limit, 200, 1},
		"less":                       {streamed, ask(Buffer, limit), limit + 1, 413, 0},
		"a limit that is kept":       {streamed, ask(SizeLimit, limit), limit, 200, 1},
		"a limit that is passed":     {streamed, ask(SizeLimit, limit), limit + 1, 413, 0},
		"a limit after the whole":    {rewrite, ask(SizeLimit, limit), limit + 1, 413, 0},
		"a limit isn't raised":       {Wish{Access: ReadOnly, Mode: SizeLimit, Max: limit}, ask(SizeLimit, 4*limit), limit + 1, 413, 0},
		"a mode doesn't become less": {buffered, ask(Stream, 0), 2*limit + 1, 413, 0},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			h := newHandler(t, entry{name: "f", request: c.ask, requestBody: onRequestBody{c.wish, idle}})
			h.RequestBodyLimit = 2 * limit
			if err := h.plan(); err != nil {
				t.Fatal(err)
			}
			s := newSiteBoth(t, h)
			byVersion(t, func(t *testing.T, client *http.Client) {
				check := watchCounts(t)
				res := s.send(t, client, http.MethodPost, strings.Repeat("x", c.length))
				if n := len(s.taken()); res.StatusCode != c.want || n != c.calls {
					t.Errorf("got status %d and %d requests at the backend, want %d and %d", res.StatusCode, n, c.want, c.calls)
				}
				if c.want == http.StatusOK {
					check()
					return
				}
				check("body_too_large 1")
			})
			s.idle(t)
		})
	}
}

// A response filter that asks for the whole body gets it.
func TestUpgradeResponse(t *testing.T) {
	var asked bool
	s := newSiteBoth(t, newHandler(t, entry{
		name:         "f",
		response:     onResponse(func(x *Exchange) error { asked = x.UpgradeResponseBody(Buffer, 0); return nil }),
		responseBody: onResponseBody{writing, upper},
	}))
	byVersion(t, func(t *testing.T, client *http.Client) {
		if res := s.send(t, client, http.MethodPost, ""); !asked || res.body != "OK" || res.ContentLength != 2 {
			t.Errorf("got %v, %q with length %d", asked, res.body, res.ContentLength)
		}
	})
	s.idle(t)
}

// H88: of several wishes the largest counts. It can't be more than is configured.
func TestH88_Wishes(t *testing.T) {
	one, four := Wish{Access: ReadOnly, Mode: Buffer, Max: 1000}, Wish{Access: ReadOnly, Mode: Buffer, Max: 4000}
	for _, ceiling := range []int64{10000, 4000, 3999} {
		h := newHandler(t, entry{name: "a", requestBody: onRequestBody{one, idle}}, entry{name: "b", requestBody: onRequestBody{four, idle}})
		h.RequestBodyLimit = ceiling
		if err := h.plan(); (err != nil) != (ceiling < four.Max) {
			t.Errorf("request_body_limit %d: got %v", ceiling, err)
		}
		if ceiling < four.Max {
			continue
		}
		s := newSite(t, h)
		if res := post(t, s, strings.Repeat("x", 4000)); res.StatusCode != http.StatusOK {
			t.Errorf("got status %d at the limit", res.StatusCode)
		}
		if res := post(t, s, strings.Repeat("x", 4001)); res.StatusCode != http.StatusRequestEntityTooLarge {
			t.Errorf("got status %d above the limit", res.StatusCode)
		}
	}
}

// H89, H90: there is no buffer without a limit, and none above 64 MiB.
func TestH89_Ceilings(t *testing.T) {
	for limit, want := range map[int64]int64{0: 10 << 20, 1: 1, 64 << 20: 64 << 20, -1: 0, 64<<20 + 1: 0} {
		for name, h := range map[string]*Handler{"request_body_limit": {RequestBodyLimit: limit}, "response_body_limit": {ResponseBodyLimit: limit}} {
			err := h.provisionSettings()
			if (err == nil) != (want > 0) || err != nil && !strings.Contains(err.Error(), name) {
				t.Errorf("%s %d: got %v", name, limit, err)
			}
			if err == nil && max(h.RequestBodyLimit, h.ResponseBodyLimit) < want {
				t.Errorf("%s %d: got %d and %d, want %d", name, limit, h.RequestBodyLimit, h.ResponseBodyLimit, want)
			}
		}
	}
}

// H93: whether a filter applies to a response, its header and its body alike, depends on the header as it comes to the
// filter, not on what those in front of it make of it.
func TestH93_ResponseConditions(t *testing.T) {
	changed := func(value string) entry {
		return entry{name: value, response: onResponse(func(x *Exchange) error {
			if header := x.Response().Header; header.Get("Content-Type") != "image/gif" {
				header.Set("Content-Type", value)
			}
			return nil
		})}
	}
	e, seen := onBodies("f", rewrite, upper), ""
	e.onResponse = []caddyhttp.ResponseMatcher{{StatusCode: []int{2}, Headers: http.Header{"Content-Type": {"text/*"}}}}
	e.response = onResponse(func(x *Exchange) error {
		seen = x.Response().Header.Get("Content-Type")
		return nil
	})
	s := newSiteBoth(t, newHandler(t, changed("image/webp"), e, changed("text/html")))
	for kind, want := range map[string]string{"text/plain": "BODY", "image/png": "BODY", "image/gif": "body"} {
		s.backend = func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", kind)
			_, _ = io.WriteString(w, "body")
		}
		byVersion(t, func(t *testing.T, client *http.Client) {
			seen = ""
			res := s.send(t, client, http.MethodGet, "")
			if applies := want == "BODY"; res.body != want || (seen == "text/html") != applies || (res.Header.Get("Content-Type") == "image/webp") != applies {
				t.Errorf("%s: got %q %v, the filter saw %q, want %q", kind, res.body, res.Header, seen, want)
			}
		})
	}
}

// Without room in the budget a request is told to come back, whichever hook asked for its body.
func TestBudget(t *testing.T) {
	for name, e := range map[string]entry{
		"wish":    {name: "f", requestBody: onRequestBody{buffered, idle}},
		"upgrade": {name: "f", request: onRequest(func(x *Exchange) error { x.UpgradeRequestBody(Buffer, 0); return nil }), requestBody: onRequestBody{streamed, idle}},
		"answer":  {name: "f", responseBody: onResponseBody{buffered, idle}},
	} {
		t.Run(name, func(t *testing.T) {
			h := newHandler(t, e)
			h.budget = bodypipe.Budget{Held: new(permit.Gauge), Limit: 4 << 10}
			s := newSiteBoth(t, h)
			s.backend = func(w http.ResponseWriter, r *http.Request) { _, _ = io.Copy(w, r.Body) }
			byVersion(t, func(t *testing.T, client *http.Client) {
				check := watchCounts(t)
				res := s.send(t, client, http.MethodPost, strings.Repeat("x", 16<<10))
				check("body_memory 1")
				if res.StatusCode != http.StatusServiceUnavailable || res.Header.Get("Retry-After") != "1" {
					t.Errorf("got status %d, Retry-After %q", res.StatusCode, res.Header.Get("Retry-After"))
				}
				s.idle(t)
				if res := s.send(t, client, http.MethodPost, "small"); res.StatusCode != http.StatusOK || res.body != "small" {
					t.Errorf("got status %d once there is room", res.StatusCode)
				}
			})
			s.idle(t)
		})
	}
}

// A slow client holds what it has sent, and no more.
func TestSlowUploader(t *testing.T) {
	s := newSite(t, newHandler(t, entry{name: "f", requestBody: onRequestBody{buffered, idle}}))
	c := s.wire(t)
	c.write("POST / HTTP/1.1\nHost: a\nContent-Length: 1000000\n\n")
	for _, n := range []int{1, 1000, 10000} {
		c.write(strings.Repeat("x", n))
		eventually(t, "it is held", func() bool { return s.handler.budget.Held.Load() >= int64(n) })
		if held := s.handler.budget.Held.Load(); held > int64(max(2*(n+1001), 512)) {
			t.Errorf("got %d bytes held for %d", held, n)
		}
	}
	c.Close()
	s.idle(t)
}

// Filters for a response see an answer that was made of an error, and may change its status.
func TestErrorAnswers(t *testing.T) {
	var seen error
	s := newSiteBoth(t, newHandler(t, entry{name: "f", response: onResponse(func(x *Exchange) error {
		seen = x.Err()
		x.Response().Status = http.StatusNotFound
		x.Response().Header.Set("X-Filter", "f")
		return nil
	}), log: onLog(func(x *Exchange) {
		if x.Response().Status != http.StatusNotFound {
			t.Errorf("got status %d in the log phase", x.Response().Status)
		}
	})}))
	s.next = func(w http.ResponseWriter, _ *http.Request) error {
		w.Header().Set("X-Handler", "h")
		return errors.New("broken")
	}
	byVersion(t, func(t *testing.T, client *http.Client) {
		check := watchCounts(t)
		res := s.send(t, client, http.MethodGet, "")
		check() // it is no failure of a filter
		if res.StatusCode != http.StatusNotFound || res.Header.Get("X-Filter") != "f" || res.Header.Get("X-Handler") != "h" || seen == nil {
			t.Errorf("got status %d, %v, %v", res.StatusCode, res.Header, seen)
		}
	})
}
