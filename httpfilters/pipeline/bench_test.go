package pipeline

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
)

// nowhere is a response writer that keeps nothing. It counts what comes by ReadFrom.
type nowhere struct {
	header http.Header
	copied int
}

func (w *nowhere) Header() http.Header         { return w.header }
func (w *nowhere) Write(p []byte) (int, error) { return len(p), nil }
func (w *nowhere) WriteHeader(int)             {}

func (w *nowhere) ReadFrom(r io.Reader) (int64, error) {
	w.copied++
	return io.Copy(io.Discard, r)
}

// headerFilters are filters for headers in both directions.
func headerFilters() []entry {
	value := []string{"1"}
	set := onRequest(func(x *Exchange) error { x.Request().Header["X-Seen"] = value; return nil })
	answer := onResponse(func(x *Exchange) error { x.Response().Header["X-Seen"] = value; return nil })
	return []entry{
		{name: "one", request: set},
		{name: "two", response: answer},
		{name: "three", request: set, response: answer, log: onLog(func(*Exchange) {})},
	}
}

// TestAllocations: a pipeline that doesn't look at bodies allocates nothing.
func TestAllocations(t *testing.T) {
	for name, entries := range map[string][]entry{"empty": nil, "headers": headerFilters()} {
		t.Run(name, func(t *testing.T) {
			serve := prepareBench(newHandler(t, entries...))
			if got := testing.AllocsPerRun(1000, serve); got > 0 {
				t.Errorf("got %v allocations, want none", got)
			}
		})
	}
}

// BenchmarkPipeline measures what a pipeline adds to the handler behind it, which does nothing.
func BenchmarkPipeline(b *testing.B) {
	for _, bench := range []struct {
		name    string
		entries []entry
		none    bool
	}{{name: "none", none: true}, {name: "empty"}, {name: "headers", entries: headerFilters()}} {
		b.Run(bench.name, func(b *testing.B) {
			serve := prepareBench(newHandler(b, bench.entries...))
			if bench.none {
				serve = prepareBench(nil)
			}
			b.ReportAllocs()
			for b.Loop() {
				serve()
			}
		})
	}
}

// prepareBench returns a function that has the handler serve one request, always the same.
func prepareBench(h *Handler) func() {
	w := &nowhere{header: make(http.Header)}
	r := httptest.NewRequest(http.MethodGet, "/", nil)
	r = caddyhttp.PrepareRequest(r, caddy.NewReplacer(), w, new(caddyhttp.Server))
	body := []byte("ok")
	next := caddyhttp.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) error {
		w.WriteHeader(http.StatusOK)
		_, err := w.Write(body)
		return err
	})
	return func() {
		var err error
		if h == nil {
			err = next(w, r)
		} else {
			err = h.ServeHTTP(w, r, next)
		}
		if err != nil {
			panic(err)
		}
	}
}

// TestReadFrom: what goes out without filters that look at it goes the fastest way that there is.
func TestReadFrom(t *testing.T) {
	look := onResponseBody{Wish{Access: ReadOnly}, func(*Exchange, *Chunk) (Action, error) { return Continue, nil }}
	for name, tc := range map[string]struct {
		entries []entry
		want    int
	}{
		"headers":       {headerFilters(), 1},
		"request body":  {[]entry{{name: "a", requestBody: onRequestBody{Wish{Access: ReadWrite}, upper}}}, 1},
		"response body": {[]entry{{name: "a", responseBody: look}}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			w := &nowhere{header: make(http.Header)}
			r := httptest.NewRequest(http.MethodPost, "/", strings.NewReader("body"))
			r = caddyhttp.PrepareRequest(r, caddy.NewReplacer(), w, new(caddyhttp.Server))
			err := newHandler(t, tc.entries...).ServeHTTP(w, r, caddyhttp.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) error {
				_, err := io.Copy(w, io.LimitReader(strings.NewReader(strings.Repeat("x", 1<<20)), 1<<20))
				return err
			}))
			if err != nil || w.copied != tc.want {
				t.Errorf("got %d calls of ReadFrom, %v, want %d", w.copied, err, tc.want)
			}
		})
	}
}
