package admission

import (
	"context"
	"fmt"
	"io"
	"maps"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/caddy-sluice/sluice/internal/testkit/counts"
	"github.com/caddy-sluice/sluice/internal/testkit/sites"
	"github.com/caddy-sluice/sluice/modules/sluiceapp"
)

// gate lets requests wait for the test, which lets them go one by one.
func gate() (backend http.HandlerFunc, release func()) {
	turn := make(chan struct{})
	backend = func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/free" {
			return
		}
		select {
		case <-turn:
		case <-r.Context().Done():
		case <-time.After(sites.Patience):
		}
	}
	return backend, func() { turn <- struct{}{} }
}

// TestLimits fills each gate on real connections, and checks that a place which was left can be taken again, on the same
// connections.
func TestLimits(t *testing.T) {
	for _, tc := range []struct{ name, app, config, gate string }{
		{"H01_server", `{}`, `{"max_requests":2}`, "listener"},
		{"H01_process", `{"admission":{"max_requests":2}}`, `{}`, "process"},
		{"H01_client", `{}`, `{"max_requests_per_ip":2}`, "source_ip"},
		{"H04_process_first", `{"admission":{"max_requests":2}}`, `{"max_requests":2,"max_requests_per_ip":2}`, "process"},
		{"server_before_client", `{}`, `{"max_requests":2,"max_requests_per_ip":2}`, "listener"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			backend, release := gate()
			s := newSite(t, load(t, tc.app, tc.config), backend)
			before := counts.Of(t, sluiceapp.Register)
			a, b, c := s.dial(t), s.dial(t), s.dial(t)
			a.send(t, get)
			held(t, 1)
			b.send(t, get)
			held(t, 2)
			for range 2 {
				c.send(t, get)
				c.want(t, http.StatusServiceUnavailable)
			}
			if got := refusals(t, before); !maps.Equal(got, counts.Counts{tc.gate: 2}) {
				t.Errorf("got refusals %v, want 2 of %s", got, tc.gate)
			}
			release()
			held(t, 1)
			c.send(t, get) // H02: the place is free
			held(t, 2)
			release()
			release()
			for _, conn := range []raw{a, b, c} {
				conn.want(t, http.StatusOK)
			}
			held(t, 0)
			if len(s.failures) > 0 {
				t.Errorf("got errors %v", s.failures)
			}
		})
	}
}

// TestBodyIsNotRead checks that the body of a refused request is left alone, that no 100 is sent for it, and that the
// connection can be used again if the body was short.
func TestBodyIsNotRead(t *testing.T) {
	backend, release := gate()
	s := newSite(t, load(t, `{}`, `{"max_requests":1}`), backend)
	a, b := s.dial(t), s.dial(t)
	a.send(t, get)
	held(t, 1)
	b.send(t, "POST / HTTP/1.1\r\nHost: a.example\r\nContent-Length: 5\r\n\r\nhello")
	b.want(t, http.StatusServiceUnavailable)
	b.send(t, "POST / HTTP/1.1\r\nHost: a.example\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nab\r\n0\r\n\r\n")
	b.want(t, http.StatusServiceUnavailable)
	// Nothing of this body comes, and the answer doesn't wait for it.
	b.send(t, "POST / HTTP/1.1\r\nHost: a.example\r\nContent-Length: 1000000\r\nExpect: 100-continue\r\n\r\n")
	b.want(t, http.StatusServiceUnavailable)
	release()
	a.want(t, http.StatusOK)
	held(t, 0)
}

// TestH05_ClientAbort checks that a client which leaves in the middle of its body gives its place back.
func TestH05_ClientAbort(t *testing.T) {
	s := newSite(t, load(t, `{}`, `{"max_requests":1}`), func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
	})
	a := s.dial(t)
	a.send(t, "POST / HTTP/1.1\r\nHost: a.example\r\nContent-Length: 100\r\n\r\nhalf")
	held(t, 1)
	a.Close()
	held(t, 0)
	b := s.dial(t)
	b.send(t, get)
	b.want(t, http.StatusOK)
}

// TestPanic checks that an aborted request gives its place back.
func TestPanic(t *testing.T) {
	s := newSite(t, load(t, `{"admission":{"max_requests":1}}`, `{"max_requests":1,"max_requests_per_ip":1}`), func(http.ResponseWriter, *http.Request) {
		panic(http.ErrAbortHandler)
	})
	for range 3 {
		a := s.dial(t)
		a.send(t, get)
		if _, err := a.Reader.ReadByte(); err == nil {
			t.Fatal("got an answer, want an end")
		}
		held(t, 0)
	}
}

