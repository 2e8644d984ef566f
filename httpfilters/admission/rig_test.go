package admission

import (
	"bufio"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"go.uber.org/zap"

	"github.com/caddy-sluice/sluice/internal/testkit/counts"
	"github.com/caddy-sluice/sluice/modules/sluiceapp"
)

// patience is how long a test waits for what must come.
const patience = 10 * time.Second

// provision returns the context of a config that has the app with these settings.
func provision(t testing.TB, app string) caddy.Context {
	t.Helper()
	config := &caddy.Config{
		Admin: &caddy.AdminConfig{Disabled: true},
		Logging: &caddy.Logging{Logs: map[string]*caddy.CustomLog{
			"default": {BaseLog: caddy.BaseLog{WriterRaw: []byte(`{"output":"discard"}`)}},
		}},
		AppsRaw: caddy.ModuleMap{"sluice": []byte(app)},
	}
	base, err := caddy.ProvisionContext(config)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := caddy.NewContext(base)
	t.Cleanup(cancel)
	return ctx
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
	s.Server = httptest.NewUnstartedServer(s)
	s.Config.ErrorLog = zap.NewStdLog(zap.NewNop())
	s.Config.Protocols = new(http.Protocols)
	s.Config.Protocols.SetHTTP1(true)
	s.Config.Protocols.SetUnencryptedHTTP2(true)
	s.Start()
	t.Cleanup(s.Close)
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
	status := http.StatusInternalServerError
	if failed, ok := errors.AsType[caddyhttp.HandlerError](err); ok {
		status = failed.StatusCode
	}
	w.WriteHeader(status)
	_, _ = io.WriteString(w, "from the error routes")
}

// raw is a connection on which a test writes what it likes.
type raw struct {
	net.Conn
	reader *bufio.Reader
}

func (s *site) dial(t testing.TB) *raw {
	t.Helper()
	conn, err := net.Dial("tcp", s.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	if err := conn.SetDeadline(time.Now().Add(patience)); err != nil {
		t.Fatal(err)
	}
	return &raw{conn, bufio.NewReader(conn)}
}

// send writes a request.
func (c *raw) send(t testing.TB, text string) {
	t.Helper()
	if _, err := io.WriteString(c, text); err != nil {
		t.Fatal(err)
	}
}

// want reads an answer and checks its status, and that it says when to come back if it is a refusal.
func (c *raw) want(t testing.TB, status int) *http.Response {
	t.Helper()
	res, err := http.ReadResponse(c.reader, nil)
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
	deadline := time.Now().Add(patience)
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
