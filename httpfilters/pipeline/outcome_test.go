package pipeline

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/caddy-sluice/sluice/internal/testkit/sites"
)

// Go's server reads what is left of a short body when the answer begins, and closes it: a handler that reads on isn't a client
// that breaks off, and the answer is complete.
func TestServerClosesTheBody(t *testing.T) {
	const pieces, piece = 10, 10_000
	for name, head := range map[string]string{"sized": fmt.Sprintf("Content-Length: %d", pieces*piece), "chunked": "Transfer-Encoding: chunked"} {
		t.Run(name, func(t *testing.T) {
			check := watchCounts(t)
			s := newSite(t, newHandler(t, entry{name: "s", requestBody: onRequestBody{streamed, idle}}))
			read := make(chan error, 1)
			s.next = func(w http.ResponseWriter, r *http.Request) error {
				_, _ = io.ReadFull(r.Body, make([]byte, 1))
				_, _ = w.Write(make([]byte, piece))
				_ = http.NewResponseController(w).Flush()
				_, err := io.Copy(io.Discard, r.Body)
				read <- err
				_, err = w.Write(make([]byte, piece))
				return err
			}
			c := s.wire(t)
			c.write("POST / HTTP/1.1\nHost: a\n" + head + "\n\n")
			body := strings.Repeat("x", piece)
			if name == "chunked" {
				body = fmt.Sprintf("%x\r\n%s\r\n", piece, body)
			}
			for range pieces {
				_, _ = io.WriteString(c.Conn, body)
			}
			if name == "chunked" {
				_, _ = io.WriteString(c.Conn, "0\r\n\r\n")
			}
			if res := c.whole(http.MethodPost); res.StatusCode != http.StatusOK || len(res.body) != 2*piece || res.err != nil {
				t.Errorf("got status %d, %d bytes, %v", res.StatusCode, len(res.body), res.err)
			}
			if err := within(t, "the read", read); !errors.Is(err, http.ErrBodyReadAfterClose) {
				t.Errorf("got %v from the body", err)
			}
			check()
			s.idle(t)
		})
	}
}

// A refusal doesn't cost the connection if all of the body was read.
func TestRefusalKeepsTheConnection(t *testing.T) {
	refuses := func(*Exchange, *Chunk) (Action, error) {
		return Continue, Reject(http.StatusUnprocessableEntity, errTest)
	}
	for name, tc := range map[string]struct {
		wish   Wish
		body   string
		closes bool
	}{
		"read to its end":      {rewrite, "hello", false},
		"a stream, to its end": {streamed, "hello", false},
		"refused before it":    {streamed, "he", true},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSite(t, newHandler(t, entry{name: "f", requestBody: onRequestBody{tc.wish, refuses}}))
			c := s.wire(t)
			c.write("POST / HTTP/1.1\nHost: a\nContent-Length: 5\n\n" + tc.body)
			if res := c.whole(http.MethodPost); res.StatusCode != http.StatusUnprocessableEntity || res.Close != tc.closes {
				t.Errorf("got status %d, close %v", res.StatusCode, res.Close)
			}
		})
	}
}

// An answer for want of memory is complete at once, whatever the handler in whose answer's place it comes still does.
func TestBudgetAnswersAtOnce(t *testing.T) {
	s := newSiteBoth(t, newHandler(t, entry{name: "f", responseBody: onResponseBody{buffered, idle}}))
	s.handler.budget.Limit = 1 << 10
	goOn := make(chan struct{})
	s.next = func(w http.ResponseWriter, _ *http.Request) error {
		_, err := w.Write(make([]byte, 4000))
		<-goOn
		return err
	}
	byVersion(t, func(t *testing.T, client *http.Client) {
		res, err := client.Do(s.request(t, http.MethodGet, ""))
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		if res.StatusCode != http.StatusServiceUnavailable || res.ContentLength != 0 || res.Header.Get("Retry-After") == "" {
			t.Errorf("got status %d, length %d, %v", res.StatusCode, res.ContentLength, res.Header)
		}
		goOn <- struct{}{}
	})
	s.idle(t)
}

