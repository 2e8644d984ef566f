package clusterproxy

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/caddy-sluice/sluice/modules/cluster"
)

// flapping is an endpoint that answers so many requests on each connection, and resets it in the middle of the next.
func flapping(t testing.TB, good int) *raw {
	return newRaw(t, func(nth int, c net.Conn) {
		if nth%4 == 0 {
			_ = c.(*net.TCPConn).SetLinger(0)
			return
		}
		serveRaw(c, good)
		_, _, _ = readRequest(c)
		_ = c.(*net.TCPConn).SetLinger(0)
	})
}

// serveRaw answers requests with what echo says.
func serveRaw(c net.Conn, requests int) {
	for range requests {
		r, body, err := readRequest(c)
		if err != nil {
			return
		}
		answer := r.Method + " " + string(body)
		if _, err := fmt.Fprintf(c, "HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s", len(answer), answer); err != nil {
			return
		}
	}
}

// TestLoad sends requests from many clients to endpoints of which one is dead, one flaps, one is slow and one answers 503,
// while some clients leave. No request is lost that can be tried again, no body is changed, and in the end nothing is left.
func TestLoad(t *testing.T) {
	const clients, each = 8, 60
	busy := newBackend(t, func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		http.Error(w, "busy", http.StatusServiceUnavailable)
	})
	var asked atomic.Int32
	slow := newBackend(t, func(w http.ResponseWriter, r *http.Request) {
		if asked.Add(1)%24 == 0 {
			_, _ = io.Copy(io.Discard, r.Body)
			<-r.Context().Done() // which comes with the end of the attempt
			return
		}
		echo(w, r)
	})
	addresses := []string{dead(t), flapping(t, 3).address, slow.address, busy.address, newBackend(t, echo).address, newBackend(t, echo).address}
	settings := object{
		"balance": object{"policy": "round_robin"}, "per_try_timeout": int64(2 * ample), "outlier": object{"consecutive_failures": 1000},
		"limits": object{"max_connections": 1000}, "retry": object{
			"max": 5, "status": []string{"503"}, "methods": []string{"GET", "POST"}, "backoff_base": 1_000_000, "backoff_cap": 2_000_000,
			"budget_percent": 100, "budget_min": 1000,
		},
	}
	s := newSite(t, web(addresses, settings), nil)
	s.Client().Transport.(*http.Transport).MaxIdleConnsPerHost = clients
	var left atomic.Int32
	var all sync.WaitGroup
	for range clients {
		all.Go(func() {
			for n := range each {
				if n%10 == 9 {
					s.leave(t)
					left.Add(1)
					continue
				}
				s.roundTrip(t, n)
			}
		})
	}
	all.Wait()
	s.idle(t)
	if err := s.handler.(*Handler).Cleanup(); err != nil {
		t.Fatal(err)
	}
	eventually(t, "cluster without connections", func() bool {
		st, _ := cluster.StatusOf("web")
		return st.Connections == 0 && st.Pending == 0
	})
}

// roundTrip makes a request that must come through.
func (s *site) roundTrip(t testing.TB, n int) {
	method, body := http.MethodGet, ""
	if n%2 == 1 {
		method, body = http.MethodPost, strings.Repeat("x", rand.IntN(32<<10))
	}
	r := s.do(t, method, body)
	if r.status != http.StatusOK || r.body != method+" "+body {
		t.Errorf("got %d with %d bytes, %v, want 200 with %d: %.200s", r.status, len(r.body), r.err, len(method)+1+len(body), r.body)
	}
}

// leave makes a request and leaves at some time.
func (s *site) leave(t testing.TB) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Duration(rand.Int64N(int64(tick/4))))
	defer cancel()
	_ = s.send(t, s.request(t, http.MethodPost, "/", strings.Repeat("x", 1<<10)).WithContext(ctx))
}

// TestBudget checks that an outage isn't multiplied by retries.
func TestBudget(t *testing.T) {
	t.Run("Z64_H117_no_budget", func(t *testing.T) {
		s := newSite(t, web([]string{dead(t), newBackend(t, echo).address}, retryAll(object{"budget_min": 0})), nil)
		s.get(t).want(t, http.StatusBadGateway)
		if got := s.placeholder("budget_exhausted") + s.placeholder("attempts"); got != "true1" {
			t.Errorf("got %s, want an exhausted budget after one attempt", got)
		}
		s.idle(t)
	})
	t.Run("Z65_outage", func(t *testing.T) {
		const burst = 100
		var attempts atomic.Int32
		together := make(chan struct{})
		reset := newRaw(t, func(_ int, c net.Conn) {
			if _, _, err := readRequest(c); err != nil {
				return
			}
			if attempts.Add(1) == burst {
				close(together)
			}
			<-together // so that requests fail at the same time
		})
		// It holds what the budget has for longer than it takes for the others to fail.
		settings := retryAll(object{"max": 3, "backoff_base": int64(2 * ample), "backoff_cap": int64(2 * ample)})
		s := newSite(t, web([]string{reset.address}, settings), nil)
		var most atomic.Int64
		ctx, stop := context.WithCancel(t.Context())
		var watching, all sync.WaitGroup
		watching.Go(func() {
			for ctx.Err() == nil {
				st, _ := cluster.StatusOf("web")
				most.Store(max(most.Load(), st.Retries))
				time.Sleep(time.Millisecond) // between two looks
			}
		})
		for range burst {
			all.Go(func() { s.get(t).want(t, http.StatusBadGateway) })
		}
		all.Wait()
		stop()
		watching.Wait()
		if got := most.Load(); got > burst/5 {
			t.Errorf("got %d retries at a time, want at most %d", got, burst/5)
		}
		if got := attempts.Load(); got > 2*burst {
			t.Errorf("got %d attempts for %d requests", got, burst)
		}
		s.idle(t)
	})
}
