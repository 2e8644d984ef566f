package jsonfield

import (
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/caddy-sluice/sluice/httpfilters/pipeline"
	"github.com/caddy-sluice/sluice/internal/testkit/modules"
	"github.com/caddy-sluice/sluice/internal/testkit/sites"
)

// model is the config of a filter for one member.
const model = `"fields":[{"field":"model","header":"X-Model"}]`

// pipelineOf returns the handler with a filter of such a config. settings are those of the handler.
func pipelineOf(t testing.TB, filter, settings string) *pipeline.Handler {
	t.Helper()
	return handlerOf(t, fmt.Sprintf(`{%s"filters":[{"filter":{"filter":"json_field",%s}}]}`, settings, filter))
}

// handlerOf returns the handler with such a config.
func handlerOf(t testing.TB, config string) *pipeline.Handler {
	t.Helper()
	h, err := modules.Load(t, "http.handlers.filters", config)
	if err != nil {
		t.Fatalf("%s: %v", config, err)
	}
	return h.(*pipeline.Handler)
}

// seen is a request as the next handler gets it.
type seen struct {
	header http.Header
	body   string
	length int64
	// status is the result of the filter.
	status string
}

// site is a server with the handler in front of a backend that keeps the requests.
type site struct {
	handler *pipeline.Handler
	// url is where it listens.
	url string

	// mu guards requests.
	mu       sync.Mutex
	requests []seen
}

// newSite serves, by HTTP/1 and HTTP/2.
func newSite(t testing.TB, h *pipeline.Handler) *site {
	t.Helper()
	s := &site{handler: h}
	s.url = sites.ServeBoth(t, s).URL
	return s
}

// ServeHTTP is what Caddy's server does with a request.
func (s *site) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	r = caddyhttp.PrepareRequest(r, caddy.NewReplacer(), w, new(caddyhttp.Server))
	if err := s.handler.ServeHTTP(w, r, caddyhttp.HandlerFunc(s.next)); err != nil {
		w.WriteHeader(sites.Status(err))
	}
}

// next is the next handler.
func (s *site) next(_ http.ResponseWriter, r *http.Request) error {
	repl := r.Context().Value(caddy.ReplacerCtxKey).(*caddy.Replacer)
	got := seen{header: r.Header.Clone(), length: r.ContentLength, status: repl.ReplaceAll("{http.filters.json_field.status}", "")}
	body, err := io.ReadAll(r.Body)
	got.body = string(body)
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.requests = append(s.requests, got)
	return nil
}

// taken returns the request that has come through since the last call, nil if none has.
func (s *site) taken() *seen {
	s.mu.Lock()
	defer s.mu.Unlock()
	got := s.requests
	s.requests = nil
	if len(got) == 0 {
		return nil
	}
	return &got[len(got)-1]
}

// client returns a client that speaks HTTP/1 or HTTP/2 without TLS, until the test ends.
func client(t testing.TB, http2 bool) *http.Client {
	t.Helper()
	transport := &http.Transport{Protocols: new(http.Protocols), DisableCompression: true}
	transport.Protocols.SetHTTP1(!http2)
	transport.Protocols.SetUnencryptedHTTP2(http2)
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport, Timeout: sites.Patience}
}

// unsized hides the length of a body.
type unsized struct{ io.Reader }

// post sends a body, and returns the answer and what has come through. Headers are `name: value`; "chunked" has the body
// go without a length.
func (s *site) post(t testing.TB, c *http.Client, body string, headers ...string) (*http.Response, *seen) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	for _, header := range headers {
		if header == "chunked" {
			req.Body, req.ContentLength = io.NopCloser(unsized{req.Body}), -1
			continue
		}
		name, value, _ := strings.Cut(header, ": ")
		req.Header[name] = append(req.Header[name], value)
	}
	res, err := c.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	if _, err := io.Copy(io.Discard, res.Body); err != nil {
		t.Fatal(err)
	}
	return res, s.taken()
}

// want is what is to become of a request.
type want struct {
	// status is that of the answer; 200 says that the request has come through, as it was.
	status int
	// result is the result of the filter, header the value of X-Model; both count only with 200.
	result, header string
}

// check sends a body and checks what becomes of it.
func (s *site) check(t *testing.T, c *http.Client, body string, w want, headers ...string) {
	t.Helper()
	res, got := s.post(t, c, body, headers...)
	switch {
	case res.StatusCode != w.status || (got != nil) != (w.status == http.StatusOK):
		t.Errorf("%.60q: got %d, come through %v, want %d", body, res.StatusCode, got != nil, w.status)
	case got != nil && (got.body != body || got.status != w.result || strings.Join(got.header["X-Model"], ",") != w.header):
		t.Errorf("%.60q: got %.60q, %q, X-Model %q, want %q, %q", body, got.body, got.status, got.header["X-Model"], w.result, w.header)
	case got != nil && !slices.Contains(new(Filter).DeclaredResults()[statusKey], got.status):
		t.Errorf("%.60q: got %q, which is not declared", body, got.status)
	}
}
