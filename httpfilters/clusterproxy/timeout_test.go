package clusterproxy

import (
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"
)

const (
	// tick is a timeout that a test waits for.
	tick = 60 * time.Millisecond
	// ample is a timeout in which an endpoint that doesn't hang has answered, on a busy machine too.
	ample = time.Second
)

// with returns settings on top of others.
func with(base, more object) object {
	all := maps.Clone(base)
	if all == nil {
		all = object{}
	}
	maps.Copy(all, more)
	return all
}

// silent is an endpoint that takes requests and says nothing, until it is left or the test ends.
func silent(t testing.TB) *backend {
	t.Helper()
	release := make(chan struct{})
	b := newBackend(t, func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		select {
		case <-r.Context().Done():
		case <-release:
		}
	})
	t.Cleanup(func() { close(release) })
	return b
}

func TestPerTryTimeout(t *testing.T) {
	settings := with(retryAll(object{"max": 1}), object{"per_try_timeout": int64(tick), "passive": object{"fall": 9}})
	patient := with(settings, object{"per_try_timeout": int64(ample)})
	t.Run("Z75_Z86_Z87_silent_endpoint", func(t *testing.T) {
		quiet := silent(t)
		s := newSite(t, web([]string{quiet.address}, settings), nil)
		start := time.Now()
		s.get(t).want(t, http.StatusGatewayTimeout)
		if took := time.Since(start); took < 2*tick {
			t.Errorf("took %v, want two tries of %v", took, tick)
		}
		if got := failuresOf(t, quiet.address); got != 2 {
			t.Errorf("got a streak of %d failures, want 2", got)
		}
		if got := s.placeholder("failure"); got != "timeout" {
			t.Errorf("got failure %s, want timeout", got)
		}
		s.idle(t)
	})
	t.Run("D82_another_endpoint", func(t *testing.T) {
		live := newBackend(t, echo)
		s := newSite(t, web([]string{silent(t).address, live.address}, patient), nil)
		if r := s.do(t, "POST", "hello"); r.status != http.StatusOK || r.body != "POST hello" {
			t.Errorf("got %d %q", r.status, r.body)
		}
	})
	t.Run("Z76_H109_slow_body", func(t *testing.T) {
		slow := newBackend(t, func(w http.ResponseWriter, _ *http.Request) {
			for range 4 {
				fmt.Fprint(w, "slow")
				_ = http.NewResponseController(w).Flush()
				time.Sleep(ample / 2) // the endpoint takes longer than one try may
			}
		})
		s := newSite(t, web([]string{slow.address}, patient), nil)
		if r := s.get(t); r.err != nil || r.body != "slowslowslowslow" {
			t.Errorf("got %q, %v", r.body, r.err)
		}
		s.idle(t)
	})
	t.Run("Z77_stalled_handshake", func(t *testing.T) {
		stalled := newRaw(t, func(_ int, c net.Conn) { _, _ = io.Copy(io.Discard, c) })
		tls := with(settings, object{"tls": object{"handshake_timeout": int64(2 * tick)}})
		s := newSite(t, web([]string{stalled.address}, tls), nil)
		s.get(t).want(t, http.StatusGatewayTimeout)
		if got := failuresOf(t, stalled.address); got != 2 {
			t.Errorf("got a streak of %d failures, want 2", got)
		}
		s.idle(t)
	})
	t.Run("Z84_pooled_connection", func(t *testing.T) {
		quiet := newBackend(t, func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path != "/fast" {
				<-r.Context().Done()
			}
		})
		s := newSite(t, web([]string{quiet.address}, patient), nil)
		s.send(t, s.request(t, "GET", "/fast", "")).want(t, http.StatusOK)
		s.get(t).want(t, http.StatusGatewayTimeout)
		if got := s.placeholder("replayed"); got != "false" {
			t.Errorf("got replayed %s, want false", got)
		}
	})
}

// TestOnlyRetriesAreTimed checks that a request whose method isn't tried again isn't given up either.
func TestOnlyRetriesAreTimed(t *testing.T) {
	slow := newBackend(t, func(http.ResponseWriter, *http.Request) {
		time.Sleep(3 * tick) // the endpoint takes longer than one try may
	})
	s := newSite(t, web([]string{slow.address}, object{"per_try_timeout": int64(tick)}), nil)
	s.do(t, "POST", "hello").want(t, http.StatusOK)
	s.get(t).want(t, http.StatusGatewayTimeout)
	s.idle(t)
}

