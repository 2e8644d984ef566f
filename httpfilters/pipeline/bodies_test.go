package pipeline

import (
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
)

// H70, H91: without filters for bodies, bodies go by untouched, and past us by the shortest way.
func TestH70_BodiesPassBy(t *testing.T) {
	called := false
	hook := func(*Exchange, *Chunk) (Action, error) { called = true; return Continue, nil }
	h := newHandler(t, entry{name: "header", request: onRequest(func(*Exchange) error { return nil })}, onBodies("none", Wish{}, hook))
	s := newSiteBoth(t, h)
	body := strings.Repeat("x", 1<<20)
	s.backend = func(w http.ResponseWriter, r *http.Request) {
		if _, ours := r.Body.(*requestBody); ours {
			t.Error("the body passes the filters")
		}
		if _, ours := w.(*writer); ours {
			t.Error("the answer passes the filters")
		}
		_, _ = io.Copy(w, r.Body)
	}
	byVersion(t, func(t *testing.T, client *http.Client) {
		if res := s.send(t, client, http.MethodPost, body); res.StatusCode != http.StatusOK || res.body != body {
			t.Errorf("got status %d and %d bytes, want 200 and %d", res.StatusCode, len(res.body), len(body))
		}
	})
	if called {
		t.Error("a filter without access was called")
	}
}

// zipped returns text, compressed.
func zipped(t testing.TB, text string) string {
	t.Helper()
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	if _, err := io.WriteString(z, text); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// unzipped returns what was compressed.
func unzipped(t testing.TB, packed string) string {
	t.Helper()
	z, err := gzip.NewReader(strings.NewReader(packed))
	if err != nil {
		t.Fatal(err)
	}
	text, err := io.ReadAll(z)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// H71–H74: a body as long as the limit passes, one that is longer is refused, however it comes.
func TestH71_RequestLimits(t *testing.T) {
	packed := zipped(t, strings.Repeat("x", 1<<20))
	limit := len(packed) // what the client has compressed counts as it comes
	var ends atomic.Int32
	hook := func(_ *Exchange, c *Chunk) (Action, error) {
		if c.End() {
			ends.Add(1)
		}
		return Continue, nil
	}
	wishes := map[string]Wish{
		"buffer": {Access: ReadOnly, Mode: Buffer, Max: int64(limit)},
		"whole":  {Access: ReadOnly, Mode: Buffer, Max: int64(limit), Whole: true},
		"size":   {Access: ReadOnly, Mode: SizeLimit, Max: int64(limit)},
	}
	bodies := map[string]string{
		"empty": "", "H71 less": packed[1:], "H71 equal": packed, "H72 one more": packed + "x", "H73 ten times": strings.Repeat(packed, 10),
	}
	for mode, wish := range wishes {
		s := newSiteBoth(t, newHandler(t, entry{name: "f", requestBody: onRequestBody{wish, hook}}))
		for name, body := range bodies {
			for _, framing := range []string{"Content-Encoding: gzip", "chunked"} {
				t.Run(mode+" "+name+" "+framing, func(t *testing.T) {
					byVersion(t, func(t *testing.T, client *http.Client) {
						ends.Store(0)
						check := watchCounts(t)
						res := s.send(t, client, http.MethodPost, body, framing)
						requests := s.taken()
						if len(body) <= limit {
							check()
							if res.StatusCode != http.StatusOK || len(requests) != 1 || requests[0].body != body {
								t.Errorf("got status %d, backend %v", res.StatusCode, requests)
							}
							if n := ends.Load(); n != 1 {
								t.Errorf("got %d decisions, want 1", n)
							}
							return
						}
						check("body_too_large 1")
						if res.StatusCode != http.StatusRequestEntityTooLarge {
							t.Errorf("got status %d, want 413", res.StatusCode)
						}
						streams := mode == "size" && framing == "chunked"
						if !streams && len(requests) != 0 || streams && (len(requests) != 1 || requests[0].err == nil) {
							t.Errorf("got requests %+v at the backend", requests)
						}
						if n := ends.Load(); n != 0 {
							t.Errorf("got %d complete bodies at the filter, want none", n)
						}
					})
				})
			}
		}
		s.idle(t)
	}
}

// H75, H76: empty bodies and long ones pass the buffer, complete; the filter sees every byte once.
func TestH75_Buffered(t *testing.T) {
	var size atomic.Int64
	s := newSiteBoth(t, newHandler(t, entry{name: "f", requestBody: onRequestBody{buffered, func(_ *Exchange, c *Chunk) (Action, error) {
		size.Add(int64(len(c.Bytes())))
		return Continue, nil
	}}}))
	for _, n := range []int{0, 1, smallBuffer - 1, smallBuffer, smallBuffer + 1, 64<<10 + 1, 1 << 20} {
		for _, framing := range []string{"A: b", "chunked"} {
			t.Run(fmt.Sprint(n, framing), func(t *testing.T) {
				byVersion(t, func(t *testing.T, client *http.Client) {
					size.Store(0)
					body := strings.Repeat("0123456789abcdef!", n/17+1)[:n]
					res := s.send(t, client, http.MethodPost, body, framing)
					requests := s.taken()
					if res.StatusCode != http.StatusOK || len(requests) != 1 || requests[0].body != body || size.Load() != int64(n) {
						t.Fatalf("got status %d, %d requests, %d bytes at the filter", res.StatusCode, len(requests), size.Load())
					}
					if r := requests[0]; r.ContentLength != int64(n) || len(r.TransferEncoding) != 0 {
						t.Errorf("got length %d, encoding %v at the backend", r.ContentLength, r.TransferEncoding)
					}
				})
			})
		}
	}
	s.idle(t)
}

// H77, H78: what filters make of a body arrives, and its header says what is true of it.
func TestH77_Rewrites(t *testing.T) {
	const body = "hello"
	cases := map[string]struct {
		make func(*Exchange, *Chunk) (Action, error)
		want string
	}{
		"H77 same length": {upper, "HELLO"},
		"H78 shorter":     {replace("hell"), "hell"},
		"H78 longer":      {replace("hello!"), "hello!"},
		"H78 much longer": {replace(strings.Repeat("x", 1<<20)), strings.Repeat("x", 1<<20)},
		"empty":           {replace(""), ""},
		"untouched":       {idle, body},
	}
	digests := []string{"Content-MD5: x", "Digest: x", "Repr-Digest: x", "Content-Digest: x"}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			s := newSiteBoth(t, newHandler(t, onBodies("f", rewrite, c.make)))
			s.backend = func(w http.ResponseWriter, r *http.Request) {
				got, err := io.ReadAll(r.Body)
				if err != nil || string(got) != c.want || r.ContentLength != int64(len(c.want)) || len(r.TransferEncoding) != 0 {
					t.Errorf("got %d bytes, %v, length %d, encoding %v", len(got), err, r.ContentLength, r.TransferEncoding)
				}
				if kept := r.Header.Get("Digest") != ""; kept != (c.want == body) {
					t.Errorf("got header %v", r.Header)
				}
				for _, digest := range append(digests, "Etag: \"a\"", "Accept-Ranges: bytes", "Content-Length: 5") {
					name, value, _ := strings.Cut(digest, ": ")
					w.Header().Set(name, value)
				}
				w.WriteHeader(http.StatusSeeOther) // a redirect with a body stays one
				_, _ = io.WriteString(w, body)
			}
			byVersion(t, func(t *testing.T, client *http.Client) {
				client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
				for _, framing := range []string{"A: b", "chunked"} {
					res := s.send(t, client, http.MethodPost, body, append(digests, framing)...)
					if res.StatusCode != http.StatusSeeOther || res.body != c.want || res.err != nil || res.ContentLength != int64(len(c.want)) {
						t.Errorf("got status %d, %d bytes, %v, length %d", res.StatusCode, len(res.body), res.err, res.ContentLength)
					}
					intact := c.want == body
					if tag := res.Header.Get("Etag"); (tag == `"a"`) != intact || (tag == `W/"a"`) == intact {
						t.Errorf("got ETag %s", tag)
					}
					for _, name := range []string{"Content-Md5", "Digest", "Repr-Digest", "Content-Digest", "Accept-Ranges"} {
						if kept := res.Header.Get(name) != ""; kept != intact {
							t.Errorf("got %s %v, want %v", name, kept, intact)
						}
					}
				}
			})
			s.idle(t)
		})
	}
}

