package admission

import (
	"maps"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/caddy-sluice/sluice/internal/testkit/counts"
	"github.com/caddy-sluice/sluice/internal/testkit/modules"
	"github.com/caddy-sluice/sluice/modules/sluiceapp"
)

// cutPrefix returns the gate in the name of a counter of refused requests.
func cutPrefix(name string) (string, bool) {
	return strings.CutPrefix(name, "caddy_sluice_admission_requests_rejected_total ")
}

func TestProvision(t *testing.T) {
	for _, tc := range []struct{ config, err string }{
		{`{}`, ""},
		{`{"max_requests":1,"max_requests_per_ip":1,"ipv6_prefix":1}`, ""},
		{`{"max_requests":10000000,"max_requests_per_ip":10000000,"ipv6_prefix":128}`, ""},
		{`{"max_requests":-1}`, "max_requests: -1 is out of range, 1 to 10000000"},
		{`{"max_requests":10000001}`, "max_requests: 10000001 is out of range"},
		{`{"max_requests_per_ip":-1}`, "max_requests_per_ip: -1 is out of range"},
		{`{"max_requests_per_ip":10000001}`, "max_requests_per_ip: 10000001 is out of range, 1 to 10000000"},
		{`{"max_requests_per_ip":1,"ipv6_prefix":-1}`, "ipv6_prefix: -1 is out of range, 1 to 128"},
		{`{"max_requests_per_ip":1,"ipv6_prefix":129}`, "ipv6_prefix: 129 is out of range"},
		{`{"ipv6_prefix":64}`, "ipv6_prefix: has no meaning without max_requests_per_ip"},
	} {
		_, err := modules.Load(t, "http.handlers.admission", tc.config)
		if (err == nil) != (tc.err == "") || err != nil && !strings.Contains(err.Error(), tc.err) {
			t.Errorf("%s: got error %v, want one with %q", tc.config, err, tc.err)
		}
	}
	if got := load(t, `{}`, `{}`).IPv6Prefix; got != 64 {
		t.Errorf("got prefix %d, want 64", got)
	}
}

func TestUnmarshalCaddyfile(t *testing.T) {
	for _, tc := range []struct {
		text string
		want Handler
		err  string
	}{
		{"admission", Handler{}, ""},
		{
			"admission {\nmax_requests 5\nmax_requests_per_ip 2\nipv6_prefix 56\n}",
			Handler{MaxRequests: 5, MaxRequestsPerIP: 2, IPv6Prefix: 56},
			"",
		},
		{"admission 5", Handler{}, `admission takes no argument, got "5"`},
		{"admission {\nmax_requests 0\n}", Handler{}, `max_requests: "0" is not a positive number`},
		{"admission {\nipv6_prefix 129\n}", Handler{}, `ipv6_prefix: "129" is out of range, 1 to 128`},
		{"admission {\nmax_requests 1\nmax_requests 1\n}", Handler{}, "max_requests is given twice"},
		{"admission {\nmax_connections 1\n}", Handler{}, `unrecognized option "max_connections"`},
	} {
		var h Handler
		err := h.UnmarshalCaddyfile(caddyfile.NewTestDispenser(tc.text))
		if (err == nil) != (tc.err == "") || err != nil && !strings.Contains(err.Error(), tc.err) {
			t.Errorf("%q: got error %v, want one with %q", tc.text, err, tc.err)
		}
		if err == nil && (h.MaxRequests != tc.want.MaxRequests || h.MaxRequestsPerIP != tc.want.MaxRequestsPerIP || h.IPv6Prefix != tc.want.IPv6Prefix) {
			t.Errorf("%q: got %+v, want %+v", tc.text, &h, &tc.want)
		}
	}
}

// request is one as Caddy's server prepares it.
func request(web *caddyhttp.Server, client string) *http.Request {
	r := httptest.NewRequest(http.MethodGet, "/", http.NoBody)
	r = caddyhttp.PrepareRequest(r, caddy.NewReplacer(), nil, web)
	caddyhttp.SetVar(r.Context(), caddyhttp.ClientIPVarKey, client)
	return r
}

