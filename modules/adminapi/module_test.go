package adminapi

import (
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/caddyserver/caddy/v2"
	"github.com/mholt/caddy-l4/layer4"
	"go.uber.org/zap"

	"github.com/caddy-sluice/sluice/modules/session"
)

// silent is a connection on which nothing happens.
type silent struct{ net.Conn }

func (silent) RemoteAddr() net.Addr { return &net.TCPAddr{IP: net.IPv4(192, 0, 2, 1), Port: 40000} }
func (silent) LocalAddr() net.Addr  { return &net.TCPAddr{IP: net.IPv4(192, 0, 2, 2), Port: 443} }

// enter begins n sessions, which end with the test.
func enter(tb testing.TB, n int) {
	tb.Helper()
	for range n {
		sess := session.Enter(layer4.WrapConnection(silent{}, nil, zap.NewNop()))
		tb.Cleanup(func() { sess.Leave(zap.NewNop()) })
	}
}

// get asks for a list of sessions.
func get(tb testing.TB, query string) *httptest.ResponseRecorder {
	tb.Helper()
	w := httptest.NewRecorder()
	r := httptest.NewRequest(http.MethodGet, pathSessions+query, http.NoBody)
	if err := new(API).sessions(w, r); err != nil {
		tb.Fatal(err)
	}
	return w
}

// TestErrorsHaveAStatus checks that what is refused is an error of Caddy's API: another would be a 500.
func TestErrorsHaveAStatus(t *testing.T) {
	api := new(API)
	for _, tc := range []struct {
		method, path string
		handler      caddy.AdminHandlerFunc
		status       int
	}{
		{http.MethodGet, pathSessions + "?limit=x", api.sessions, http.StatusBadRequest},
		{http.MethodPut, pathSessions, api.sessions, http.StatusMethodNotAllowed},
		{http.MethodGet, pathSession + "x", api.session, http.StatusBadRequest},
		{http.MethodGet, pathSession + "0", api.session, http.StatusNotFound},
		{http.MethodPut, pathHealthy, api.healthy, http.StatusMethodNotAllowed},
	} {
		err := tc.handler(httptest.NewRecorder(), httptest.NewRequest(tc.method, tc.path, http.NoBody))
		var failed caddy.APIError
		if !errors.As(err, &failed) || failed.HTTPStatus != tc.status {
			t.Errorf("%s %s: got %v, want status %d", tc.method, tc.path, err, tc.status)
		}
	}
}

// TestRoutes checks that there is a handler for each path.
func TestRoutes(t *testing.T) {
	got := map[string]bool{}
	for _, route := range new(API).Routes() {
		got[route.Pattern] = route.Handler != nil
	}
	want := []string{pathSessions, pathSession, pathClusters, pathCluster, pathHealthy, pathReady}
	for _, path := range want {
		if !got[path] {
			t.Errorf("%s has no handler", path)
		}
	}
	if len(got) != len(want) {
		t.Errorf("got routes %v, want %v", got, want)
	}
}

// BenchmarkSessions lists a page of 20,000 sessions.
func BenchmarkSessions(b *testing.B) {
	enter(b, 20_000)
	for _, query := range []string{"?limit=100", "?limit=1000", "?client=10.0.0.0/8"} {
		b.Run(query, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				get(b, query)
			}
		})
	}
}

// TestSessionsMany checks that a list of many sessions is whole: each is on one page.
func TestSessionsMany(t *testing.T) {
	enter(t, 250)
	q := &query{limit: 100}
	seen := map[uint64]bool{}
	for pages := 0; ; pages++ {
		p := q.page(session.All())
		for _, s := range p.Sessions {
			seen[s.ID] = true
		}
		if p.Next == "" {
			break
		}
		var err error
		if q.after, err = parseID(p.Next); err != nil || pages > 3 {
			t.Fatalf("page %d: got next %q, %v", pages, p.Next, err)
		}
	}
	if len(seen) != 250 {
		t.Errorf("got %d sessions, want 250", len(seen))
	}
	if w := get(t, ""); w.Header().Get("Content-Type") != "application/json" {
		t.Errorf("got content type %q", w.Header().Get("Content-Type"))
	}
}