// A body that is changed while it streams has no length, one that nobody changes keeps it.
func TestStreamedLengths(t *testing.T) {
	for name, c := range map[string]struct {
		wish Wish
		want int64
	}{"read": {streamed, 5}, "written": {writing, -1}} {
		t.Run(name, func(t *testing.T) {
			s := newSiteBoth(t, newHandler(t, onBodies("f", c.wish, idle)))
			s.backend = func(w http.ResponseWriter, r *http.Request) {
				if r.ContentLength != c.want || (r.Header.Get("Content-Length") == "5") != (c.want == 5) {
					t.Errorf("got length %d and header %v, want %d", r.ContentLength, r.Header, c.want)
				}
				body, _ := io.ReadAll(r.Body)
				w.Header().Set("Content-Length", "5")
				_ = http.NewResponseController(w).Flush() // or the server finds out the length
				_, _ = w.Write(body)
			}
			byVersion(t, func(t *testing.T, client *http.Client) {
				res := s.send(t, client, http.MethodPost, "hello")
				if res.body != "hello" || res.ContentLength != c.want {
					t.Errorf("got %q with length %d, want %d", res.body, res.ContentLength, c.want)
				}
			})
		})
	}
}

// H79: a filter refuses what it has seen, with its own answer.
func TestH79_Refused(t *testing.T) {
	for name, hook := range map[string]func(c *Chunk) error{
		"status": func(*Chunk) error { return Reject(http.StatusTeapot, errors.New("no tea")) },
		"answer": func(*Chunk) error {
			return &Rejection{Status: http.StatusTeapot, Header: http.Header{"x-why": {"tea"}}, Body: []byte("no tea")}
		},
	} {
		t.Run(name, func(t *testing.T) {
			end, over := ended()
			s := newSiteBoth(t, newHandler(t, end, entry{name: "f", requestBody: onRequestBody{buffered, func(_ *Exchange, c *Chunk) (Action, error) {
				if bytes.Contains(c.Bytes(), []byte("tea")) {
					return Continue, hook(c)
				}
				return Continue, nil
			}}}))
			byVersion(t, func(t *testing.T, client *http.Client) {
				check := watchCounts(t)
				res := s.send(t, client, http.MethodPost, "some tea")
				check("filter 1")
				if res.StatusCode != http.StatusTeapot || len(s.taken()) != 0 {
					t.Errorf("got status %d", res.StatusCode)
				}
				if name == "answer" && (res.body != "no tea" || res.ContentLength != 6 || res.Header.Get("X-Why") != "tea") {
					t.Errorf("got %q %v", res.body, res.Header)
				}
				if err := within(t, "the log", over); err == nil {
					t.Error("the log phase has no error")
				}
				if res := s.send(t, client, http.MethodPost, "coffee"); res.StatusCode != http.StatusOK || len(s.taken()) != 1 {
					t.Errorf("got status %d for what is allowed", res.StatusCode)
				}
				within(t, "the log", over)
			})
			s.idle(t)
		})
	}
}