// TestClients checks who is one client.
func TestClients(t *testing.T) {
	h := load(t, `{}`, `{"max_requests_per_ip":1,"ipv6_prefix":48}`)
	for _, tc := range []struct {
		first, second string
		shared        bool
	}{
		{"192.0.2.1", "192.0.2.1", true},
		{"192.0.2.1", "::ffff:192.0.2.1", true},
		{"192.0.2.1", "192.0.2.2", false},
		{"2001:db8:1::1", "2001:db8:1:9::1", true},
		{"2001:db8:1::1", "2001:db8:2::1", false},
		{"", "", false}, // on a unix socket
		{"@", "@", false},
	} {
		status := 0
		first := caddyhttp.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) error {
			rec := httptest.NewRecorder()
			err := h.ServeHTTP(rec, request(new(caddyhttp.Server), tc.second), ok)
			status = rec.Code
			return err
		})
		if err := h.ServeHTTP(httptest.NewRecorder(), request(new(caddyhttp.Server), tc.first), first); err != nil {
			t.Fatal(err)
		}
		if got := status == http.StatusServiceUnavailable; got != tc.shared || status == 0 {
			t.Errorf("%q, %q: got status %d, shared %v, want %v", tc.first, tc.second, status, got, tc.shared)
		}
	}
	held(t, 0)
}

// ok is a next handler.
var ok = caddyhttp.HandlerFunc(func(http.ResponseWriter, *http.Request) error { return nil })

// TestTwoHandlers checks that a request which comes through two of them is one for the process, and two for a limit that
// they share.
func TestTwoHandlers(t *testing.T) {
	ctx := provision(t, `{"admission":{"max_requests":1}}`)
	var handlers [2]*Handler
	for i, config := range []string{`{}`, `{"max_requests":1}`} {
		loaded, err := ctx.LoadModuleByID("http.handlers.admission", []byte(config))
		if err != nil {
			t.Fatal(err)
		}
		handlers[i] = loaded.(*Handler)
	}
	reached, rec := false, httptest.NewRecorder()
	r := request(new(caddyhttp.Server), "192.0.2.1")
	inner := caddyhttp.HandlerFunc(func(w http.ResponseWriter, r *http.Request) error {
		return handlers[1].ServeHTTP(w, r, caddyhttp.HandlerFunc(func(http.ResponseWriter, *http.Request) error {
			reached = true
			held(t, 1)
			return nil
		}))
	})
	for range 2 { // the second time, nothing of the first is left
		reached = false
		if err := handlers[0].ServeHTTP(rec, r, inner); err != nil || !reached {
			t.Errorf("got %v, status %d", err, rec.Code)
		}
	}
	held(t, 0)
}

// TestErrorRoutes checks that a refusal goes through handle_errors where there is one, and is no error otherwise.
func TestErrorRoutes(t *testing.T) {
	for _, tc := range []struct {
		name   string
		errors *caddyhttp.HTTPErrorConfig
		status int
	}{
		{"none", nil, 0},
		{"empty", new(caddyhttp.HTTPErrorConfig), 0},
		{"some", &caddyhttp.HTTPErrorConfig{Routes: caddyhttp.RouteList{{}}}, http.StatusServiceUnavailable},
	} {
		h := load(t, `{}`, `{"max_requests":1}`)
		rec := httptest.NewRecorder()
		err := h.ServeHTTP(httptest.NewRecorder(), request(new(caddyhttp.Server), ""), caddyhttp.HandlerFunc(func(http.ResponseWriter, *http.Request) error {
			return h.ServeHTTP(rec, request(&caddyhttp.Server{Errors: tc.errors}, ""), ok)
		}))
		failed, _ := err.(caddyhttp.HandlerError)
		if failed.StatusCode != tc.status || tc.status == 0 && rec.Code != http.StatusServiceUnavailable || rec.Header().Get("Retry-After") != "1" {
			t.Errorf("%s: got %v, status %d, Retry-After %q", tc.name, err, rec.Code, rec.Header().Get("Retry-After"))
		}
	}
}

