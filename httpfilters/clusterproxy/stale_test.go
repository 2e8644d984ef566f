package clusterproxy

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync/atomic"
	"testing"
)

// serves answers requests of a connection, so many at most.
func serves(c net.Conn, most int) {
	in := bufio.NewReader(c)
	for range most {
		r, err := http.ReadRequest(in)
		if err != nil {
			return
		}
		_, _ = io.Copy(io.Discard, r.Body)
		fmt.Fprint(c, "HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nraw")
	}
}

// TestStaleReplay checks that requests which do no harm twice are sent again, even if the endpoint may have seen them, but
// once.
func TestStaleReplay(t *testing.T) {
	for _, tc := range []struct {
		name, method, body string
		settings           object
	}{
		{"Z81_get", "GET", "", nil},
		{"Z81_options_with_a_body", "OPTIONS", "hello", nil},
		{"post_that_the_cluster_tries_again", "POST", "hello", retryAll(nil)},
	} {
		t.Run(tc.name, func(t *testing.T) {
			stale := resetAfter(t, 2)
			s := newSite(t, web([]string{stale.address}, with(tc.settings, object{"passive": object{"fall": 5}})), nil)
			for range 4 {
				s.do(t, tc.method, tc.body).want(t, http.StatusOK)
			}
			if got := failuresOf(t, stale.address); got != 0 {
				t.Errorf("got a streak of %d failures, want 0", got)
			}
			if got := s.placeholder("retries"); got != "0" {
				t.Errorf("got %s retries, want 0", got)
			}
			s.idle(t)
		})
	}
	t.Run("Z82_replay_fails_too", func(t *testing.T) {
		stale := newRaw(t, func(nth int, c net.Conn) {
			if _, _, err := readRequest(c); err != nil || nth > 1 {
				return
			}
			fmt.Fprint(c, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
			_, _, _ = readRequest(c)
		})
		live := newBackend(t, echo)
		s := newSite(t, web([]string{stale.address, live.address}, retryAll(nil)), nil)
		s.do(t, "POST", "1").want(t, http.StatusOK)
		s.do(t, "POST", "2").want(t, http.StatusOK)
		if got, want := s.placeholder("attempts")+s.placeholder("retries"), "31"; got != want {
			t.Errorf("got attempts and retries %s, want %s", got, want)
		}
		if got := stale.accepted.Load(); got != 2 {
			t.Errorf("got %d connections, want 2: one replay", got)
		}
	})
}

// TestDoneOnce checks that a request which changes something isn't sent again when the endpoint has got it over a pooled
// connection, however it ends that: the client is told, and the endpoint has the blame.
func TestDoneOnce(t *testing.T) {
	for _, h2 := range []bool{false, true} {
		for _, body := range []string{"", "charge 100 EUR"} {
			t.Run(fmt.Sprintf("http2_%v_body_%d", h2, len(body)), func(t *testing.T) {
				var done atomic.Int32
				handler := func(_ http.ResponseWriter, r *http.Request) {
					if _, err := io.ReadAll(r.Body); err == nil && r.Method == http.MethodPost {
						done.Add(1)
						panic(http.ErrAbortHandler)
					}
				}
				b := secure(t, h2, handler)
				set := object{"passive": object{"fall": 9}, "tls": object{"insecure_skip_verify": true}}
				s := newSite(t, web([]string{b.address}, set), nil)
				doneOnce(t, s, b.address, body, done.Load)
			})
		}
	}
	t.Run("closed", func(t *testing.T) { doneOnceRaw(t, func(net.Conn) {}) })
	t.Run("reset", func(t *testing.T) { doneOnceRaw(t, func(c net.Conn) { _ = c.(*net.TCPConn).SetLinger(0) }) })
}

// doneOnceRaw has an endpoint that does what a POST wants and ends the connection then.
func doneOnceRaw(t *testing.T, end func(net.Conn)) {
	t.Helper()
	var done atomic.Int32
	b := newRaw(t, func(_ int, c net.Conn) {
		serves(c, 1)
		if _, body, err := readRequest(c); err == nil && len(body) > 0 {
			done.Add(1)
			end(c)
		}
	})
	s := newSite(t, web([]string{b.address}, object{"passive": object{"fall": 9}}), nil)
	doneOnce(t, s, b.address, "charge 100 EUR", done.Load)
}

// doneOnce makes a request that leaves a connection in the pool, and a POST.
func doneOnce(t *testing.T, s *site, address, body string, done func() int32) {
	t.Helper()
	s.get(t).want(t, http.StatusOK)
	s.do(t, "POST", body).want(t, http.StatusBadGateway)
	if got := done(); got != 1 {
		t.Errorf("got it done %d times, want once", got)
	}
	if got := failuresOf(t, address); got != 1 {
		t.Errorf("got a streak of %d failures, want 1", got)
	}
	if got := s.placeholder("replayed") + s.placeholder("attempts"); got != "false1" {
		t.Errorf("got replayed and attempts %s, want false1", got)
	}
	s.idle(t)
	s.unused(t)
}
