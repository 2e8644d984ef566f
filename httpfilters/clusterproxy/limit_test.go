package clusterproxy

import (
	"errors"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/caddy-sluice/sluice/internal/health"
	"github.com/caddy-sluice/sluice/modules/cluster"
)

// gate is an endpoint that holds requests until it is opened.
type gate struct {
	*backend
	open          chan struct{}
	inside, least atomic.Int32
}

func newGate(t testing.TB) *gate {
	t.Helper()
	g := &gate{open: make(chan struct{})}
	g.backend = newBackend(t, func(_ http.ResponseWriter, r *http.Request) {
		if n := g.inside.Add(1); n > g.least.Load() {
			g.least.Store(n)
		}
		defer g.inside.Add(-1)
		select {
		case <-g.open:
		case <-r.Context().Done():
		}
	})
	return g
}

// burst sends requests at the same time, and returns how often each status came.
func (s *site) burst(t testing.TB, n int, full func() bool, release func()) map[int]int {
	t.Helper()
	var mu sync.Mutex
	var all sync.WaitGroup
	got := make(map[int]int)
	for range n {
		all.Go(func() {
			r := s.get(t)
			mu.Lock()
			defer mu.Unlock()
			got[r.status]++
		})
	}
	eventually(t, "full cluster", full)
	eventually(t, "refusals", func() bool {
		mu.Lock()
		defer mu.Unlock()
		return got[http.StatusServiceUnavailable] > 0
	})
	release()
	all.Wait()
	return got
}

func TestRequestLimit(t *testing.T) {
	for _, tc := range []struct {
		name   string
		config func(address string) object
	}{
		{"Z58_cluster", func(a string) object { return web([]string{a}, object{"limits": object{"max_requests": 10}}) }},
		{"endpoint", func(a string) object {
			return with(web(nil, nil), object{"endpoints": []object{{"address": a, "limits": object{"max_requests": 10}}}})
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			g := newGate(t)
			s := newSite(t, with(tc.config(g.address), object{"passive": object{"fall": 9}}), nil)
			got := s.burst(t, 40, func() bool { return g.inside.Load() == 10 }, func() { close(g.open) })
			if got[200] < 10 || got[200]+got[503] != 40 || g.least.Load() > 10 {
				t.Errorf("got %v, and %d at a time, want at most 10", got, g.least.Load())
			}
			s.idle(t)
			s.get(t).want(t, http.StatusOK)
			if got := failuresOf(t, g.address); got != 0 {
				t.Errorf("Z59: got a streak of %d failures, want 0", got)
			}
		})
	}
}

func TestRefusalAnswer(t *testing.T) {
	g := newGate(t)
	s := newSite(t, web([]string{g.address}, object{"limits": object{"max_requests": 1}}), nil)
	var first sync.WaitGroup
	first.Go(func() { s.get(t) })
	eventually(t, "request", func() bool { return g.inside.Load() == 1 })
	t.Run("Z59_Z88_at_once_with_retry_after", func(t *testing.T) {
		for _, method := range []string{"GET", "POST"} {
			r := s.do(t, method, "")
			r.want(t, http.StatusServiceUnavailable)
			if got := r.header.Get("Retry-After"); got != "1" {
				t.Errorf("got Retry-After %q, want 1", got)
			}
		}
		if got := g.requests.Load(); got != 1 {
			t.Errorf("got %d requests, want 1", got)
		}
	})
	close(g.open)
	first.Wait()
}

// connections returns how many connections a cluster has, and how many are being made.
func connections() (serving, pending int64) {
	st, _ := cluster.StatusOf("web")
	return st.Connections, st.Pending
}