// TestH03_Memory checks that a process which is too large refuses, and says that it takes a while.
func TestH03_Memory(t *testing.T) {
	h := load(t, `{"admission":{"memory_limit":"16MiB"}}`, `{}`)
	ballast := make([]byte, 32<<20)
	for i := range ballast {
		ballast[i] = 1
	}
	before, rec := counts.Of(t, sluiceapp.Register), httptest.NewRecorder()
	if err := h.ServeHTTP(rec, request(new(caddyhttp.Server), "192.0.2.1"), ok); err != nil {
		t.Fatal(err)
	}
	if rec.Code != http.StatusServiceUnavailable || rec.Header().Get("Retry-After") != "5" || rec.Body.Len() > 0 {
		t.Errorf("got %d, Retry-After %q, %q", rec.Code, rec.Header().Get("Retry-After"), rec.Body)
	}
	if got := refusals(t, before); !maps.Equal(got, counts.Counts{"memory": 1}) {
		t.Errorf("got refusals %v", got)
	}
	if ballast[len(ballast)-1] != 1 {
		t.Error("the ballast is gone")
	}
}

// TestInACrowd has many requests come and go at once, and checks that never more than the limit are in, and that all
// places are free afterwards.
func TestInACrowd(t *testing.T) {
	const limit = 3
	h := load(t, `{"admission":{"max_requests":5}}`, `{"max_requests":4,"max_requests_per_ip":3}`)
	var inside, in, out atomic.Int64
	next := caddyhttp.HandlerFunc(func(http.ResponseWriter, *http.Request) error {
		if got := inside.Add(1); got > limit {
			t.Errorf("got %d inside, want %d at most", got, limit)
		}
		in.Add(1)
		inside.Add(-1)
		if in.Load()%7 == 0 {
			panic(http.ErrAbortHandler)
		}
		return nil
	})
	once := func(r *http.Request) {
		defer func() { _ = recover() }()
		rec := httptest.NewRecorder()
		if err := h.ServeHTTP(rec, r, next); err != nil {
			t.Error(err)
		}
		if rec.Code == http.StatusServiceUnavailable {
			out.Add(1)
		}
	}
	var done sync.WaitGroup
	for range 16 {
		done.Go(func() {
			for range 300 {
				once(request(new(caddyhttp.Server), "192.0.2.1"))
			}
		})
	}
	done.Wait()
	if in.Load()+out.Load() != 16*300 || in.Load() == 0 {
		t.Errorf("got %d in and %d out, want %d", in.Load(), out.Load(), 16*300)
	}
	held(t, 0)
	if err := h.ServeHTTP(httptest.NewRecorder(), request(new(caddyhttp.Server), "192.0.2.1"), ok); err != nil {
		t.Error(err)
	}
}

// quiet is a writer that does nothing.
type quiet struct{}

func (quiet) Header() http.Header         { return nil }
func (quiet) Write(p []byte) (int, error) { return len(p), nil }
func (quiet) WriteHeader(int)             {}

// TestAllocations checks that a request which is let in costs no memory.
func TestAllocations(t *testing.T) {
	h := load(t, `{"admission":{"max_requests":10}}`, `{"max_requests":10,"max_requests_per_ip":10}`)
	r, w := request(new(caddyhttp.Server), "2001:db8::1"), http.ResponseWriter(quiet{})
	if n := testing.AllocsPerRun(1000, func() { _ = h.ServeHTTP(w, r, ok) }); n > 0.1 { // counting open files, now and then, allocates
		t.Errorf("got %v allocations, want 0", n)
	}
}

func BenchmarkHandler(b *testing.B) {
	h := load(b, `{"admission":{"max_requests":10}}`, `{"max_requests":10,"max_requests_per_ip":10}`)
	r, w := request(new(caddyhttp.Server), "2001:db8::1"), http.ResponseWriter(quiet{})
	b.ReportAllocs()
	for b.Loop() {
		_ = h.ServeHTTP(w, r, ok)
	}
}
