package pipeline

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
)

// H83, H84: an answer that can't pass is refused as long as nothing of it went out; afterwards it is cut off, and never
// looks complete.
func TestH83_RefusedAnswers(t *testing.T) {
	const limit = 1000
	long, declared := strings.Repeat("x", limit+1), "declared"
	no := Reject(http.StatusForbidden, errors.New("no"))
	refusing := func(_ *Exchange, c *Chunk) (Action, error) {
		if bytes.Contains(c.Bytes(), []byte("secret")) {
			return Continue, no
		}
		return Continue, nil
	}
	for name, c := range map[string]struct {
		entry  entry
		body   string
		status int // 0 is cut off
		count  string
	}{
		"H83 too long":           {entry{responseBody: onResponseBody{buffered, idle}}, long, 502, "body_too_large 1"},
		"H83 declared too long":  {entry{responseBody: onResponseBody{rewrite, idle}}, long + declared, 502, "body_too_large 1"},
		"H83 grown too long":     {entry{responseBody: onResponseBody{rewrite, replace(long)}}, "short", 502, "body_too_large 1"},
		"H83 too long to stream": {entry{responseBody: onResponseBody{Wish{Access: ReadOnly, Mode: SizeLimit, Max: limit}, idle}}, long, 0, "body_too_large 1"},
		"H84 header":             {entry{response: onResponse(func(x *Exchange) error { return okOnly(x, no) })}, "body", 403, "filter 1"},
		"H84 body":               {entry{responseBody: onResponseBody{buffered, refusing}}, "a secret", 403, "filter 1"},
		"H84 streamed body":      {entry{responseBody: onResponseBody{streamed, refusing}}, "a secret", 0, "filter 1"},
		"panic":                  {entry{responseBody: onResponseBody{streamed, func(*Exchange, *Chunk) (Action, error) { panic("broken") }}}, "a", 0, "panic 1"},
	} {
		for _, end := range []string{"returns nothing", "returns the error", "panics", "goes on"} {
			t.Run(name+" "+end, func(t *testing.T) {
				c.entry.name = "f"
				logged, over := ended()
				h := newHandler(t, logged, c.entry)
				h.ResponseBodyLimit = limit
				if err := h.plan(); err != nil {
					t.Fatal(err)
				}
				s := newSiteBoth(t, h)
				s.next = func(w http.ResponseWriter, _ *http.Request) error {
					body, sized := strings.CutSuffix(c.body, declared)
					if sized {
						w.Header().Set("Content-Length", "1001")
					}
					_ = http.NewResponseController(w).Flush()
					_, err := io.WriteString(w, body)
					if end == "goes on" {
						for range 10 {
							_, err = io.WriteString(w, body)
							_ = http.NewResponseController(w).Flush()
						}
					}
					switch {
					case end == "panics" && err != nil:
						panic(http.ErrAbortHandler)
					case end == "returns the error":
						return err
					}
					return nil
				}
				byVersion(t, func(t *testing.T, client *http.Client) {
					check := watchCounts(t)
					req := s.request(t, http.MethodGet, "")
					res, err := client.Do(req)
					if err != nil {
						t.Fatal(err)
					}
					defer res.Body.Close()
					got, err := io.ReadAll(res.Body)
					if c.status != 0 && (res.StatusCode != c.status || err != nil) || c.status == 0 && err == nil {
						t.Errorf("got status %d, %v", res.StatusCode, err)
					}
					if strings.Contains(string(got), "secret") || len(got) > limit {
						t.Errorf("got %q", got)
					}
					if err := within(t, "the log", over); err == nil {
						t.Error("the log phase has no error")
					}
					check(c.count)
				})
				s.idle(t)
			})
		}
	}
}