func TestConnectionLimit(t *testing.T) {
	limits := object{"limits": object{"max_connections": 3}, "passive": object{"fall": 9}}
	t.Run("Z61_cluster", func(t *testing.T) {
		g := newGate(t)
		s := newSite(t, web([]string{g.address}, limits), nil)
		got := s.burst(t, 12, func() bool { return g.inside.Load() == 3 }, func() { close(g.open) })
		if got[200] < 3 || got[200]+got[503] != 12 || g.least.Load() > 3 {
			t.Errorf("got %v, and %d at a time, want at most 3", got, g.least.Load())
		}
		s.idle(t)
		eventually(t, "idle connections only", func() bool { serving, _ := connections(); return serving == 0 })
		s.get(t).want(t, http.StatusOK)
		if got := failuresOf(t, g.address); got != 0 {
			t.Errorf("got a streak of %d failures, want 0", got)
		}
	})
	t.Run("endpoint_full_another_one_serves", func(t *testing.T) {
		g, live := newGate(t), newBackend(t, echo)
		config := with(web(nil, nil), object{"endpoints": []object{
			{"address": g.address, "limits": object{"max_connections": 1}}, {"address": live.address},
		}})
		s := newSite(t, config, nil)
		var first sync.WaitGroup
		first.Go(func() { s.get(t) })
		eventually(t, "request", func() bool { return g.inside.Load() == 1 })
		s.do(t, "POST", "hello").want(t, http.StatusOK)
		if got := live.requests.Load(); got != 1 {
			t.Errorf("got %d requests at the other endpoint, want 1", got)
		}
		close(g.open)
		first.Wait()
		s.idle(t)
	})
	t.Run("endpoint_full_and_no_other", func(t *testing.T) {
		g := newGate(t)
		config := with(web(nil, nil), object{"endpoints": []object{{"address": g.address, "limits": object{"max_connections": 1}}}})
		s := newSite(t, config, nil)
		var first sync.WaitGroup
		first.Go(func() { s.get(t) })
		eventually(t, "request", func() bool { return g.inside.Load() == 1 })
		r := s.get(t)
		r.want(t, http.StatusServiceUnavailable)
		if r.header.Get("Retry-After") == "" {
			t.Error("got no Retry-After")
		}
		close(g.open)
		first.Wait()
		s.idle(t)
	})
}

// TestManyFullEndpoints checks that the one endpoint with room is found among many without.
func TestManyFullEndpoints(t *testing.T) {
	var gates []*gate
	var endpoints []object
	for range 40 {
		g := newGate(t)
		gates = append(gates, g)
		endpoints = append(endpoints, object{"address": g.address, "limits": object{"max_connections": 1}})
	}
	s := newSite(t, with(web(nil, nil), object{"endpoints": endpoints, "balance": object{"policy": "random"}}), nil)
	inside := func() (n int) {
		for _, g := range gates {
			n += int(g.inside.Load())
		}
		return n
	}
	var all sync.WaitGroup
	for i := range gates {
		all.Go(func() { s.get(t).want(t, http.StatusOK) })
		eventually(t, "request at another endpoint", func() bool { return inside() == i+1 })
	}
	if r := s.get(t); r.status != http.StatusServiceUnavailable || r.header.Get("Retry-After") == "" {
		t.Errorf("got %d with %v, want 503 with Retry-After", r.status, r.header)
	}
	// The first that has room again is found, with its idle connection.
	close(gates[7].open)
	eventually(t, "room", func() bool { return inside() == len(gates)-1 })
	eventually(t, "answer", func() bool { return s.get(t).status == http.StatusOK })
	for i, g := range gates {
		if i != 7 {
			close(g.open)
		}
	}
	all.Wait()
	s.idle(t)
}

// TestNoRoomTwice checks that a request doesn't come back to an endpoint that had no room for it, though there is some by now:
// it would go round for as long as others take that.
func TestNoRoomTwice(t *testing.T) {
	site := newSite(t, web([]string{"192.0.2.1:80"}, nil), nil)
	s := &state{ctx: t.Context(), client: t.Context(), link: site.handler.(*Handler).only}
	defer s.finish(nil)
	err := s.begin(site.request(t, "GET", "/", ""))
	if err == nil {
		err = s.pick()
	}
	if err != nil {
		t.Fatal(err)
	}
	if got := s.elsewhere(new(try), nil); got != health.Again {
		t.Fatalf("got %v, want %v", got, health.Again)
	}
	s.open.Store(false) // as the lease is settled
	var refused *cluster.Refused
	if err := s.pick(); !errors.As(err, &refused) || s.attempts != 1 {
		t.Errorf("got %v, and %d attempts", err, s.attempts)
	}
	if st := statusOf(t, "web"); st.Endpoints[0].Active != 0 {
		t.Errorf("got %d attempts under way, want 0", st.Endpoints[0].Active)
	}
}

