package pipeline

import (
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"github.com/quic-go/quic-go"
	"github.com/quic-go/quic-go/http3"
	"golang.org/x/net/http2"

	"github.com/caddy-sluice/sluice/internal/bodypipe"
)

// H63: a client that waits for 100 Continue gets it if somebody reads the body, and only then.
func TestH63_ExpectContinue(t *testing.T) {
	limit := Wish{Access: ReadOnly, Mode: SizeLimit, Max: 4}
	whole := Wish{Access: ReadOnly, Mode: Buffer, Max: 4, Whole: true}
	refusing := onRequest(func(*Exchange) error { return Reject(http.StatusForbidden, errors.New("no")) })
	for name, c := range map[string]struct {
		entry  entry
		reads  bool // the backend
		body   string
		status int
		goesOn bool
	}{
		"buffered":             {entry{requestBody: onRequestBody{buffered, idle}}, true, "abcde", 200, true},
		"buffered, not read":   {entry{requestBody: onRequestBody{buffered, idle}}, false, "abcde", 200, true},
		"streamed":             {entry{requestBody: onRequestBody{streamed, idle}}, true, "abcde", 200, true},
		"streamed, not read":   {entry{requestBody: onRequestBody{streamed, idle}}, false, "abcde", 200, false},
		"too long":             {entry{requestBody: onRequestBody{limit, idle}}, true, "abcde", 413, false},
		"too long to buffer":   {entry{requestBody: onRequestBody{whole, idle}}, true, "abcde", 413, false},
		"refused":              {entry{request: refusing, requestBody: onRequestBody{streamed, idle}}, true, "abcde", 403, false},
		"refused without body": {entry{request: refusing}, true, "abcde", 403, false},
	} {
		t.Run(name, func(t *testing.T) {
			c.entry.name = "f"
			s := newSite(t, newHandler(t, c.entry))
			s.backend = func(w http.ResponseWriter, r *http.Request) {
				if kept := r.Header.Get("Expect") != ""; kept == (c.entry.requestBody.(onRequestBody).wish.Mode == Buffer) {
					t.Errorf("got Expect %v at the backend", kept)
				}
				if c.reads {
					_, _ = io.Copy(w, r.Body)
				}
			}
			conn := s.wire(t)
			conn.write("POST / HTTP/1.1\nHost: a\nExpect: 100-continue\nContent-Length: 5\n\n")
			res := conn.answer(http.MethodPost)
			if goesOn := res.StatusCode == http.StatusContinue; goesOn != c.goesOn {
				t.Fatalf("got status %d first", res.StatusCode)
			} else if goesOn {
				conn.write(c.body)
				res = conn.answer(http.MethodPost)
			}
			body, err := io.ReadAll(res.Body)
			if res.StatusCode != c.status || err != nil || c.status == 200 && c.reads && string(body) != c.body {
				t.Errorf("got status %d, %q, %v", res.StatusCode, body, err)
			}
		})
	}
}

// A connection serves the next request after a body was read before its time, also one that is there already.
func TestKeepAlive(t *testing.T) {
	for name, wish := range bodyModes {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSite(t, patient(t, wish))
			c := s.wire(t)
			const one = "POST / HTTP/1.1\nHost: a\nContent-Length: 3\n\nabc"
			const two = "POST / HTTP/1.1\nHost: a\nTransfer-Encoding: chunked\n\n3\nabc\n0\n\n"
			for _, requests := range []string{one, two, one + two + one, two + one} {
				c.write(requests)
				for range strings.Count(requests, "POST") {
					if res := c.whole(http.MethodPost); res.StatusCode != http.StatusOK || res.Close || res.body != "ok" {
						t.Fatalf("got status %d, close %v, %q", res.StatusCode, res.Close, res.body)
					}
				}
			}
			if !c.silent(pause) { // no deadline is left behind
				t.Fatal("the connection has ended")
			}
			for _, r := range s.taken() {
				if r.body != "abc" || r.err != nil {
					t.Errorf("got %q and %v", r.body, r.err)
				}
			}
		})
	}
}

