package clusterproxy

import (
	"context"
	"net/http"
	"sync"
	"testing"
	"time"

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
// that the log has one line when requests are refused, and one when they no longer are.
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
			s := newSite(t, web([]string{g.address}, object{"limits": tc.limits}), nil)
			core, lines := observer.New(zap.InfoLevel)
			l := s.handler.(*Handler).only
			l.logger = zap.New(core)
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
			l.refusals.last.Add(-int64(calm)) // as if so much time had passed
			for range 2 {
				s.get(t).want(t, http.StatusOK)
			}
			eventually(t, "second line", func() bool { return lines.Len() == 2 })
			begun, over := lines.All()[0], lines.All()[1]
			if begun.Message != "refusing requests" || begun.Level != zap.WarnLevel {
				t.Errorf("got %+v", begun)
			}
			if over.Message != "no longer refusing requests" || over.ContextMap()["refused"] != int64(4) {
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

func TestRefusals(t *testing.T) {
	var f refusals
	now := time.Unix(1e9, 0)
	over := func(after time.Duration, count int64) {
		t.Helper()
		if got, ok := f.over(now.Add(after)); got != count || ok != (count > 0) {
			t.Errorf("after %v: got %v, %d, want %d", after, ok, got, count)
		}
	}
	over(0, 0)
	for i := range 3 {
		if got := f.add(now.Add(time.Duration(i) * time.Second)); got != (i == 0) {
			t.Errorf("refusal %d: got a line: %v", i, got)
		}
	}
	over(2*time.Second+calm-1, 0)
	over(2*time.Second+calm, 3)
	over(time.Hour, 0)
	if !f.add(now.Add(time.Hour)) {
		t.Error("got no line for the next time")
	}
	over(time.Hour+calm, 1)
}
