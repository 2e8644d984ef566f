package integration

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

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

// chat is a request of 10 KiB to a model, with a turn of so many bytes after the other. The name of the model comes last, so
// that all must be read.
func chat(turn int) []byte {
	const size = 10 << 10
	one := `{"role":"user","content":"` + strings.Repeat("Please summarise what we have said. ", turn/36) + `"}`
	turns := one + strings.Repeat(","+one, max(0, size/len(one)-1))
	return []byte(`{"messages":[` + turns + `],"model":"large"}`)
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
		turn         int
	}{
		{"stock", stockBuffered, 500},
		{"by_body/one_prompt", routedByBody, 10_000},
		{"by_body/turns_of_500", routedByBody, 500},
		{"by_body/turns_of_100", routedByBody, 100},
	} {
		b.Run(bench.name, func(b *testing.B) {
			loaded, err := modules.Load(b, "http.handlers.subroute", bench.config)
			if err != nil {
				b.Fatal(err)
			}
			handler, body := loaded.(caddyhttp.MiddlewareHandler), chat(bench.turn)
			b.ReportAllocs()
			for b.Loop() {
				routeOnce(b, handler, body)
			}
		})
	}
}

// withDeadlines is a writer that has deadlines, as that of a server: to say that there are none takes longer than to set one.
type withDeadlines struct{ *httptest.ResponseRecorder }

// SetReadDeadline implements what http.ResponseController looks for.
func (withDeadlines) SetReadDeadline(time.Time) error { return nil }

// routeOnce has a handler serve one request.
func routeOnce(b *testing.B, h caddyhttp.MiddlewareHandler, body []byte) {
	w := withDeadlines{httptest.NewRecorder()}
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
	body := chat(500)
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