// What is left of a body when the request is over is for nobody to read, and keeps nobody waiting.
func TestReadAfterTheEnd(t *testing.T) {
	for name, wish := range bodyModes {
		t.Run(name, func(t *testing.T) {
			end, over := ended()
			s := newSite(t, patient(t, wish, end))
			bodies := make(chan io.ReadCloser, 1)
			s.backend = func(w http.ResponseWriter, r *http.Request) {
				bodies <- r.Body
				_, _ = io.WriteString(w, "ok")
			}
			for range 20 {
				if res := post(t, s, "secret"); res.body != "ok" {
					t.Fatalf("got %q", res.body)
				}
				within(t, "the log", over)
				body := within(t, "the body", bodies)
				if n, err := body.Read(make([]byte, 10)); n != 0 || err == nil || errors.Is(err, io.EOF) {
					t.Fatalf("got %d bytes and %v after the end", n, err)
				}
				body.Close()
			}
			s.idle(t)
		})
	}
}

// Who still waits for the client when the request is over gets nothing of it.
func TestReaderLeftBehind(t *testing.T) {
	end, over := ended()
	s := newSite(t, patient(t, streamed, end))
	read := make(chan error, 1)
	s.backend = func(w http.ResponseWriter, r *http.Request) {
		_ = http.NewResponseController(w).EnableFullDuplex()
		first := make([]byte, 3)
		_, _ = io.ReadFull(r.Body, first)
		started := make(chan struct{})
		go func() {
			close(started)
			_, err := io.ReadFull(r.Body, first)
			read <- err
		}()
		<-started
		_, _ = io.WriteString(w, "ok")
	}
	c := s.wire(t)
	c.write("POST / HTTP/1.1\nHost: a\nContent-Length: 10\n\nabc")
	if res := c.whole(http.MethodPost); res.StatusCode != http.StatusOK || res.body != "ok" {
		t.Errorf("got status %d, %q", res.StatusCode, res.body)
	}
	within(t, "the log", over)
	c.Close()
	if err := within(t, "the reader", read); err == nil {
		t.Error("the reader got something")
	}
	s.idle(t)
}

// Once the client has the header of its answer, both may take their time: a pause isn't a stall any more, also for who
// waits for the body already.
func TestPauseWithAnswer(t *testing.T) {
	for name, first := range map[string]int{"flushed": 0, "long": sureOut + 1} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSiteBoth(t, patient(t, streamed))
			s.backend = func(w http.ResponseWriter, r *http.Request) {
				control := http.NewResponseController(w)
				_ = control.EnableFullDuplex()
				if n, err := io.ReadFull(r.Body, make([]byte, 3)); err != nil {
					t.Errorf("got %d bytes and %v", n, err)
				}
				rest := make(chan string, 1)
				go func() {
					body, err := io.ReadAll(r.Body) // waits before the answer goes out
					if err != nil {
						t.Error(err)
					}
					rest <- string(body)
				}()
				<-time.After(moment)
				if first > 0 {
					_, _ = io.WriteString(w, strings.Repeat("x", first))
				} else {
					_ = control.Flush()
				}
				_, _ = io.WriteString(w, within(t, "the rest", rest))
			}
			byVersion(t, func(t *testing.T, client *http.Client) {
				check := watchCounts(t)
				r, w := io.Pipe()
				req := s.request(t, http.MethodPost, "")
				req.Body, req.ContentLength = r, -1
				go func() {
					_, _ = io.WriteString(w, "abc")
					<-time.After(pause)
					_, _ = io.WriteString(w, "def")
					<-time.After(pause)
					w.Close()
				}()
				if res := do(t, client, req); res.StatusCode != http.StatusOK || res.body != strings.Repeat("x", first)+"def" || res.err != nil {
					t.Errorf("got status %d, %d bytes and %v", res.StatusCode, len(res.body), res.err)
				}
				check()
			})
			s.idle(t)
		})
	}
}

// If the body of a request fails when its answer is on the way, the connection ends: what is left of the body must not
// become a request. Here the header waits in the server's buffer, so that the client has nothing of it.
func TestStallWithAnswer(t *testing.T) {
	for framing, body := range map[string]string{"declared": "Content-Length: 100\n\nabc", "chunked": "Transfer-Encoding: chunked\n\n3\nabc\n"} {
		t.Run(framing, func(t *testing.T) {
			end, over := ended()
			s := newSite(t, impatient(t, streamed, end))
			requests := make(chan string, 2)
			s.backend = func(w http.ResponseWriter, r *http.Request) {
				requests <- r.URL.Path
				_ = http.NewResponseController(w).EnableFullDuplex()
				w.WriteHeader(http.StatusOK)
				_, _ = io.Copy(w, r.Body)
			}
			check := watchCounts(t)
			c := s.wire(t)
			c.write("POST /one HTTP/1.1\nHost: a\n" + body)
			c.closed()
			if err := within(t, "the log", over); !errors.Is(err, errStalled) {
				t.Errorf("got %v", err)
			}
			check("body_timeout 1")
			if len(requests) != 1 {
				t.Errorf("got %d requests", len(requests))
			}
			s.idle(t)
		})
	}
}