// TestIdleHTTP2 checks that a connection of HTTP/2 counts while it serves requests, however many, and not otherwise.
func TestIdleHTTP2(t *testing.T) {
	release := make(chan struct{})
	wait := func(w http.ResponseWriter, r *http.Request) {
		_ = http.NewResponseController(w).Flush()
		if r.URL.Path == "/wait" {
			<-release
		}
	}
	one, two := secure(t, true, wait), secure(t, true, wait)
	settings := object{
		"tls": object{"insecure_skip_verify": true}, "limits": object{"max_connections": 1}, "balance": object{"policy": "round_robin"},
	}
	s := newSite(t, web([]string{one.address, two.address}, settings), nil)
	for range 4 {
		s.get(t).want(t, http.StatusOK)
		s.unused(t)
	}
	if got := one.requests.Load() + 10*two.requests.Load(); got != 22 {
		t.Errorf("got %d requests, want two at each", got)
	}
	order(t, two.address, "drain")
	var waiting sync.WaitGroup
	for range 2 {
		waiting.Go(func() { s.send(t, s.request(t, "GET", "/wait", "")).want(t, http.StatusOK) })
	}
	eventually(t, "two requests", func() bool { return one.requests.Load() == 4 })
	s.get(t).want(t, http.StatusOK)
	if serving, _ := connections(); serving != 1 {
		t.Errorf("got %d connections while two requests share one, want 1", serving)
	}
	close(release)
	waiting.Wait()
	s.unused(t)
	if got := one.accepted.Load(); got != 1 {
		t.Errorf("got %d connections, want 1", got)
	}
}

// order orders a state for an endpoint by hand.
func order(t testing.TB, address, state string) {
	t.Helper()
	if err := cluster.Override("web", address, cluster.Change{State: state}); err != nil {
		t.Fatal(err)
	}
}

// TestPendingLimit checks the limit on connections that are being made: here they hang in the TLS handshake.
func TestPendingLimit(t *testing.T) {
	release := make(chan struct{})
	end := sync.OnceFunc(func() { close(release) })
	defer end()
	stalled := newRaw(t, func(int, net.Conn) { <-release })
	live := unstarted(echo)
	live.StartTLS()
	live.started(t)
	settings := object{
		"limits": object{"max_pending": 2},
		"tls":    object{"insecure_skip_verify": true, "handshake_timeout": int64(patience)},
	}
	options := object{"transport": object{"protocol": "http", "versions": []string{"1.1"}}}
	s := newSite(t, web([]string{stalled.address, live.address}, settings), options)
	order(t, stalled.address, "drain")
	s.get(t).want(t, http.StatusOK) // leaves a connection in the pool
	order(t, stalled.address, "up")
	var waiting sync.WaitGroup
	for range 2 {
		waiting.Go(func() { s.do(t, "POST", "").want(t, http.StatusBadGateway) })
	}
	eventually(t, "two pending connections", func() bool { _, pending := connections(); return pending == 2 })
	t.Run("Z60_third_dial", func(t *testing.T) {
		start := time.Now()
		s.get(t).want(t, http.StatusServiceUnavailable)
		if took := time.Since(start); took > patience/2 {
			t.Errorf("took %v, want an answer at once", took)
		}
	})
	t.Run("Z60_pooled", func(t *testing.T) {
		order(t, stalled.address, "drain")
		s.get(t).want(t, http.StatusOK)
		if got := live.accepted.Load(); got != 1 {
			t.Errorf("got %d connections, want 1", got)
		}
	})
	end()
	waiting.Wait()
	s.idle(t)
}
