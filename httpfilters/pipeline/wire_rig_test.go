package pipeline

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/caddy-sluice/sluice/internal/testkit/counts"
	"github.com/caddy-sluice/sluice/internal/testkit/sites"
)

// The wishes that most tests need.
var (
	streamed = Wish{Access: ReadOnly}
	writing  = Wish{Access: ReadWrite}
	buffered = Wish{Access: ReadOnly, Mode: Buffer}
	rewrite  = Wish{Access: ReadWrite, Mode: Buffer, Whole: true}
)

// idle is the hook of a filter that only looks.
func idle(*Exchange, *Chunk) (Action, error) { return Continue, nil }

// upper replaces each piece.
func upper(_ *Exchange, c *Chunk) (Action, error) {
	c.Replace(bytes.ToUpper(c.Bytes()))
	return Continue, nil
}

// replace has a filter put other bytes in the place of the whole body.
func replace(body string) func(*Exchange, *Chunk) (Action, error) {
	return func(_ *Exchange, c *Chunk) (Action, error) {
		c.Replace([]byte(body))
		return Continue, nil
	}
}

// onBodies returns an entry with the same hook for both bodies.
func onBodies(name string, wish Wish, hook func(*Exchange, *Chunk) (Action, error)) entry {
	return entry{name: name, requestBody: onRequestBody{wish, hook}, responseBody: onResponseBody{wish, hook}}
}

// newSiteBoth serves a backend behind a handler, by HTTP/1 and HTTP/2.
func newSiteBoth(t testing.TB, h *Handler) *site {
	t.Helper()
	s := prepareSite(h)
	s.Server = sites.ServeBoth(t, s)
	return s
}

// newClient returns a client that speaks HTTP/1 or HTTP/2 without TLS, until the test ends.
func newClient(t testing.TB, http2 bool) *http.Client {
	t.Helper()
	transport := &http.Transport{Protocols: new(http.Protocols), DisableCompression: true, ExpectContinueTimeout: sites.Patience}
	transport.Protocols.SetHTTP1(!http2)
	transport.Protocols.SetUnencryptedHTTP2(http2)
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport, Timeout: sites.Patience}
}

// byVersion runs a test by HTTP/1 and by HTTP/2.
func byVersion(t *testing.T, test func(t *testing.T, client *http.Client)) {
	t.Helper()
	for name, http2 := range map[string]bool{"HTTP1": false, "HTTP2": true} {
		t.Run(name, func(t *testing.T) { test(t, newClient(t, http2)) })
	}
}

// unsized hides the length of a body.
type unsized struct{ io.Reader }

// got is an answer, read to its end.
type got struct {
	*http.Response
	body string
	err  error
}

// do sends a request and reads the answer. It is an error of the test if there is none.
func do(t testing.TB, client *http.Client, req *http.Request) got {
	t.Helper()
	res, err := client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	return got{res, string(body), err}
}

// request returns a request for a site. With "chunked" as a header its body has no declared length.
func (s *site) request(t testing.TB, method, body string, headers ...string) *http.Request {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, s.URL, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	for _, header := range headers {
		if header == "chunked" {
			req.Body, req.ContentLength = io.NopCloser(unsized{req.Body}), -1
			continue
		}
		name, value, _ := strings.Cut(header, ": ")
		req.Header.Add(name, value)
	}
	return req
}

// send sends something by the client, and reads the answer.
func (s *site) send(t testing.TB, client *http.Client, method, body string, headers ...string) got {
	t.Helper()
	return do(t, client, s.request(t, method, body, headers...))
}

// post sends a body by HTTP/1.
func post(t testing.TB, s *site, body string) got {
	t.Helper()
	return s.send(t, s.Client(), http.MethodPost, body)
}

// idle waits until nothing is held any more.
func (s *site) idle(t testing.TB) {
	t.Helper()
	eventually(t, "nothing is held", func() bool { return s.handler.budget.Held.Load() == 0 })
}

// eventually waits for what must come.
func eventually(t testing.TB, what string, is func() bool) {
	t.Helper()
	for end := time.Now().Add(sites.Patience); !is(); {
		if time.Now().After(end) {
			t.Fatalf("waited too long until %s", what)
		}
		time.Sleep(time.Millisecond)
	}
}

// within waits for a value.
func within[T any](t testing.TB, what string, from <-chan T) T {
	t.Helper()
	select {
	case v := <-from:
		return v
	case <-time.After(sites.Patience):
		t.Fatalf("waited too long for %s", what)
		panic("unreachable")
	}
}

// watchCounts checks what the metrics of the handler counted since the call, once the test is over, or the function returned
// is called: reasons with their numbers, as `body_too_large 1`.
func watchCounts(t testing.TB) func(want ...string) {
	t.Helper()
	before := counts.Of(t, register)
	return func(want ...string) {
		t.Helper()
		diff := counts.Of(t, register).Since(before)
		var found []string
		for name, n := range diff {
			_, reason, _ := strings.Cut(name, " ")
			found = append(found, fmt.Sprintf("%s %v", reason, n))
		}
		if len(found) != len(want) {
			t.Errorf("got counts %v, want %v", found, want)
			return
		}
		for _, w := range want {
			if !strings.Contains(" "+strings.Join(found, ",")+",", w+",") {
				t.Errorf("got counts %v, want %v", found, want)
			}
		}
	}
}

// wire is a connection to a site on which a test writes what it likes.
type wire struct {
	*sites.Conn
	t testing.TB
}

func (s *site) wire(t testing.TB) *wire {
	t.Helper()
	return &wire{sites.Dial(t, s.Server), t}
}

// write writes lines; `\n` becomes `\r\n`.
func (c *wire) write(lines string) {
	c.t.Helper()
	if _, err := io.WriteString(c, strings.ReplaceAll(lines, "\n", "\r\n")); err != nil {
		c.t.Fatal(err)
	}
}

// answer reads an answer, of which the body is left to read.
func (c *wire) answer(method string) *http.Response {
	c.t.Helper()
	res, err := http.ReadResponse(c.Reader, &http.Request{Method: method})
	if err != nil {
		c.t.Fatal(err)
	}
	return res
}

// whole reads an answer with its body.
func (c *wire) whole(method string) got {
	c.t.Helper()
	res := c.answer(method)
	body, err := io.ReadAll(res.Body)
	return got{res, string(body), err}
}

// silent reports that nothing has come, and that the connection is open.
func (c *wire) silent(wait time.Duration) bool {
	c.t.Helper()
	_ = c.SetReadDeadline(time.Now().Add(wait))
	_, err := c.Reader.Peek(1)
	_ = c.SetReadDeadline(time.Now().Add(sites.Patience))
	c.Reader = bufio.NewReader(c.Conn)
	timeout, ok := err.(interface{ Timeout() bool })
	return ok && timeout.Timeout()
}

// closed waits for the end of the connection.
func (c *wire) closed() {
	c.t.Helper()
	if rest, err := io.ReadAll(c.Reader); err != nil || len(rest) > 0 {
		c.t.Errorf("got %q and %v, want the end of the connection", rest, err)
	}
}

// ended returns an entry that tells when a request is over, and with which error.
func ended() (entry, <-chan error) {
	over := make(chan error, 16)
	return entry{name: "ended", log: onLog(func(x *Exchange) { over <- x.Err() })}, over
}

// cancelled returns a context that a test ends.
func cancelled(t testing.TB) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(t.Context())
	t.Cleanup(cancel)
	return ctx, cancel
}