// TestSlowClientIsNotTimed checks that the time for an attempt isn't the client's, and that the endpoint's begins with the end of
// the body.
func TestSlowClientIsNotTimed(t *testing.T) {
	for _, live := range []bool{true, false} {
		t.Run(fmt.Sprintf("endpoint_answers_%v", live), func(t *testing.T) {
			b := silent(t)
			if live {
				b = newBackend(t, echo)
			}
			s := newSite(t, web([]string{b.address}, with(retryAll(object{"max": 1}), object{
				"per_try_timeout": int64(ample), "passive": object{"fall": 9},
			})), nil)
			c := s.stall(t, "POST", half, "abcde")
			time.Sleep(ample + tick) // the client takes longer than one try may
			fmt.Fprint(c, "fghij")
			status, failures := http.StatusOK, 0
			if !live {
				status, failures = http.StatusGatewayTimeout, 2
			}
			answered(t, c.Reader).want(t, status)
			if got := failuresOf(t, b.address); got != failures {
				t.Errorf("got a streak of %d failures, want %d", got, failures)
			}
			s.idle(t)
		})
	}
}

// TestStreamingIsNotTimed checks that an attempt which can't be repeated isn't given up: it would help nobody.
func TestStreamingIsNotTimed(t *testing.T) {
	settings := object{"per_try_timeout": int64(ample), "retry": object{"max": 1, "body_limit": 4}}
	b := newBackend(t, echo)
	s := newSite(t, web([]string{b.address}, settings), nil)
	t.Run("Z78_longer_than_what_is_kept", func(t *testing.T) {
		body, client := io.Pipe()
		go func() {
			fmt.Fprint(client, "first")
			time.Sleep(ample + tick) // the client takes longer than one try may
			fmt.Fprint(client, " second")
			_ = client.Close()
		}()
		r := s.request(t, "POST", "/", "")
		r.Body, r.ContentLength = body, -1
		if got := s.send(t, r); got.err != nil || got.body != "POST first second" {
			t.Errorf("got %q, %v", got.body, got.err)
		}
	})
}

func TestRequestTimeout(t *testing.T) {
	settings := with(retryAll(nil), object{"per_try_timeout": int64(ample), "request_timeout": int64(3 * ample / 2), "passive": object{"fall": 9}})
	t.Run("Z79_H117_over", func(t *testing.T) {
		quiet := silent(t)
		s := newSite(t, web([]string{quiet.address}, settings), nil)
		// The second attempt is cut by the request's own end. Where the machine was busy then, both may come at once: once more.
		failed := 0
		for range 3 {
			start, before := time.Now(), failuresOf(t, quiet.address)
			s.get(t).want(t, http.StatusGatewayTimeout)
			if took := time.Since(start); took < 3*ample/2 {
				t.Errorf("took %v, want %v", took, 3*ample/2)
			}
			s.idle(t)
			if failed = failuresOf(t, quiet.address) - before; failed == 1 {
				return
			}
		}
		t.Errorf("got %d failures more, want 1", failed)
	})
	t.Run("body_is_cut", func(t *testing.T) {
		slow := newBackend(t, func(w http.ResponseWriter, r *http.Request) {
			fmt.Fprint(w, "part")
			_ = http.NewResponseController(w).Flush()
			<-r.Context().Done()
		})
		s := newSite(t, web([]string{slow.address}, settings), nil)
		if r := s.get(t); r.err == nil || r.body != "part" {
			t.Errorf("got %q, %v, want a cut answer", r.body, r.err)
		}
		s.idle(t)
		if got := failuresOf(t, slow.address); got != 0 {
			t.Errorf("got a streak of %d failures, want 0", got)
		}
	})
}

// TestTimeouts checks which status a client gets when something takes too long.
func TestTimeouts(t *testing.T) {
	for _, tc := range []struct {
		name      string
		transport object
		settings  object
		stalled   bool
		status    int
	}{
		{"D107_H108_first_byte", object{"response_header_timeout": tick}, nil, false, http.StatusGatewayTimeout},
		{"D107_H109_read", object{"read_timeout": tick}, nil, false, http.StatusGatewayTimeout},
		{"D107_handshake", nil, object{"tls": object{"handshake_timeout": tick}}, true, http.StatusGatewayTimeout},
	} {
		t.Run(tc.name, func(t *testing.T) {
			address := silent(t).address
			if tc.stalled {
				address = newRaw(t, func(_ int, c net.Conn) { _, _ = io.Copy(io.Discard, c) }).address
			}
			options := object{}
			if tc.transport != nil {
				options["transport"] = with(object{"protocol": "http"}, tc.transport)
			}
			s := newSite(t, web([]string{address}, tc.settings), options)
			s.get(t).want(t, tc.status)
			s.idle(t)
		})
	}
	t.Run("D107_refused", func(t *testing.T) {
		s := newSite(t, web([]string{dead(t)}, nil), nil)
		if r := s.get(t); r.status != http.StatusBadGateway || !strings.Contains(r.body, "connection refused") {
			t.Errorf("got %d %q, want 502 and the reason", r.status, r.body)
		}
	})
}
