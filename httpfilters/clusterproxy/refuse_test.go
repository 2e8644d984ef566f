package clusterproxy

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"strings"
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
		name      string
		limit, of string
	}{
		{"before_the_request", "max_requests", "cluster"},
		{"at_the_pick", "max_requests", "endpoint"},
		{"at_the_connection", "max_connections", "cluster"},
		{"at_the_endpoint's_connection", "max_connections", "endpoint"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			g := newGate(t)
			c := new(current)
			config, limits := web([]string{g.address}, nil), object{tc.limit: 1}
			if config["limits"] = limits; tc.of == "endpoint" {
				config = with(web(nil, nil), object{"endpoints": []object{{"address": g.address, "limits": limits}}})
			}
			stop := c.load(t, object{"web": config})
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
			if begun.Message != "refusing requests" || begun.Level != zap.WarnLevel {
				t.Errorf("got %+v", begun)
			}
			if got, want := begun.ContextMap(), (object{"cluster": "web", "limit": tc.limit, "of": tc.of}); !maps.Equal(got, want) {
				t.Errorf("got fields %v, want %v", got, want)
			}
			if over.Message != "no more requests refused" || over.ContextMap()["cluster"] != "web" || over.ContextMap()["refused"] != uint64(4) {
				t.Errorf("got %+v with %v, want 4 refused", over, over.ContextMap())
			}
		})
	}
}

// TestRefusedForWant checks that the log says what this machine is short of, here an address to connect from, and nothing else
// of the error that the client gets.
func TestRefusedForWant(t *testing.T) {
	b := newBackend(t, echo)
	options := object{"transport": object{"protocol": "http", "local_address": "192.0.2.1"}}
	s := newSite(t, web([]string{b.address}, nil), options)
	core, lines := observer.New(zap.InfoLevel)
	s.handler.(*Handler).only.logger = zap.New(core)
	s.get(t).want(t, http.StatusServiceUnavailable)
	if lines.Len() != 1 {
		t.Fatalf("got %v, want one line", lines.All())
	}
	fields := lines.All()[0].ContextMap()
	if text := fmt.Sprint(fields["error"]); !strings.HasPrefix(text, "dial tcp 192.0.2.1:0->") || fields["cluster"] != "web" {
		t.Errorf("got %v", fields)
	}
}

// TestUnknownQuietly checks the same for a cluster that a client names.
func TestUnknownQuietly(t *testing.T) {
	b := newBackend(t, echo)
	ctx := provision(t, object{"web": web([]string{b.address}, nil)})
	s := serve(t, ctx, "cluster_proxy", object{"cluster": "{http.request.header.X-Cluster}"})
	r := s.get(t)
	r.want(t, http.StatusBadGateway)
	if got := r.header.Get("Retry-After"); got != "" {
		t.Errorf("got Retry-After %q, want none: it will be unknown then too", got)
	}
	if got := s.errors(); got != 0 {
		t.Errorf("got %d errors, want none", got)
	}
	s.before = withErrorRoutes
	s.get(t).want(t, http.StatusBadGateway)
	if got := s.errors(); got != 1 {
		t.Errorf("with error routes: got %d errors, want 1", got)
	}
}
