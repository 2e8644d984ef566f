package pipeline

import (
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/caddy-sluice/sluice/internal/testkit/sites"
)

// swallow is the hook of a filter that lets nothing go on before the end.
func swallow(_ *Exchange, c *Chunk) (Action, error) {
	if !c.End() {
		c.Replace(nil)
	}
	return Continue, nil
}

// inRow returns two handlers, of which the first one lets nothing go on before the end, with their timeouts.
func inRow(t testing.TB, first, second time.Duration, more ...entry) (outer, inner *Handler) {
	t.Helper()
	outer = newHandler(t, append(more, entry{name: "out", requestBody: onRequestBody{writing, swallow}})...)
	inner = newHandler(t, entry{name: "in", requestBody: onRequestBody{streamed, idle}})
	outer.BodyTimeout, inner.BodyTimeout = caddy.Duration(first), caddy.Duration(second)
	return outer, inner
}

// behind has a site pass requests on to another handler.
func (s *site) behind(inner *Handler, next caddyhttp.HandlerFunc) {
	s.next = func(w http.ResponseWriter, r *http.Request) error { return inner.ServeHTTP(w, r, next) }
}

// A client that sends something all the time isn't cut off where the first of two handlers lets nothing of it go on.
func TestSlowIsNoStallInARow(t *testing.T) {
	for name, timeouts := range map[string][2]time.Duration{
		"equal": {ampleTimeout, ampleTimeout}, "first longer": {time.Hour, ampleTimeout}, "second longer": {ampleTimeout, time.Hour},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			outer, inner := inRow(t, timeouts[0], timeouts[1])
			s := newSiteBoth(t, outer)
			s.behind(inner, answer)
			byVersion(t, func(t *testing.T, client *http.Client) {
				t.Parallel()
				s.drip(t, client)
			})
		})
	}
}

// Of two handlers the shorter timeout counts, also where the limit of the server stands in for that of the first.
func TestStallInARow(t *testing.T) {
	for name, tc := range map[string]struct{ first, second, server time.Duration }{
		"equal":          {shortTimeout, shortTimeout, 0},
		"first longer":   {time.Hour, shortTimeout, 0},
		"second longer":  {shortTimeout, time.Hour, 0},
		"server between": {time.Hour, shortTimeout, time.Minute},
		"server shorter": {time.Hour, time.Hour, shortTimeout},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			outer, inner := inRow(t, tc.first, tc.second)
			s := prepareSite(outer)
			s.behind(inner, answer)
			s.Server = httptest.NewUnstartedServer(s)
			s.Config.ReadTimeout = tc.server
			s.Start()
			defer s.Close()
			c := s.wire(t)
			start := time.Now()
			c.write("POST / HTTP/1.1\nHost: a\nContent-Length: 10\n\nabc")
			res := c.whole(http.MethodPost)
			if took := time.Since(start); res.StatusCode != http.StatusRequestTimeout || !res.Close || took < shortTimeout-moment || took > sites.Patience/2 {
				t.Errorf("got status %d, close %v after %v", res.StatusCode, res.Close, took)
			}
			c.closed()
			s.idle(t)
		})
	}
}

// An answer that the first of two handlers holds back hasn't reached the client: that handler waits no longer for it.
func TestStallInARowAnswerHeld(t *testing.T) {
	outer, inner := inRow(t, shortTimeout, shortTimeout, entry{name: "held", responseBody: onResponseBody{buffered, idle}})
	s := newSite(t, outer)
	s.behind(inner, func(w http.ResponseWriter, r *http.Request) error {
		read := make(chan error, 1)
		go func() { _, err := io.ReadAll(r.Body); read <- err }()
		eventually(t, "it waits", func() bool {
			b := r.Body.(*requestBody)
			b.x.mu.Lock()
			defer b.x.mu.Unlock()
			return !b.deadline().IsZero()
		})
		_, _ = io.WriteString(w, "ok")
		_ = http.NewResponseController(w).Flush()
		return within(t, "the end of the body", read)
	})
	c := s.wire(t)
	c.write("POST / HTTP/1.1\nHost: a\nContent-Length: 10\n\nabc")
	// The second one takes its answer for sent, and breaks it off. The first one knows better.
	if res := c.whole(http.MethodPost); res.StatusCode != http.StatusRequestTimeout || !res.Close {
		t.Errorf("got status %d, close %v", res.StatusCode, res.Close)
	}
	c.closed()
	s.idle(t)
}