// An answer that isn't as long as it says isn't made a complete one.
func TestAnswerLengths(t *testing.T) {
	for name, wish := range map[string]Wish{"stream": streamed, "write": writing, "buffer": buffered, "whole": rewrite} {
		for body, declared := range map[string]string{"shorter": "8", "longer": "5", "equal": "5", "": "1"} {
			t.Run(name+" "+body, func(t *testing.T) {
				s := newSiteBoth(t, newHandler(t, entry{name: "f", responseBody: onResponseBody{wish, upper}}))
				if wish.Access == ReadOnly {
					s = newSiteBoth(t, newHandler(t, entry{name: "f", responseBody: onResponseBody{wish, idle}}))
				}
				s.backend = func(w http.ResponseWriter, _ *http.Request) {
					w.Header().Set("Content-Length", declared)
					_, err := io.WriteString(w, body)
					if long := len(body) > 5 && declared == "5"; errors.Is(err, http.ErrContentLength) != long {
						t.Errorf("got %v", err)
					}
				}
				byVersion(t, func(t *testing.T, client *http.Client) {
					req := s.request(t, http.MethodGet, "")
					res, err := client.Do(req)
					if err != nil {
						return // cut off at once
					}
					defer res.Body.Close()
					got, err := io.ReadAll(res.Body)
					complete := res.StatusCode == http.StatusOK && err == nil
					if complete != (body == "equal") || complete && !strings.EqualFold(string(got), body) {
						t.Errorf("got status %d, %q, %v", res.StatusCode, got, err)
					}
				})
				s.idle(t)
			})
		}
	}
}

// HEAD, 204 and 304 have no body for filters to see, and no length that isn't true.
func TestBodiless(t *testing.T) {
	called := false
	hook := func(*Exchange, *Chunk) (Action, error) { called = true; return Continue, nil }
	for name, wish := range map[string]Wish{"read": streamed, "write": rewrite} {
		h := newHandler(t, entry{name: "f", responseBody: onResponseBody{wish, hook}})
		s := newSiteBoth(t, h)
		for _, c := range []struct {
			method string
			status int
			length string // what the backend declares
			writes bool
		}{
			{"HEAD", 200, "5", false},
			{"HEAD", 200, "", true},
			{"HEAD", 200, "5", true},
			{"HEAD", 404, "5", false},
			{"GET", 204, "", false},
			{"GET", 304, "", false},
		} {
			s.backend = func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Etag", `"a"`)
				if c.length != "" {
					w.Header().Set("Content-Length", c.length)
				}
				w.WriteHeader(c.status)
				if c.writes {
					if n, err := io.WriteString(w, "hello"); n != 5 || err != nil {
						t.Errorf("got %d and %v", n, err)
					}
				}
			}
			byVersion(t, func(t *testing.T, client *http.Client) {
				called = false
				res := s.send(t, client, c.method, "")
				length, tag := res.Header.Get("Content-Length"), res.Header.Get("Etag")
				if res.StatusCode != c.status || res.body != "" || res.err != nil || called {
					t.Errorf("%s %+v: got status %d, %q, %v, called %v", name, c, res.StatusCode, res.body, res.err, called)
				}
				if writes := wish.Access == ReadWrite && c.status != 204; writes && length != "" || (tag == `"a"`) == writes {
					t.Errorf("%s %+v: got length %q, ETag %s", name, c, length, tag)
				}
				if want := "5"; wish.Access == ReadOnly && c.method == "HEAD" && length != want {
					t.Errorf("%s %+v: got length %q, want %q", name, c, length, want)
				}
			})
		}
	}
}

// A filter that changes the status to one without a body takes the body away, and the handler doesn't notice.
func TestStatusChanges(t *testing.T) {
	for name, responseBody := range map[string]ResponseBodyFilter{"without": nil, "with a filter": onResponseBody{rewrite, upper}} {
		for status, want := range map[int]int{204: 204, 304: 304, 404: 404, 599: 599, 600: 200, 101: 200, 0: 200, 1000: 200} {
			h := newHandler(t, entry{name: "f", responseBody: responseBody, response: onResponse(func(x *Exchange) error {
				x.Response().Status = status
				return nil
			})})
			s := newSiteBoth(t, h)
			s.backend = func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Length", "5")
				n, err := io.WriteString(w, "hel")
				m, err2 := io.Copy(w, strings.NewReader("lo"))
				if err := errors.Join(err, err2); err != nil || n+int(m) != 5 {
					t.Errorf("%s %d: got %d bytes, %v", name, status, n+int(m), err)
				}
			}
			byVersion(t, func(t *testing.T, client *http.Client) {
				res := s.send(t, client, http.MethodGet, "")
				if has := res.body != ""; res.StatusCode != want || res.err != nil || has != (want != 204 && want != 304) {
					t.Errorf("%s %d: got status %d, %q, %v", name, status, res.StatusCode, res.body, res.err)
				}
			})
			s.idle(t)
		}
	}
}