// A handler that closes the body and reads on has made a mistake, for which its answer isn't taken away.
func TestReadAfterClose(t *testing.T) {
	s := newSiteBoth(t, patient(t, streamed, entry{name: "r", responseBody: onResponseBody{buffered, idle}}))
	s.backend = func(w http.ResponseWriter, r *http.Request) {
		r.Body.Close()
		if _, err := r.Body.Read(make([]byte, 1)); !errors.Is(err, http.ErrBodyReadAfterClose) {
			t.Errorf("got %v", err)
		}
		_, _ = io.WriteString(w, "ok")
	}
	byVersion(t, func(t *testing.T, client *http.Client) {
		check := watchCounts(t)
		if res := s.send(t, client, http.MethodPost, "body"); res.StatusCode != http.StatusOK || res.body != "ok" {
			t.Errorf("got status %d, %q", res.StatusCode, res.body)
		}
		check()
	})
}

// What an error of a body means depends on who can have caused it.
func TestClientErrors(t *testing.T) {
	broken := errors.New("client disconnected")
	for _, c := range []struct {
		major int
		err   error
		want  error
	}{
		{1, io.ErrUnexpectedEOF, errClientGone},
		{2, broken, errClientGone},
		{2, http2.StreamError{StreamID: 1, Code: http2.ErrCodeCancel}, errClientGone},
		{3, &http3.Error{Remote: true}, errClientGone},
		{3, &quic.IdleTimeoutError{}, errClientGone},
		{2, gzip.ErrHeader, gzip.ErrHeader},
		{3, gzip.ErrHeader, gzip.ErrHeader},
		{2, fmt.Errorf("in front: %w", errClientGone), errClientGone},
		{1, caddyhttp.Error(http.StatusUnsupportedMediaType, broken), Reject(http.StatusUnsupportedMediaType, nil)},
		{2, caddyhttp.Error(http.StatusUnsupportedMediaType, broken), Reject(http.StatusUnsupportedMediaType, nil)},
		{2, Reject(http.StatusTeapot, broken), Reject(http.StatusTeapot, nil)},
		{1, bodypipe.ErrBudget, bodypipe.ErrBudget},
		{2, os.ErrDeadlineExceeded, errStalled},
		{1, os.ErrDeadlineExceeded, errStalled},
		{1, broken, broken},
		{2, &http.MaxBytesError{Limit: 1}, Reject(http.StatusRequestEntityTooLarge, nil)},
	} {
		got := clientError(c.err, &http.Request{ProtoMajor: c.major})
		status := bodypipe.RequestStatus(got)
		if handled, ok := errors.AsType[caddyhttp.HandlerError](got); ok {
			status = handled.StatusCode
		}
		if refused, ok := errors.AsType[*Rejection](c.want); ok && status != refused.Status || !ok && !errors.Is(got, c.want) {
			t.Errorf("HTTP/%d %v: got %v, want %v", c.major, c.err, got, c.want)
		}
	}
}

// The rest of a body whose request is over stays a body, however late it comes.
func TestRestOfABody(t *testing.T) {
	s := newSite(t, impatient(t, streamed))
	paths := make(chan string, 10)
	s.backend = func(w http.ResponseWriter, r *http.Request) {
		paths <- r.URL.Path
		control := http.NewResponseController(w)
		_ = control.EnableFullDuplex()
		_, _ = io.ReadFull(r.Body, make([]byte, 3))
		_, _ = io.WriteString(w, "ok")
		_ = control.Flush()
	}
	const rest = "GET /rest HTTP/1.1\r\nHost: a\r\n\r\n"
	c := s.wire(t)
	c.write("POST /one HTTP/1.1\nHost: a\nContent-Length: " + strconv.Itoa(3+len(rest)) + "\n\nabc")
	if res := c.whole(http.MethodPost); res.StatusCode != http.StatusOK {
		t.Errorf("got status %d", res.StatusCode)
	}
	if !c.silent(2 * shortTimeout) {
		t.Fatal("the connection has ended")
	}
	_, _ = io.WriteString(c, rest)
	c.silent(2 * shortTimeout)
	if within(t, "the request", paths); len(paths) > 0 {
		t.Errorf("got a request for %s, which was a body", <-paths)
	}
}
