package pipeline

import (
	"bufio"
	"compress/gzip"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"go.uber.org/zap"
)

// refusing returns an entry that refuses responses, but for the answers that take their place.
func refusing(err error) entry {
	return entry{name: "f", response: onResponse(func(x *Exchange) error {
		if x.Err() != nil {
			return nil
		}
		return err
	})}
}

// A handler that has begun an answer, and then waits, doesn't keep the client from the one in its place.
func TestRefusedAtOnce(t *testing.T) {
	long := entry{name: "f", responseBody: onResponseBody{Wish{Access: ReadOnly, Mode: Buffer, Max: 3, Whole: true}, idle}}
	for name, tc := range map[string]struct {
		entry  entry
		status int
		body   string
		count  string
		errors int // in the log
	}{
		"refuses":       {refusing(Reject(http.StatusForbidden, errors.New("no"))), 403, "", "filter 1", 0},
		"with a body":   {refusing(&Rejection{Status: http.StatusForbidden, Body: []byte("forbidden")}), 403, "forbidden", "filter 1", 0},
		"fails":         {refusing(errors.New("broken")), 500, "", "request_failed 1", 1},
		"body too long": {long, 502, "", "body_too_large 1", 1},
	} {
		t.Run(name, func(t *testing.T) {
			end, over := ended()
			s := newSiteBoth(t, newHandler(t, end, tc.entry))
			goOn, wrote := make(chan struct{}), make(chan error, 4)
			s.next = func(w http.ResponseWriter, _ *http.Request) error {
				w.Header().Set("X-Secret", "1")
				_, err := io.WriteString(w, "secret")
				wrote <- errors.Join(err, http.NewResponseController(w).Flush())
				<-goOn
				w.Header().Set(http.TrailerPrefix+"X-Late", "1")
				_, err = io.WriteString(w, "secret")
				wrote <- err
				return errors.New("nobody hears of it")
			}
			byVersion(t, func(t *testing.T, client *http.Client) {
				check := watchCounts(t)
				res, err := client.Do(s.request(t, http.MethodGet, ""))
				if err != nil {
					t.Fatal(err)
				}
				defer res.Body.Close()
				if err := within(t, "the write", wrote); !errors.Is(err, errRefused) {
					t.Errorf("got %v from the first write", err)
				}
				goOn <- struct{}{}
				if err := within(t, "the write", wrote); !errors.Is(err, errRefused) {
					t.Errorf("got %v from the next write", err)
				}
				body, err := io.ReadAll(res.Body)
				if res.StatusCode != tc.status || string(body) != tc.body || err != nil || len(res.Trailer) > 0 || res.Header.Get("X-Secret") != "" {
					t.Errorf("got status %d, %q, %v, %v, trailers %v", res.StatusCode, body, err, res.Header, res.Trailer)
				}
				if err := within(t, "the log", over); err == nil {
					t.Error("got no error in the log phase")
				}
				check(tc.count)
				if n := s.logs.FilterLevelExact(zap.ErrorLevel).FilterMessage("response refused").Len(); n < tc.errors || tc.errors == 0 && n > 0 {
					t.Errorf("got %d lines at Error", n)
				}
			})
			s.idle(t)
		})
	}
}

// The answer in the place of one that is refused doesn't wait for a client that doesn't send its body.
func TestRefusedAtOnceWithABody(t *testing.T) {
	s := newSite(t, impatient(t, streamed, refusing(Reject(http.StatusForbidden, errors.New("no")))))
	goOn := make(chan struct{})
	s.next = func(w http.ResponseWriter, _ *http.Request) error {
		w.WriteHeader(http.StatusOK)
		<-goOn
		return nil
	}
	c := s.wire(t)
	c.write("POST / HTTP/1.1\nHost: a\nContent-Length: 10\n\nabc")
	if res := c.whole(http.MethodPost); res.StatusCode != http.StatusForbidden || !res.Close || res.err != nil {
		t.Errorf("got status %d, close %v, %v", res.StatusCode, res.Close, res.err)
	}
	close(goOn)
	c.closed()
	s.idle(t)
}

// An answer whose length filters have taken away breaks off when its handler fails: it must not look complete.
func TestErrorInAPipedAnswer(t *testing.T) {
	for name, tc := range map[string]struct {
		entry  entry
		breaks bool
	}{
		"header only": {entry{name: "f", response: onResponse(func(*Exchange) error { return nil })}, false},
		"read":        {entry{name: "f", responseBody: onResponseBody{streamed, idle}}, true},
		"written":     {entry{name: "f", responseBody: onResponseBody{writing, upper}}, true},
	} {
		t.Run(name, func(t *testing.T) {
			end, over := ended()
			s := newSiteBoth(t, newHandler(t, end, tc.entry))
			s.next = func(w http.ResponseWriter, _ *http.Request) error {
				if name != "header only" {
					w.Header().Set("Content-Length", "10")
				}
				_, _ = io.WriteString(w, "hello")
				_ = http.NewResponseController(w).Flush()
				return errTest
			}
			byVersion(t, func(t *testing.T, client *http.Client) {
				warned := s.logs.FilterLevelExact(zap.WarnLevel).Len()
				res := s.send(t, client, http.MethodGet, "")
				if res.StatusCode != http.StatusOK || (res.err != nil) != tc.breaks {
					t.Errorf("got status %d, %q and %v", res.StatusCode, res.body, res.err)
				}
				if err := within(t, "the log", over); !errors.Is(err, errTest) {
					t.Errorf("got %v in the log phase", err)
				}
				if n := s.logs.FilterLevelExact(zap.WarnLevel).Len() - warned; (n == 1) != tc.breaks {
					t.Errorf("got %d warnings", n)
				}
			})
		})
	}
}

