package clusterproxy

import (
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp/reverseproxy"
)

// canned is a RoundTripper that answers at once.
type canned struct{}

func (canned) RoundTrip(r *http.Request) (*http.Response, error) {
	return &http.Response{
		Status: "200 OK", StatusCode: http.StatusOK, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Request: r,
		Header: http.Header{"Content-Type": {"text/plain"}}, ContentLength: 2, Body: io.NopCloser(strings.NewReader("ok")),
	}, nil
}

// proxies are the handlers to compare, with the same pool of idle connections: Caddy's reverse proxy with static
// upstreams, and ours.
func proxies(b *testing.B, addresses []string, more object) map[string]caddyhttp.MiddlewareHandler {
	b.Helper()
	ctx := provision(b, object{"web": web(addresses, object{"balance": object{"policy": "p2c"}})})
	var upstreams []object
	for _, a := range addresses {
		upstreams = append(upstreams, object{"dial": a})
	}
	idle := object{"protocol": "http", "keep_alive": object{"max_idle_conns_per_host": idlePerEndpoint}}
	handlers := make(map[string]caddyhttp.MiddlewareHandler)
	for name, options := range map[string]object{
		"reverse_proxy": {"upstreams": upstreams, "transport": idle},
		"cluster_proxy": {"cluster": "web", "transport": idle},
	} {
		maps.Copy(options, more)
		h, err := ctx.LoadModuleByID("http.handlers."+name, encode(b, options))
		if err != nil {
			b.Fatal(err)
		}
		handlers[name] = h.(caddyhttp.MiddlewareHandler)
	}
	return handlers
}

// BenchmarkClusterProxy measures what the handler adds to Caddy's reverse proxy: in the process, with an endpoint that
// answers at once, and as a whole proxy over loopback.
func BenchmarkClusterProxy(b *testing.B) {
	for _, n := range []int{1, 3, 100} {
		b.Run(fmt.Sprintf("handler/endpoints=%d", n), func(b *testing.B) { benchmarkHandler(b, n) })
	}
	b.Run("loopback", benchmarkLoopback)
}

func benchmarkHandler(b *testing.B, endpoints int) {
	addresses := make([]string, endpoints)
	for i := range addresses {
		addresses[i] = fmt.Sprintf("192.0.2.1:%d", 1000+i)
	}
	handlers := proxies(b, addresses, nil)
	stub := new(http.Transport)
	stub.RegisterProtocol("http", canned{})
	ours := handlers["cluster_proxy"].(*Handler)
	ours.only.pooled = stub
	handlers["reverse_proxy"].(*reverseproxy.Handler).Transport = schemed{stub}
	for _, name := range []string{"reverse_proxy", "cluster_proxy"} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				serveOnce(b, handlers[name])
			}
		})
	}
}

// schemed sets the scheme, as Caddy's transport does.
type schemed struct{ http.RoundTripper }

func (s schemed) RoundTrip(r *http.Request) (*http.Response, error) {
	r.URL.Scheme = "http"
	return s.RoundTripper.RoundTrip(r)
}

// nowhere is a response writer that keeps nothing.
type nowhere struct{ header http.Header }

func (w *nowhere) Header() http.Header         { return w.header }
func (w *nowhere) Write(p []byte) (int, error) { return len(p), nil }
func (w *nowhere) WriteHeader(int)             {}
func (w *nowhere) Flush()                      {}

func serveOnce(b *testing.B, h caddyhttp.MiddlewareHandler) {
	w := &nowhere{make(http.Header)}
	r := httptest.NewRequest(http.MethodGet, "/", nil)
	r = caddyhttp.PrepareRequest(r, caddy.NewReplacer(), w, new(caddyhttp.Server))
	if err := h.ServeHTTP(w, r, caddyhttp.HandlerFunc(func(http.ResponseWriter, *http.Request) error { return nil })); err != nil {
		b.Fatal(err)
	}
}

func benchmarkLoopback(b *testing.B) {
	backend := newBackend(b, func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "ok") })
	handlers := proxies(b, []string{backend.address}, nil)
	for _, name := range []string{"reverse_proxy", "cluster_proxy"} {
		b.Run(name, func(b *testing.B) {
			s := &site{handler: handlers[name]}
			s.Server = httptest.NewServer(s)
			defer s.Close()
			s.Client().Transport.(*http.Transport).MaxIdleConnsPerHost = idlePerEndpoint
			b.ReportAllocs()
			b.RunParallel(func(pb *testing.PB) {
				for pb.Next() {
					s.get(b).want(b, http.StatusOK)
				}
			})
		})
	}
}
