package clusterproxy

import (
	"context"
	"net/http"
	"sync"
	"testing"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"
)

// errors returns how many errors the handler has returned.
func (s *site) errors() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.failures)
}

// withErrorRoutes has a request come to a server with error routes.
func withErrorRoutes(r *http.Request) {
	server := &caddyhttp.Server{Errors: &caddyhttp.HTTPErrorConfig{Routes: caddyhttp.RouteList{{}}}}
	*r = *r.WithContext(context.WithValue(r.Context(), caddyhttp.ServerCtxKey, server))
}

// TestRefusedQuietly checks that what there may be one of for each request is no error, unless there are error routes, and
// that the log has one line when requests are refused, and one when that is over: at the end of the config at the latest.
func TestRefusedQuietly(t *testing.T) {
	for _, tc := range []struct {
		name   string
		limits object
	}{
		{"before_the_request", object{"max_requests": 1}},
		{"at_the_connection", object{"max_connections": 1}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			g := newGate(t)
			c := new(current)
			stop := c.load(t, object{"web": web([]string{g.address}, object{"limits": tc.limits})})
			core, lines := observer.New(zap.InfoLevel)
			c.handler.Load().only.logger = zap.New(core)
			s := serveHandler(t, c)
			var first sync.WaitGroup
			first.Go(func() { s.get(t) })
			eventually(t, "request", func() bool { return g.inside.Load() == 1 })
			for range 3 {
				s.get(t).want(t, http.StatusServiceUnavailable)
			}
			if got := s.errors(); got != 0 {
				t.Errorf("got %d errors, want none", got)
			}
			s.before = withErrorRoutes
			s.get(t).want(t, http.StatusServiceUnavailable)
			if got := s.errors(); got != 1 {
				t.Errorf("with error routes: got %d errors, want 1", got)
			}
			close(g.open)
			first.Wait()
			s.get(t).want(t, http.StatusOK)
			stop()
			if lines.Len() != 2 {
				t.Fatalf("got %v, want two lines", lines.All())
			}
			begun, over := lines.All()[0], lines.All()[1]
			if begun.Message != "refusing requests" || begun.Level != zap.WarnLevel || begun.ContextMap()["cluster"] != "web" {
				t.Errorf("got %+v", begun)
			}
			if over.Message != "no more requests refused" || over.ContextMap()["cluster"] != "web" || over.ContextMap()["refused"] != uint64(4) {
				t.Errorf("got %+v with %v, want 4 refused", over, over.ContextMap())
			}
		})
	}
}

// TestUnknownQuietly checks the same for a cluster that a client names.
func TestUnknownQuietly(t *testing.T) {
	b := newBackend(t, echo)
	ctx := provision(t, object{"web": web([]string{b.address}, nil)})
	s := serve(t, ctx, "cluster_proxy", object{"cluster": "{http.request.header.X-Cluster}"})
	s.get(t).want(t, http.StatusBadGateway)
	if got := s.errors(); got != 0 {
		t.Errorf("got %d errors, want none", got)
	}
	s.before = withErrorRoutes
	s.get(t).want(t, http.StatusBadGateway)
	if got := s.errors(); got != 1 {
		t.Errorf("with error routes: got %d errors, want 1", got)
	}
}
