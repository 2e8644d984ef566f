package clusterproxy

import (
	"bufio"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/caddy-sluice/sluice/modules/cluster"
)

// crowd is an endpoint that answers requests once so many have arrived, and whose connection breaks with what comes to
// /poison.
type crowd struct {
	*raw
	poison, plain atomic.Int32
	arrived       sync.WaitGroup
	gate          chan struct{}
}

func newCrowd(t *testing.T, n int) *crowd {
	t.Helper()
	b := &crowd{gate: make(chan struct{})}
	b.arrived.Add(n)
	b.raw = newRaw(t, func(nth int, c net.Conn) {
		for in := bufio.NewReader(c); ; {
			r, err := http.ReadRequest(in)
			if err != nil {
				return
			}
			if r.URL.Path == "/poison" {
				b.poison.Add(1)
				_ = c.(*net.TCPConn).SetLinger(0)
				return
			}
			if b.plain.Add(1); nth <= n {
				b.arrived.Done()
			}
			<-b.gate
			fmt.Fprint(c, "HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nraw")
		}
	})
	return b
}

// fill makes the requests, so that there are as many connections, which are idle then.
func (b *crowd) fill(t *testing.T, s *site, n int) {
	t.Helper()
	var waiting sync.WaitGroup
	for range n {
		waiting.Go(func() {
			if got := s.get(t); got.status != http.StatusOK {
				t.Errorf("got %d, %v, want 200", got.status, got.err)
			}
		})
	}
	b.arrived.Wait()
	close(b.gate)
	waiting.Wait()
}

// TestReplayedOnce checks that a request which breaks connections reaches the endpoint twice, on a pooled one and on a new
// one, however many are idle.
func TestReplayedOnce(t *testing.T) {
	const idle = 20
	for _, tc := range []struct {
		name, method string
		header       http.Header
	}{
		{"get", "GET", nil},
		{"head", "HEAD", nil},
		{"post_that_may_be_repeated", "POST", http.Header{"Idempotency-Key": {"1"}}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			b := newCrowd(t, idle)
			s := newSite(t, web([]string{b.address}, object{"passive": object{"fall": 5}}), nil)
			b.fill(t, s, idle)
			r := s.request(t, tc.method, "/poison", "")
			maps.Copy(r.Header, tc.header)
			s.send(t, r).want(t, http.StatusBadGateway)
			if got := b.poison.Load(); got != 2 {
				t.Errorf("the endpoint got it %d times, want 2", got)
			}
			if got := b.accepted.Load(); got != idle+1 {
				t.Errorf("got %d connections, want %d", got, idle+1)
			}
			if got, want := s.placeholder("replayed")+s.placeholder("attempts")+s.placeholder("retries"), "true20"; got != want {
				t.Errorf("got replayed, attempts and retries %s, want %s", got, want)
			}
			if got := failuresOf(t, b.address); got != 1 {
				t.Errorf("got a streak of %d failures, want that of the new connection", got)
			}
			s.idle(t)
			s.unused(t)
		})
	}
}

// breaker is an endpoint that answers the first request of each connection. Of each later one it tells, and resets when it
// is told to.
func breaker(t *testing.T, in chan<- struct{}, out <-chan struct{}) *raw {
	t.Helper()
	return newRaw(t, func(_ int, c net.Conn) {
		r := bufio.NewReader(c)
		for n := range 2 {
			q, err := http.ReadRequest(r)
			if err != nil {
				return
			}
			_, _ = io.Copy(io.Discard, q.Body)
			if n == 0 {
				fmt.Fprint(c, "HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nraw")
			}
		}
		in <- struct{}{}
		<-out
		_ = c.(*net.TCPConn).SetLinger(0)
	})
}

