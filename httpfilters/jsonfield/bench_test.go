package jsonfield

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
)

// BenchmarkBody has bodies with the model in front, and at the end, pass the filter and be read.
func BenchmarkBody(b *testing.B) {
	for _, size := range []int{10 << 10, 1 << 20} {
		for _, strict := range []string{on, off} {
			for _, last := range []bool{false, true} {
				b.Run(fmt.Sprintf("%dKiB_strict_%s_last_%v", size>>10, strict, last), func(b *testing.B) {
					benchmark(b, []byte(sized(size, last)), model+`,"strict":"`+strict+`"`)
				})
			}
		}
	}
}

// deadlines is a writer with deadlines, as that of a server.
type deadlines struct{ *httptest.ResponseRecorder }

func (deadlines) SetReadDeadline(time.Time) error { return nil }

func benchmark(b *testing.B, body []byte, filter string) {
	h := pipelineOf(b, filter, "")
	next := caddyhttp.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) error {
		_, err := io.Copy(io.Discard, r.Body)
		return err
	})
	w := deadlines{httptest.NewRecorder()}
	plain := httptest.NewRequest(http.MethodPost, "/", nil)
	prepared := caddyhttp.PrepareRequest(plain, caddy.NewReplacer(), w, new(caddyhttp.Server))
	header := prepared.Header
	b.SetBytes(int64(len(body)))
	b.ReportAllocs()
	for b.Loop() {
		r := *prepared
		r.Header = header
		r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
		if err := h.ServeHTTP(w, &r, next); err != nil {
			b.Fatal(err)
		}
	}
}
