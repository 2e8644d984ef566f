package integration

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/caddy-sluice/sluice/internal/testkit/modules"
)

func init() { caddy.RegisterModule(cannedTransport{}) }

// cannedTransport is a transport of Caddy's reverse proxy that reads the body and answers with the path of the request.
type cannedTransport struct{}

// CaddyModule returns the Caddy module information.
func (cannedTransport) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: "http.reverse_proxy.transport.sluicecanned", New: func() caddy.Module { return new(cannedTransport) }}
}

// RoundTrip implements http.RoundTripper.
func (cannedTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	n, err := io.Copy(io.Discard, r.Body)
	if err != nil || n != r.ContentLength {
		return nil, fmt.Errorf("got %d bytes of %d: %w", n, r.ContentLength, err)
	}
	return &http.Response{
		Status: "200 OK", StatusCode: http.StatusOK, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Request: r,
		Header: http.Header{"Content-Type": {"text/plain"}}, ContentLength: 2, Body: io.NopCloser(strings.NewReader("ok")),
	}, nil
}

// chat is a request of 10 KiB to a model, whose name comes first or last.
func chat(last bool) []byte {
	const turn = `{"role":"user","content":"Please summarise what we have said so far in three sentences, and leave out names."}`
	messages := `"messages":[` + strings.Repeat(turn+",", 90) + turn + `]`
	if last {
		return []byte(`{` + messages + `,"model":"large"}`)
	}
	return []byte(`{"model":"large",` + messages + `}`)
}

// The two ways to proxy a request whose body is kept in memory first: by Caddy alone, to one upstream, and by its body, with
// Caddy's matchers.
const (
	stockBuffered = `{"routes":[{"handle":[{"handler":"reverse_proxy","request_buffers":1048576,
		"upstreams":[{"dial":"192.0.2.1:80"}],"transport":{"protocol":"sluicecanned"}}]}]}`
	routedByBody = `{"routes":[
		{"handle":[{"handler":"filters","filters":[{"filter":{"filter":"json_field","fields":[{"field":"model","header":"X-Model"}]}}]}]},
		{"match":[{"header":{"X-Model":["large"]}}],"terminal":true,"handle":[{"handler":"reverse_proxy",
			"upstreams":[{"dial":"192.0.2.1:80"}],"transport":{"protocol":"sluicecanned"}}]},
		{"handle":[{"handler":"static_response","status_code":404}]}]}`
)

// BenchmarkRouting compares them, in the process: what routing by body costs is the difference.
func BenchmarkRouting(b *testing.B) {
	for _, bench := range []struct {
		name, config string
		last         bool
	}{
		{"stock", stockBuffered, false},
		{"by_body/first", routedByBody, false},
		{"by_body/last", routedByBody, true},
	} {
		b.Run(bench.name, func(b *testing.B) {
			loaded, err := modules.Load(b, "http.handlers.subroute", bench.config)
			if err != nil {
				b.Fatal(err)
			}
			handler, body := loaded.(caddyhttp.MiddlewareHandler), chat(bench.last)
			b.ReportAllocs()
			for b.Loop() {
				routeOnce(b, handler, body)
			}
		})
	}
}

// routeOnce has a handler serve one request.
func routeOnce(b *testing.B, h caddyhttp.MiddlewareHandler, body []byte) {
	w := httptest.NewRecorder()
	r := httptest.NewRequest(http.MethodPost, "/", bytes.NewReader(body))
	r = caddyhttp.PrepareRequest(r, caddy.NewReplacer(), w, new(caddyhttp.Server))
	err := h.ServeHTTP(w, r, caddyhttp.HandlerFunc(func(http.ResponseWriter, *http.Request) error { return nil }))
	if err != nil || w.Code != http.StatusOK {
		b.Fatalf("got status %d, %v", w.Code, err)
	}
}

// BenchmarkRoutingProxy compares them as whole proxies over loopback, to a real backend.
func BenchmarkRoutingProxy(b *testing.B) {
	l := newLab(b)
	backend := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		_, _ = io.WriteString(w, "ok")
	}))
	defer backend.Close()
	to := strings.TrimPrefix(backend.URL, "http://")
	stock, routed := l.freeAddr(), l.freeAddr()
	l.run("", fmt.Sprintf(`
	http://%s {
		reverse_proxy %s {
			request_buffers 1MiB
		}
	}
	http://%s {
		filters {
			json_field model {
				header X-Model
			}
		}
		@large header X-Model large
		handle @large {
			reverse_proxy %s
		}
		handle {
			respond 404
		}
	}
	`, stock, to, routed, to))
	body := chat(true)
	for _, site := range []struct{ name, addr string }{{"stock", stock}, {"by_body", routed}} {
		b.Run(site.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				res, err := http.Post("http://"+site.addr+"/", "application/json", bytes.NewReader(body))
				if err != nil {
					b.Fatal(err)
				}
				_, _ = io.Copy(io.Discard, res.Body)
				res.Body.Close()
				if res.StatusCode != http.StatusOK {
					b.Fatalf("got %s", res.Status)
				}
			}
		})
	}
}