// The header is written once: informational answers pass by before it, and what comes after it is ignored.
func TestHeaderOnce(t *testing.T) {
	seen := 0
	s := newSite(t, newHandler(t, entry{
		name:         "f",
		response:     onResponse(func(x *Exchange) error { seen = x.Response().Status; return nil }),
		responseBody: onResponseBody{buffered, idle},
	}))
	s.backend = func(w http.ResponseWriter, _ *http.Request) {
		control := http.NewResponseController(w)
		w.Header().Set("Link", "</a>")
		w.WriteHeader(http.StatusEarlyHints)
		w.WriteHeader(http.StatusProcessing)
		w.WriteHeader(http.StatusCreated)
		w.WriteHeader(http.StatusEarlyHints)
		w.WriteHeader(http.StatusAccepted)
		if err := control.Flush(); err != nil { // of what is held nothing goes out
			t.Error(err)
		}
		_, _ = io.WriteString(w, "ok")
	}
	c := s.wire(t)
	c.write("GET / HTTP/1.1\nHost: a\n\n")
	for _, want := range []int{103, 102, 201} {
		res := c.answer(http.MethodGet)
		if res.StatusCode != want || res.Header.Get("Link") != "</a>" {
			t.Errorf("got status %d %v, want %d", res.StatusCode, res.Header, want)
		}
		if want == 201 {
			if body, err := io.ReadAll(res.Body); string(body) != "ok" || err != nil || res.ContentLength != 2 {
				t.Errorf("got %q, %v, length %d", body, err, res.ContentLength)
			}
		}
	}
	if seen != http.StatusCreated {
		t.Errorf("got status %d at the filter", seen)
	}
}

// Filters that read answers have them made readable; those that write, whole.
func TestPlainAnswers(t *testing.T) {
	for name, c := range map[string]struct {
		wish          Wish
		encoding, rng string
	}{"none": {Wish{}, "gzip", "bytes=0-1"}, "read": {streamed, "identity", "bytes=0-1"}, "write": {writing, "identity", ""}} {
		t.Run(name, func(t *testing.T) {
			s := newSiteBoth(t, newHandler(t, entry{name: "f", responseBody: onResponseBody{c.wish, idle}}))
			byVersion(t, func(t *testing.T, client *http.Client) {
				s.send(t, client, http.MethodGet, "", "Accept-Encoding: gzip", "Range: bytes=0-1", `If-Range: "a"`)
				h := s.taken()[0].Header
				if h.Get("Accept-Encoding") != c.encoding || h.Get("Range") != c.rng || (h.Get("If-Range") != "") != (c.rng != "") {
					t.Errorf("got %v at the backend", h)
				}
			})
		})
	}
}

// A handler that fails or panics with its answer held back: nothing of it goes out.
func TestHeldAnswerIsDropped(t *testing.T) {
	for name, fails := range map[string]func() error{
		"error": func() error { return errors.New("broken") },
		"abort": func() error { panic(http.ErrAbortHandler) },
		"panic": func() error { panic("broken") },
	} {
		t.Run(name, func(t *testing.T) {
			end, over := ended()
			s := newSiteBoth(t, newHandler(t, end, entry{name: "f", responseBody: onResponseBody{buffered, idle}}))
			s.next = func(w http.ResponseWriter, _ *http.Request) error {
				w.Header().Set("Content-Length", "20")
				_, _ = io.WriteString(w, "secret")
				return fails()
			}
			byVersion(t, func(t *testing.T, client *http.Client) {
				res, err := client.Do(s.request(t, http.MethodGet, ""))
				if (err == nil) != (name == "error") {
					t.Errorf("got %v", err)
				}
				if err == nil {
					body, err := io.ReadAll(res.Body)
					res.Body.Close()
					if res.StatusCode != http.StatusInternalServerError || len(body) > 0 || err != nil {
						t.Errorf("got status %d, %q, %v", res.StatusCode, body, err)
					}
				}
				within(t, "the log", over)
			})
			s.idle(t)
		})
	}
}
