package pipeline

import (
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/quic-go/quic-go/http3"

	"github.com/caddy-sluice/sluice/internal/bodypipe"
	"github.com/caddy-sluice/sluice/internal/testkit/certs"
	"github.com/caddy-sluice/sluice/internal/testkit/sites"
)

// newSite3 serves a backend, the default one without it, behind a handler by HTTP/3, and returns a client for it.
func newSite3(t testing.TB, h *Handler, backend http.HandlerFunc) (*site, *http.Client) {
	t.Helper()
	cert, _ := certs.New(t, "h3.test")
	conn, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := prepareSite(h)
	s.backend = backend
	s.Server = &httptest.Server{URL: "https://" + conn.LocalAddr().String()}
	server := &http3.Server{Handler: s, TLSConfig: http3.ConfigureTLSConfig(&tls.Config{Certificates: []tls.Certificate{cert}})}
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = server.Serve(conn)
	}()
	transport := &http3.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}} //nolint:gosec // a test
	t.Cleanup(func() {
		transport.Close()
		server.Close()
		conn.Close()
		<-done
	})
	return s, &http.Client{Transport: transport, Timeout: sites.Patience}
}

// Bodies and trailers by HTTP/3.
func TestHTTP3(t *testing.T) {
	for name, wish := range map[string]Wish{"stream": streamed, "write": writing, "whole": rewrite} {
		t.Run(name, func(t *testing.T) {
			h := newHandler(t, onBodies("f", wish, upperIf(wish)))
			s, client := newSite3(t, h, func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("Trailer", "X-Sum")
				_, err := io.Copy(w, r.Body)
				if err != nil {
					t.Error(err)
				}
				w.Header().Set("X-Sum", "1")
			})
			for _, body := range []string{"", "hello", strings.Repeat("x", 200000)} {
				res := s.send(t, client, http.MethodPost, body)
				if res.ProtoMajor != 3 || res.StatusCode != http.StatusOK || !strings.EqualFold(res.body, body) || res.err != nil {
					t.Errorf("got %s %d, %d bytes, %v", res.Proto, res.StatusCode, len(res.body), res.err)
				}
				if sum := res.Trailer.Get("X-Sum"); sum != "1" {
					t.Errorf("got trailers %v", res.Trailer)
				}
			}
			s.idle(t)
		})
	}
}

// Limits, stalls and clients that leave, by HTTP/3.
func TestHTTP3Failures(t *testing.T) {
	wish := Wish{Access: ReadOnly, Mode: Buffer, Max: 100}
	for name, c := range map[string]struct {
		timeout time.Duration
		want    error
		count   string
	}{
		"stalls": {shortTimeout, errStalled, "body_timeout 1"},
		"leaves": {time.Hour, errClientGone, "client_gone 1"},
		"long":   {time.Hour, bodypipe.ErrTooLarge, "body_too_large 1"},
	} {
		t.Run(name, func(t *testing.T) {
			end, over := ended()
			h := impatient(t, wish, end)
			h.BodyTimeout = caddy.Duration(c.timeout)
			s, client := newSite3(t, h, nil)
			check := watchCounts(t)
			r, w := io.Pipe()
			defer w.Close()
			ctx, cancel := cancelled(t)
			req := s.request(t, http.MethodPost, "").WithContext(ctx)
			req.Body, req.ContentLength = r, -1
			status := make(chan int, 1)
			go func() {
				res, err := client.Do(req)
				if err != nil {
					status <- 0
					return
				}
				res.Body.Close()
				status <- res.StatusCode
			}()
			_, _ = io.WriteString(w, "abc")
			switch name {
			case "leaves":
				eventually(t, "it is held", func() bool { return h.budget.Held.Load() > 0 })
				cancel()
			case "long":
				_, _ = io.WriteString(w, strings.Repeat("x", 98))
			}
			if err := within(t, "the log", over); !errors.Is(err, c.want) {
				t.Errorf("got %v, want %v", err, c.want)
			}
			want := map[string]int{"stalls": http.StatusRequestTimeout, "long": http.StatusRequestEntityTooLarge}[name]
			if got := within(t, "the answer", status); got != want {
				t.Errorf("got status %d, want %d", got, want)
			}
			check(c.count)
			if requests := s.taken(); len(requests) > 0 {
				t.Errorf("got %v at the backend", requests)
			}
			s.idle(t)
		})
	}
}