// A body that was read to its end isn't held until the answer is complete; nor is one that was closed.
func TestReadBodyIsNotHeld(t *testing.T) {
	for name, read := range map[string]func(io.ReadCloser){
		"to the end": func(b io.ReadCloser) { _, _ = io.Copy(io.Discard, b) },
		"all of it":  func(b io.ReadCloser) { _, _ = io.ReadFull(b, make([]byte, 100000)) },
		"closed":     func(b io.ReadCloser) { b.Close() },
	} {
		t.Run(name, func(t *testing.T) {
			for _, wish := range bodyModes {
				s := newSiteBoth(t, newHandler(t, entry{name: "f", requestBody: onRequestBody{wish, idle}}))
				s.backend = func(w http.ResponseWriter, r *http.Request) {
					held := s.handler.budget.Held.Load()
					if wish.Mode == Buffer && held == 0 {
						t.Error("got nothing held")
					}
					read(r.Body)
					if held := s.handler.budget.Held.Load(); held != 0 {
						t.Errorf("got %d bytes held", held)
					}
					n, err := r.Body.Read(make([]byte, 1))
					if want := io.EOF; n != 0 || name != "closed" && !errors.Is(err, want) || name == "closed" && !errors.Is(err, http.ErrBodyReadAfterClose) {
						t.Errorf("got %d bytes and %v", n, err)
					}
					_, _ = io.WriteString(w, "ok")
				}
				byVersion(t, func(t *testing.T, client *http.Client) {
					if res := s.send(t, client, http.MethodPost, strings.Repeat("x", 100000)); res.body != "ok" {
						t.Errorf("got status %d %q", res.StatusCode, res.body)
					}
				})
				s.idle(t)
			}
		})
	}
}

// CONNECT is refused where filters look at the body of a request: what goes through a tunnel is none. A tunnel by the name
// of a protocol passes.
func TestConnect(t *testing.T) {
	check := func(t *testing.T, client *http.Client, s *site, protocol string, status int, count ...string) {
		t.Helper()
		counted := watchCounts(t)
		r, w := io.Pipe()
		defer w.Close()
		req := s.request(t, http.MethodConnect, "")
		req.Body, req.ContentLength = r, -1
		if protocol != "" {
			req.Proto = protocol
		}
		res, err := client.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		res.Body.Close()
		if res.StatusCode != status {
			t.Errorf("got status %d, want %d", res.StatusCode, status)
		}
		counted(count...)
	}
	accept := func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusOK) }
	t.Run("HTTP1", func(t *testing.T) {
		s := newSite(t, impatient(t, streamed))
		c := s.wire(t)
		c.write("CONNECT a:80 HTTP/1.1\nHost: a:80\n\n")
		if res := c.answer(http.MethodConnect); res.StatusCode != http.StatusMethodNotAllowed {
			t.Errorf("got status %d", res.StatusCode)
		}
	})
	t.Run("HTTP2", func(t *testing.T) {
		s := newSiteBoth(t, impatient(t, buffered))
		check(t, newClient(t, true), s, "", http.StatusMethodNotAllowed, "connect 1")
	})
	t.Run("HTTP3", func(t *testing.T) {
		s, client := newSite3(t, impatient(t, buffered), accept)
		check(t, client, s, "", http.StatusMethodNotAllowed, "connect 1")
		check(t, client, s, "websocket", http.StatusOK)
	})
	t.Run("other filters", func(t *testing.T) {
		s, client := newSite3(t, newHandler(t, entry{name: "f", request: onRequest(func(*Exchange) error { return nil })}), accept)
		check(t, client, s, "", http.StatusOK)
	})
}

// An error of a handler in front that reads the body keeps its status, in all versions.
func TestErrorOfAReaderInFront(t *testing.T) {
	for name, tc := range map[string]struct {
		err    error
		status int
	}{
		"decoder": {gzip.ErrHeader, http.StatusBadRequest},
		"Caddy's": {caddyhttp.Error(http.StatusUnsupportedMediaType, gzip.ErrHeader), http.StatusUnsupportedMediaType},
	} {
		for mode, wish := range bodyModes {
			t.Run(name+" "+mode, func(t *testing.T) {
				s := newSiteBoth(t, patient(t, wish))
				site := s.Config.Handler
				s.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					r.Body = failingBody{r.Body, tc.err}
					site.ServeHTTP(w, r)
				})
				byVersion(t, func(t *testing.T, client *http.Client) {
					if res := s.send(t, client, http.MethodPost, "x"); res.StatusCode != tc.status {
						t.Errorf("got status %d, want %d", res.StatusCode, tc.status)
					}
				})
			})
		}
	}
}

