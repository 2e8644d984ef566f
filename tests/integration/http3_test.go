package integration

import (
	"bytes"
	"crypto/tls"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/quic-go/quic-go/http3"
)

// TestHTTP3 asks by HTTP/3, with a body and without one.
func TestHTTP3(t *testing.T) {
	l := newLab(t)
	certFile, keyFile := l.keyPair("h3.test")
	p := l.startSites("https://h3.test:PORT {\ntls " + certFile + " " + keyFile + "\nvalidate_request\ncluster_proxy one\n}\n")
	client := &http3.Transport{TLSClientConfig: &tls.Config{ServerName: "h3.test", RootCAs: l.authority().pool}}
	defer client.Close()
	large := strings.Repeat("0123456789abcdef", 8<<10) // 128 KiB, more than is kept for another attempt
	for _, tc := range []struct{ method, body, want string }{
		{http.MethodGet, "", "one /a?b "},
		{http.MethodPost, "hello", "one /a?b hello"},
		{http.MethodPost, large, "one /a?b " + large},
	} {
		req, err := http.NewRequest(tc.method, "https://"+p.addr+"/a?b", bytes.NewReader([]byte(tc.body)))
		if err != nil {
			t.Fatal(err)
		}
		req.Host = "h3.test"
		req.Header.Set("Te", "trailers")
		res, err := client.RoundTrip(req)
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(res.Body)
		_ = res.Body.Close()
		if res.ProtoMajor != 3 || res.StatusCode != http.StatusOK || string(text) != tc.want || err != nil {
			t.Errorf("%s: got %s %s of %d bytes, %v, want HTTP/3, 200 and %d bytes", tc.method, res.Proto, res.Status, len(text), err, len(tc.want))
		}
		requests := p.origins[0].taken()
		if len(requests) != 1 {
			t.Fatalf("%s: got %d requests at the backend, want 1", tc.method, len(requests))
		}
		header := requests[0].Header
		if via := header["Via"]; len(via) != 1 || via[0] != "3.0 Caddy" || header.Get("X-Forwarded-Proto") != "https" {
			t.Errorf("%s: got Via %q and X-Forwarded-Proto %q", tc.method, via, header.Get("X-Forwarded-Proto"))
		}
		if got := res.Header["Via"]; len(got) != 1 || got[0] != "1.1 Caddy" {
			t.Errorf("%s: got Via %q in the answer", tc.method, got)
		}
	}
	t.Run("H23_reserved_header", func(t *testing.T) {
		req, err := http.NewRequest(http.MethodGet, "https://"+p.addr+"/", nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Host = "h3.test"
		req.Header.Set("X-Sluice-A", "1")
		res, err := client.RoundTrip(req)
		if err != nil {
			t.Fatal(err)
		}
		_ = res.Body.Close()
		if res.StatusCode != http.StatusBadRequest || len(p.origins[0].taken()) > 0 {
			t.Errorf("got %s, want 400 and nothing at the backend", res.Status)
		}
	})
}
