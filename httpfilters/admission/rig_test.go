package admission

import (
	"io"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/caddy-sluice/sluice/internal/testkit/counts"
	"github.com/caddy-sluice/sluice/internal/testkit/modules"
	"github.com/caddy-sluice/sluice/internal/testkit/sites"
	"github.com/caddy-sluice/sluice/modules/sluiceapp"
)

// provision returns the context of a config that has the app with these settings.
func provision(t testing.TB, app string) caddy.Context {
	t.Helper()
	return modules.ContextOf(t, caddy.ModuleMap{"sluice": []byte(app)})
}

// load provisions a handler, and the app with it.
func load(t testing.TB, app, config string) *Handler {
	t.Helper()
	loaded, err := provision(t, app).LoadModuleByID("http.handlers.admission", []byte(config))
	if err != nil {
		t.Fatal(err)
	}
	return loaded.(*Handler)
}

// site is a server with the handler in front of a backend.
type site struct {
	*httptest.Server
	handler atomic.Pointer[Handler]
	backend http.HandlerFunc
	// client is the address of clients, if it is not the real one.
	client string
	// web is Caddy's server.
	web caddyhttp.Server

	// mu guards failures, which has what the handler returned.
	mu       sync.Mutex
	failures []error
}

// newSite serves a backend behind a handler, by HTTP/1 and HTTP/2.
func newSite(t testing.TB, h *Handler, backend http.HandlerFunc) *site {
	t.Helper()
	s := &site{backend: backend}
	s.handler.Store(h)
	s.Server = sites.ServeBoth(t, s)
	return s
}

// ServeHTTP is what Caddy's server does with a request.
func (s *site) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	r = caddyhttp.PrepareRequest(r, caddy.NewReplacer(), w, &s.web)
	if s.client != "" {
		caddyhttp.SetVar(r.Context(), caddyhttp.ClientIPVarKey, s.client)
	}
	err := s.handler.Load().ServeHTTP(w, r, caddyhttp.HandlerFunc(func(w http.ResponseWriter, r *http.Request) error {
		s.backend(w, r)
		return nil
	}))
	if err == nil {
		return
	}
	s.mu.Lock()
	s.failures = append(s.failures, err)
	s.mu.Unlock()
	w.WriteHeader(sites.Status(err))
	_, _ = io.WriteString(w, "from the error routes")
}

// raw is a connection on which a test writes what it likes.
type raw struct{ *sites.Conn }

func (s *site) dial(t testing.TB) raw {
	t.Helper()
	return raw{sites.Dial(t, s.Server)}
}

// send writes a request.
func (c raw) send(t testing.TB, text string) {
	t.Helper()
	if _, err := io.WriteString(c, text); err != nil {
		t.Fatal(err)
	}
}

// want reads an answer and checks its status, and that it says when to come back if it is a refusal.
func (c raw) want(t testing.TB, status int) *http.Response {
	t.Helper()
	res, err := http.ReadResponse(c.Reader, nil)
	if err != nil {
		t.Fatal(err)
	}
	if status == http.StatusSwitchingProtocols {
		return res
	}
	defer res.Body.Close()
	if _, err := io.Copy(io.Discard, res.Body); err != nil {
		t.Fatal(err)
	}
	if res.StatusCode != status {
		t.Fatalf("got %d, want %d", res.StatusCode, status)
	}
	if refused := status == http.StatusServiceUnavailable; refused != (res.Header.Get("Retry-After") == "1") {
		t.Fatalf("got Retry-After %q with %d", res.Header.Get("Retry-After"), status)
	}
	return res
}

// get is a request for HTTP/1.
const get = "GET / HTTP/1.1\r\nHost: a.example\r\n\r\n"

// held waits until as many requests hold permits.
func held(t testing.TB, want float64) {
	t.Helper()
	deadline := time.Now().Add(sites.Patience)
	for {
		got := counts.Of(t, sluiceapp.Register)["caddy_sluice_admission_requests"]
		if got == want {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("got %v permits held, want %v", got, want)
		}
		time.Sleep(time.Millisecond)
	}
}

// refusals returns how many requests each gate has refused since before.
func refusals(t testing.TB, before counts.Counts) counts.Counts {
	t.Helper()
	got := make(counts.Counts)
	for name, n := range counts.Of(t, sluiceapp.Register).Since(before) {
		if gate, ok := cutPrefix(name); ok {
			got[gate] = n
		}
	}
	return got
}