// TestUpgrade checks that an upgraded connection counts until it is closed.
func TestUpgrade(t *testing.T) {
	s := newSite(t, load(t, `{}`, `{"max_requests":1}`), func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Upgrade") == "" {
			return
		}
		w.Header().Set("Connection", "Upgrade")
		w.Header().Set("Upgrade", "websocket")
		w.WriteHeader(http.StatusSwitchingProtocols)
		conn, _, err := http.NewResponseController(w).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		defer conn.Close()
		_, _ = io.Copy(conn, conn)
	})
	a, b := s.dial(t), s.dial(t)
	a.send(t, "GET / HTTP/1.1\r\nHost: a.example\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n")
	a.want(t, http.StatusSwitchingProtocols)
	a.send(t, "hello\n")
	if got, err := a.Reader.ReadString('\n'); got != "hello\n" {
		t.Fatalf("got %q, %v", got, err)
	}
	held(t, 1)
	b.send(t, get)
	b.want(t, http.StatusServiceUnavailable)
	a.Close()
	held(t, 0)
	b.send(t, get)
	b.want(t, http.StatusOK)
}

// TestReload checks that requests which a config has let in count under the next one, also if its limit is lower.
func TestReload(t *testing.T) {
	backend, release := gate()
	s := newSite(t, load(t, `{}`, `{"max_requests":3,"max_requests_per_ip":3}`), backend)
	a, b, c := s.dial(t), s.dial(t), s.dial(t)
	a.send(t, get)
	held(t, 1)
	b.send(t, get)
	held(t, 2)
	for _, config := range []string{`{"max_requests":1}`, `{"max_requests_per_ip":2}`} {
		s.handler.Store(load(t, `{}`, config))
		c.send(t, get)
		c.want(t, http.StatusServiceUnavailable)
	}
	release()
	held(t, 1)
	c.send(t, get)
	held(t, 2)
	release()
	release()
	held(t, 0)
}

// TestHTTP2 checks that requests of one connection count each for itself, that a refused stream leaves the others alone,
// and that a stream which is reset gives its place back.
func TestHTTP2(t *testing.T) {
	backend, release := gate()
	s := newSite(t, load(t, `{}`, `{"max_requests":1}`), backend)
	transport := &http.Transport{Protocols: new(http.Protocols)}
	transport.Protocols.SetUnencryptedHTTP2(true)
	defer transport.CloseIdleConnections()
	client := &http.Client{Transport: transport, Timeout: sites.Patience}
	fetch := func(ctx context.Context, method, body string) (string, error) {
		r, err := http.NewRequestWithContext(ctx, method, s.URL, strings.NewReader(body))
		if err != nil {
			return "", err
		}
		res, err := client.Do(r)
		if err != nil {
			return "", err
		}
		defer res.Body.Close()
		return fmt.Sprint(res.Proto, " ", res.StatusCode, " ", res.Header.Get("Retry-After")), nil
	}
	first := make(chan string, 1)
	go func() {
		got, err := fetch(t.Context(), http.MethodGet, "")
		first <- fmt.Sprint(got, err)
	}()
	held(t, 1)
	for range 3 {
		if got, err := fetch(t.Context(), http.MethodPost, "hello"); err != nil || got != "HTTP/2.0 503 1" {
			t.Fatalf("got %q, %v", got, err)
		}
	}
	release()
	if got := <-first; got != "HTTP/2.0 200 <nil>" {
		t.Errorf("the first request: got %q", got)
	}
	held(t, 0)
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		got, err := fetch(ctx, http.MethodGet, "")
		first <- fmt.Sprint(got, err)
	}()
	held(t, 1)
	cancel()
	held(t, 0)
	if got := <-first; !strings.Contains(got, context.Canceled.Error()) {
		t.Errorf("the request that was cancelled: got %q", got)
	}
}

// TestClientIsCaddys checks that the client is the one that Caddy says, not the peer.
func TestClientIsCaddys(t *testing.T) {
	backend, release := gate()
	s := newSite(t, load(t, `{}`, `{"max_requests_per_ip":1}`), backend)
	s.client = "192.0.2.1"
	a, b := s.dial(t), s.dial(t)
	a.send(t, get)
	held(t, 1)
	b.send(t, get)
	b.want(t, http.StatusServiceUnavailable)
	s.client = "192.0.2.2"
	b.send(t, "GET /free HTTP/1.1\r\nHost: a.example\r\n\r\n")
	b.want(t, http.StatusOK)
	release()
	a.want(t, http.StatusOK)
}
