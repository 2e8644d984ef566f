package validaterequest

import (
	"errors"
	"io"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/caddy-sluice/sluice/internal/testkit/counts"
	"github.com/caddy-sluice/sluice/internal/testkit/modules"
	"github.com/caddy-sluice/sluice/internal/testkit/sites"
)

// load provisions a handler.
func load(t testing.TB, config string) *Handler {
	t.Helper()
	loaded, err := modules.Load(t, "http.handlers.validate_request", config)
	if err != nil {
		t.Fatal(err)
	}
	return loaded.(*Handler)
}

// seen is a request as the next handler gets it.
type seen struct {
	*http.Request
	body string
	err  error
}

// site is a server with the handler in front of a backend.
type site struct {
	*httptest.Server
	handler *Handler
	logs    *observer.ObservedLogs
	// backend answers; the default one says "ok".
	backend http.HandlerFunc

	// mu guards requests.
	mu       sync.Mutex
	requests []seen
}

// newSite serves a backend behind a handler, by HTTP/1.
func newSite(t testing.TB, config string) *site {
	t.Helper()
	s := prepare(t, config)
	s.Server = sites.Serve(t, s)
	return s
}

// prepare is newSite without the server.
func prepare(t testing.TB, config string) *site {
	t.Helper()
	core, logs := observer.New(zap.DebugLevel)
	s := &site{handler: load(t, config), logs: logs}
	s.handler.logger = zap.New(core)
	return s
}

// ServeHTTP is what Caddy's server does with a request.
func (s *site) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	r = caddyhttp.PrepareRequest(r, caddy.NewReplacer(), w, new(caddyhttp.Server))
	err := s.handler.ServeHTTP(w, r, caddyhttp.HandlerFunc(s.serve))
	if err != nil {
		w.WriteHeader(sites.Status(err))
	}
}

// serve is the next handler.
func (s *site) serve(w http.ResponseWriter, r *http.Request) error {
	body, err := io.ReadAll(r.Body)
	s.mu.Lock()
	s.requests = append(s.requests, seen{r.Clone(r.Context()), string(body), err})
	s.mu.Unlock()
	if s.backend != nil {
		s.backend(w, r)
		return nil
	}
	_, err = io.WriteString(w, "ok")
	return err
}

// taken returns the requests that have come through since the last call.
func (s *site) taken() []seen {
	s.mu.Lock()
	defer s.mu.Unlock()
	got := s.requests
	s.requests = nil
	return got
}

// raw is a connection on which a test writes what it likes.
type raw struct{ *sites.Conn }

func (s *site) dial(t testing.TB) raw {
	t.Helper()
	return raw{sites.Dial(t, s.Server)}
}

// write writes, and takes no notice of an end by the other side, which may come before all is written.
func (c raw) write(text string) { _, _ = io.WriteString(c, text) }

// reply is an answer; its status is 0 if the connection has ended instead.
type reply struct {
	status int
	header http.Header
	body   string
	closes bool
	// trailer has what came behind the body.
	trailer http.Header
}

// read reads the answer to a request of this method.
func (c raw) read(t testing.TB, method string) reply {
	t.Helper()
	res, err := http.ReadResponse(c.Reader, &http.Request{Method: method})
	if err != nil {
		if timeout, ok := errors.AsType[net.Error](err); ok && timeout.Timeout() {
			t.Fatalf("got no answer: %v", err)
		}
		return reply{}
	}
	// A server that closes with bytes unread resets the connection, which may take the end of the body away.
	body, err := io.ReadAll(res.Body)
	if err != nil && !res.Close {
		t.Fatalf("reading the answer: %v", err)
	}
	return reply{res.StatusCode, res.Header, string(body), res.Close, res.Trailer}
}

// exchange sends one request and returns the answer.
func (s *site) exchange(t testing.TB, text string) reply {
	t.Helper()
	c := s.dial(t)
	c.write(text)
	return c.read(t, http.MethodGet)
}

// checkRefusal checks that one request was refused for a reason, or none if the reason is empty: then Go's server did it.
func (s *site) checkRefusal(t testing.TB, before counts.Counts, reason string) {
	t.Helper()
	want := counts.Counts{}
	if reason != "" {
		want["caddy_sluice_validate_request_rejected_total "+reason] = 1
	}
	if got := counts.Of(t, register).Since(before); !maps.Equal(got, want) {
		t.Errorf("metrics: got %v, want %v", got, want)
	}
	lines := s.logs.TakeAll()
	if len(lines) != len(want) {
		t.Fatalf("got %d lines in the log, want %d", len(lines), len(want))
	}
	for _, line := range lines {
		if line.Level != zap.DebugLevel || line.ContextMap()["reason"] != reason {
			t.Errorf("log: got %v, want reason %q", line, reason)
		}
	}
	if got := s.taken(); len(got) > 0 {
		t.Errorf("got %d requests at the backend, want none", len(got))
	}
}