// TestReplayElsewhere checks that a request on a pooled connection isn't lost because its endpoint was taken out in the
// meantime.
func TestReplayElsewhere(t *testing.T) {
	order := func(state string) func(*testing.T, *raw) {
		return func(t *testing.T, b *raw) {
			if err := cluster.Override("web", b.address, cluster.Change{State: state}); err != nil {
				t.Fatal(err)
			}
		}
	}
	for _, tc := range []struct {
		name, method, body string
		settings           object
		want               string
	}{
		{"retried", "POST", "x", retryAll(nil), "false21"},
		{"replayed_without_a_retry", "GET", "", nil, "true20"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			in, out := make(chan struct{}), make(chan struct{})
			gone, live := breaker(t, in, out), newBackend(t, echo)
			s := newSite(t, web([]string{gone.address, live.address}, tc.settings), nil)
			s.do(t, tc.method, tc.body).want(t, http.StatusOK)
			done := make(chan reply)
			go func() { done <- s.do(t, tc.method, tc.body) }()
			<-in
			order("drain")(t, gone)
			close(out)
			(<-done).want(t, http.StatusOK)
			if got := s.placeholder("replayed") + s.placeholder("attempts") + s.placeholder("retries"); got != tc.want {
				t.Errorf("got replayed, attempts and retries %s, want %s", got, tc.want)
			}
			if got := s.placeholder("endpoint"); got != live.address {
				t.Errorf("got endpoint %s, want %s", got, live.address)
			}
			s.idle(t)
		})
	}
}

// TestCrash checks that an endpoint which goes down with many requests on pooled connections loses none that may be tried
// again, whatever has found out first that it is down.
func TestCrash(t *testing.T) {
	const n = 40
	for name, detector := range map[string]object{
		"none": nil, "outlier": {"outlier": object{"consecutive_failures": 5}}, "passive": {"passive": object{"fall": 5}},
	} {
		t.Run(name, func(t *testing.T) {
			var first sync.WaitGroup
			first.Add(n)
			var later atomic.Int32
			crash := make(chan struct{})
			gone := newRaw(t, func(_ int, c net.Conn) {
				for r := bufio.NewReader(c); ; {
					q, err := http.ReadRequest(r)
					if err != nil {
						return
					}
					_, _ = io.Copy(io.Discard, q.Body)
					if q.URL.Path == "/later" {
						break
					}
					first.Done()
					first.Wait()
					fmt.Fprint(c, "HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nraw")
				}
				if later.Add(1) == n {
					close(crash)
				}
				<-crash
				_ = c.(*net.TCPConn).SetLinger(0)
			})
			live := newBackend(t, echo)
			s := newSite(t, web([]string{gone.address, live.address}, with(detector, retryAll(object{"budget_min": 1000}))), nil)
			for _, path := range []string{"/", "/later"} {
				var waiting sync.WaitGroup
				for range n {
					waiting.Go(func() {
						if r := s.send(t, s.request(t, "POST", path, "x")); r.status != http.StatusOK {
							t.Errorf("got %d %q, %v, want 200", r.status, r.body, r.err)
						}
					})
				}
				waiting.Wait()
			}
			s.idle(t)
		})
	}
}

// TestLongAnswers checks that an answer which goes on for long ends a streak of failures when it has begun.
func TestLongAnswers(t *testing.T) {
	for _, tc := range []struct {
		name   string
		status int
		want   int
	}{
		{"answered", http.StatusOK, 0},
		{"answered_with_a_failure", http.StatusServiceUnavailable, 1},
	} {
		t.Run(tc.name, func(t *testing.T) {
			hold := make(chan struct{})
			b := newBackend(t, func(w http.ResponseWriter, r *http.Request) {
				if r.URL.Path == "/bad" {
					panic(http.ErrAbortHandler)
				}
				w.WriteHeader(tc.status)
				_ = http.NewResponseController(w).Flush()
				<-hold
			})
			s := newSite(t, web([]string{b.address}, object{"outlier": object{"consecutive_failures": 9, "failure_status": []string{"503"}}}),
				object{"flush_interval": -1})
			s.send(t, s.request(t, "POST", "/bad", "x")).want(t, http.StatusBadGateway)
			res, err := s.Client().Do(s.request(t, "GET", "/stream", ""))
			if err != nil {
				t.Fatal(err)
			}
			defer res.Body.Close()
			st, _ := cluster.StatusOf("web")
			if got := st.Endpoints[0].ConsecutiveFailures; res.StatusCode != tc.status || got != tc.want {
				t.Errorf("got %d and a streak of %d, want %d and %d", res.StatusCode, got, tc.status, tc.want)
			}
			close(hold)
		})
	}
}