// H81, H82: a filter that fails ends the request, or doesn't, as its failure mode says.
func TestH81_Failures(t *testing.T) {
	fail := func() error { return errors.New("broken") }
	body := func(_ *Exchange, c *Chunk) (Action, error) {
		if c.End() {
			return Continue, fail()
		}
		return Continue, nil
	}
	denied := func(_ *Exchange, c *Chunk) (Action, error) { c.Replace([]byte("x")); return Continue, nil }
	panics := func(*Exchange, *Chunk) (Action, error) { panic("broken") }
	aborts := func(*Exchange, *Chunk) (Action, error) { panic(http.ErrAbortHandler) }
	const failed, passed, crashed = "request_failed 1", "passed_over 1", "panic 1"
	response := onResponse(func(x *Exchange) error { return okOnly(x, fail()) })
	for name, c := range map[string]struct {
		entry        entry
		closed, open string // what is counted
	}{
		"request":           {entry{request: onRequest(func(*Exchange) error { return fail() })}, failed, passed},
		"request body":      {entry{requestBody: onRequestBody{buffered, body}}, failed, passed},
		"whole body":        {entry{requestBody: onRequestBody{rewrite, body}}, failed, passed},
		"response":          {entry{response: response}, failed, passed},
		"response body":     {entry{responseBody: onResponseBody{rewrite, body}}, failed, passed},
		"replaced":          {entry{responseBody: onResponseBody{buffered, denied}}, failed, ""},
		"replaced request":  {entry{requestBody: onRequestBody{buffered, denied}}, failed, ""},
		"panic":             {entry{requestBody: onRequestBody{buffered, panics}}, crashed, crashed},
		"panic in response": {entry{responseBody: onResponseBody{buffered, panics}}, crashed, crashed},
		"abort":             {entry{requestBody: onRequestBody{buffered, aborts}}, crashed, crashed},
		"abort in response": {entry{responseBody: onResponseBody{buffered, aborts}}, crashed, crashed},
	} {
		for mode, open := range map[string]bool{"closed": false, "open": true} {
			t.Run(name+" "+mode, func(t *testing.T) {
				e, want, reason := c.entry, http.StatusInternalServerError, c.closed
				e.name, e.open = "f", open
				if open {
					reason = c.open
				}
				if open && reason != crashed {
					want = http.StatusOK
				}
				s := newSiteBoth(t, newHandler(t, e))
				byVersion(t, func(t *testing.T, client *http.Client) {
					for range 2 { // the second sees what the first left behind
						check := watchCounts(t)
						res := s.send(t, client, http.MethodPost, "hello")
						check(nonEmpty(reason)...)
						if res.StatusCode != want || want == http.StatusOK && res.body != "ok" {
							t.Errorf("got status %d and %q, want %d", res.StatusCode, res.body, want)
						}
					}
				})
				s.idle(t)
			})
		}
	}
}

// A filter that panics at the end harms nobody.
func TestPanicInLog(t *testing.T) {
	end, over := ended()
	s := newSite(t, newHandler(t, end, entry{name: "f", log: onLog(func(*Exchange) { panic(http.ErrAbortHandler) })}))
	if res := post(t, s, "hello"); res.StatusCode != http.StatusOK || res.body != "ok" {
		t.Errorf("got status %d and %q", res.StatusCode, res.body)
	}
	within(t, "the log of the other filter", over)
}

// okOnly is for filters that fail for good answers only, not for what is made of the failure.
func okOnly(x *Exchange, err error) error {
	if x.Err() != nil {
		return nil
	}
	return err
}

// nonEmpty returns a list of what isn't empty.
func nonEmpty(s string) []string {
	if s == "" {
		return nil
	}
	return []string{s}
}