// inFront returns a handler that passes requests to another one, and this to a backend that reads the body.
func inFront(t *testing.T, outer, inner *Handler) *site {
	t.Helper()
	s := newSiteBoth(t, outer)
	s.next = func(w http.ResponseWriter, r *http.Request) error {
		return inner.ServeHTTP(w, r, caddyhttp.HandlerFunc(answer))
	}
	return s
}

// Of two pipelines in a row the shorter body_timeout counts, and the client that is too slow counts once.
func TestTimeoutOfTwoPipelines(t *testing.T) {
	const short, long = 100 * time.Millisecond, 10 * sites.Patience
	for name, timeouts := range map[string][2]time.Duration{"the first": {short, long}, "the second": {long, short}} {
		t.Run(name, func(t *testing.T) {
			check := watchCounts(t)
			outer := newHandler(t, entry{name: "out", requestBody: onRequestBody{streamed, idle}})
			inner := newHandler(t, entry{name: "in", requestBody: onRequestBody{buffered, idle}})
			outer.BodyTimeout, inner.BodyTimeout = caddy.Duration(timeouts[0]), caddy.Duration(timeouts[1])
			s := inFront(t, outer, inner)
			c := s.wire(t)
			c.write("POST / HTTP/1.1\nHost: a\nContent-Length: 10\n\nabc")
			if res := c.whole(http.MethodPost); res.StatusCode != http.StatusRequestTimeout {
				t.Errorf("got status %d", res.StatusCode)
			}
			s.idle(t)
			check("body_timeout 1")
		})
	}
}

// What the first of two pipelines refuses, while the second one reads, counts once.
func TestTwoPipelinesCountOnce(t *testing.T) {
	refuses := func(_ *Exchange, c *Chunk) (Action, error) {
		if c.End() {
			return Continue, Reject(http.StatusTeapot, errTest)
		}
		return Continue, nil
	}
	for name, wish := range map[string]Wish{"held back": rewrite, "streamed": streamed} {
		t.Run(name, func(t *testing.T) {
			s := inFront(t,
				newHandler(t, entry{name: "out", requestBody: onRequestBody{streamed, refuses}}),
				newHandler(t, entry{name: "in", requestBody: onRequestBody{wish, idle}}))
			byVersion(t, func(t *testing.T, client *http.Client) {
				check := watchCounts(t)
				if res := s.send(t, client, http.MethodPost, "hello", "chunked"); res.StatusCode != http.StatusTeapot {
					t.Errorf("got status %d", res.StatusCode)
				}
				check("filter 1")
			})
			s.idle(t)
		})
	}
}

// A switch of protocols that the connection's header doesn't speak of wasn't asked for, or isn't one.
func TestSwitchNeedsConnection(t *testing.T) {
	for name, tc := range map[string]struct {
		asked, got string
		status     int
	}{
		"both":         {"keep-alive, upgrade", "Upgrade", http.StatusSwitchingProtocols},
		"not asked":    {"keep-alive", "Upgrade", http.StatusBadGateway},
		"not answered": {"Upgrade", "", http.StatusBadGateway},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSite(t, newHandler(t, entry{name: "r", response: onResponse(func(*Exchange) error { return nil })}))
			s.next = func(w http.ResponseWriter, _ *http.Request) error {
				w.Header().Set("Upgrade", "other")
				if tc.got != "" {
					w.Header().Set("Connection", tc.got)
				}
				w.WriteHeader(http.StatusSwitchingProtocols)
				return nil
			}
			c := s.wire(t)
			c.write("GET / HTTP/1.1\nHost: a\nConnection: " + tc.asked + "\nUpgrade: other\n\n")
			if res := c.answer(http.MethodGet); res.StatusCode != tc.status {
				t.Errorf("got %s", res.Status)
			}
		})
	}
}
