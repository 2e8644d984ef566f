package clusterproxy

import (
	"net/http"
	"testing"
)

// TestSource checks Caddy's reverse proxy with endpoints from a cluster.
func TestSource(t *testing.T) {
	a, b := newBackend(t, echo), newBackend(t, echo)
	ctx := provision(t, object{"web": web([]string{a.address, b.address}, object{"balance": object{"policy": "round_robin"}})})
	s := serve(t, ctx, "reverse_proxy", object{"dynamic_upstreams": object{"source": "cluster", "cluster": "web"}})
	for range 10 {
		s.get(t).want(t, http.StatusOK)
		s.idle(t)
	}
	if a.requests.Load() != 5 || b.requests.Load() != 5 {
		t.Errorf("got %d and %d requests, want 5 and 5", a.requests.Load(), b.requests.Load())
	}
	t.Run("another_endpoint_for_a_retry", func(t *testing.T) {
		ctx := provision(t, object{"web": web([]string{dead(t), b.address}, nil)})
		s := serve(t, ctx, "reverse_proxy", object{
			"dynamic_upstreams": object{"source": "cluster", "cluster": "web"}, "load_balancing": object{"retries": 2},
		})
		s.get(t).want(t, http.StatusOK)
		s.idle(t)
	})
	t.Run("no_room", func(t *testing.T) {
		g := newGate(t)
		ctx := provision(t, object{"web": web([]string{g.address}, object{"limits": object{"max_requests": 1}})})
		s := serve(t, ctx, "reverse_proxy", object{"dynamic_upstreams": object{"source": "cluster", "cluster": "web"}})
		done := make(chan struct{})
		go func() {
			defer close(done)
			s.get(t)
		}()
		eventually(t, "request", func() bool { return g.inside.Load() == 1 })
		s.get(t).want(t, http.StatusServiceUnavailable)
		close(g.open)
		<-done
		s.idle(t)
	})
	t.Run("unknown_cluster", func(t *testing.T) {
		options := encode(t, object{"dynamic_upstreams": object{"source": "cluster", "cluster": "nope"}})
		if _, err := ctx.LoadModuleByID("http.handlers.reverse_proxy", options); err == nil {
			t.Error("got no error")
		}
	})
}