// failingBody is a body that a reader in front can't read.
type failingBody struct {
	io.ReadCloser
	err error
}

func (b failingBody) Read([]byte) (int, error) { return 0, b.err }

// deadlines is a connection that counts the deadlines that are set for reading.
type deadlines struct {
	*httptest.ResponseRecorder
	set int
}

func (d *deadlines) SetReadDeadline(time.Time) error { d.set++; return nil }

func (d *deadlines) Hijack() (net.Conn, *bufio.ReadWriter, error) { return nil, nil, nil }

// Whose the connection is by now, it keeps the deadlines that it sets, whoever reads the body on.
func TestDeadlinesOfATunnel(t *testing.T) {
	for name, tc := range map[string]struct {
		begin func(w http.ResponseWriter)
		more  bool
	}{
		"waits": {func(w http.ResponseWriter) { w.WriteHeader(http.StatusOK) }, true},
		"101": {func(w http.ResponseWriter) {
			w.Header().Set("Connection", "Upgrade")
			w.Header().Set("Upgrade", "x")
			w.WriteHeader(http.StatusSwitchingProtocols)
		}, false},
		"hijacked": {func(w http.ResponseWriter) { _, _, _ = http.NewResponseController(w).Hijack() }, false},
		"flushed":  {func(w http.ResponseWriter) { _ = http.NewResponseController(w).Flush() }, false},
	} {
		t.Run(name, func(t *testing.T) {
			w := &deadlines{ResponseRecorder: httptest.NewRecorder()}
			r := httptest.NewRequest(http.MethodPost, "/", iotest.OneByteReader(strings.NewReader("body")))
			r.Header.Set("Connection", "keep-alive, upgrade")
			r.Header.Set("Upgrade", "x")
			r = caddyhttp.PrepareRequest(r, caddy.NewReplacer(), w, new(caddyhttp.Server))
			next := func(rw http.ResponseWriter, r *http.Request) error {
				_, _ = r.Body.Read(make([]byte, 1))
				tc.begin(rw)
				before := w.set
				if rest, err := io.ReadAll(r.Body); string(rest) != "ody" || err != nil {
					t.Errorf("got %q and %v", rest, err)
				}
				if before == 0 || (w.set > before) != tc.more {
					t.Errorf("got %d deadlines, then %d", before, w.set)
				}
				return nil
			}
			if err := impatient(t, streamed).ServeHTTP(w, r, caddyhttp.HandlerFunc(next)); err != nil {
				t.Error(err)
			}
		})
	}
}

// A filter may take part behind a branch whose routes have read the body to its end.
func TestReadBodyGoesOn(t *testing.T) {
	h := newHandler(t, entry{name: "f", requestBody: onRequestBody{rewrite, replace("other")}})
	w, r := httptest.NewRecorder(), httptest.NewRequest(http.MethodPost, "/", strings.NewReader("body"))
	x := newExchange(h, w, caddyhttp.PrepareRequest(r, caddy.NewReplacer(), w, new(caddyhttp.Server)), nil)
	if err := x.openBody(); err != nil {
		t.Fatal(err)
	}
	if got, err := io.ReadAll(x.r.Body); string(got) != "other" || err != nil {
		t.Errorf("got %q and %v", got, err)
	}
	if err := x.prepare(); err != nil {
		t.Errorf("got %v from what comes next", err)
	}
	x.body.end()
}

// A handler that doesn't know of filters for upstream bodies gets no body past them, unless they may all fail.
func TestUnfilteredBody(t *testing.T) {
	never := onRequestBody{buffered, idle}
	for name, tc := range map[string]struct {
		handlers []entry
		status   int
		count    []string
	}{
		"bound":    {[]entry{binds(putsBehind("1"))}, http.StatusInternalServerError, []string{"request_failed 1"}},
		"selected": {[]entry{selects(putsBehind("1"))}, http.StatusInternalServerError, []string{"request_failed 1"}},
		"open":     {[]entry{{name: "f", open: true, bound: onBound{ReadWrite, putsBehind("1")}}}, http.StatusOK, nil},
		"none":     {[]entry{{name: "f", requestBody: never}}, http.StatusOK, nil},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSiteBoth(t, newHandler(t, tc.handlers...))
			byVersion(t, func(t *testing.T, client *http.Client) {
				check := watchCounts(t)
				if res := s.send(t, client, http.MethodPost, "secret"); res.StatusCode != tc.status {
					t.Errorf("got status %d, want %d", res.StatusCode, tc.status)
				}
				check(tc.count...)
				for _, r := range s.taken() {
					if r.body != "" && tc.status != http.StatusOK {
						t.Errorf("got %q at the backend", r.body)
					}
				}
			})
			s.idle(t)
		})
	}
}
