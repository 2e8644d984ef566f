package clusterproxy

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
)

// describe answers with how the request came.
func describe(w http.ResponseWriter, r *http.Request) {
	name := ""
	if r.TLS != nil {
		name = r.TLS.ServerName
	}
	fmt.Fprintf(w, "%s host=%s sni=%s", r.Proto, r.Host, name)
}

// secure starts an endpoint that speaks TLS, with HTTP/2 or without.
func secure(t testing.TB, h2 bool, h http.HandlerFunc) *backend {
	t.Helper()
	b := unstarted(h)
	b.EnableHTTP2 = h2
	b.StartTLS()
	return b.started(t)
}

func TestTLS(t *testing.T) {
	trusting := object{"tls": object{"insecure_skip_verify": true, "server_name": "api.internal"}}
	for _, tc := range []struct {
		name      string
		h2        bool
		settings  object
		transport object
		proto     string
	}{
		{"of_the_cluster", false, trusting, nil, "HTTP/1.1"},
		{"HTTP2", true, trusting, nil, "HTTP/2.0"},
		{"HTTP2_not_wanted", true, trusting, object{"versions": []string{"1.1"}}, "HTTP/1.1"},
		{"of_the_transport", true, nil, trusting, "HTTP/2.0"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			b := secure(t, tc.h2, describe)
			s := newSite(t, web([]string{b.address}, tc.settings), object{"transport": with(object{"protocol": "http"}, tc.transport)})
			for range 2 {
				r := s.get(t)
				r.want(t, http.StatusOK)
				if want := fmt.Sprintf("%s host=%s sni=api.internal", tc.proto, b.address); r.body != want {
					t.Errorf("got %q, want %q", r.body, want)
				}
			}
			if got := b.accepted.Load(); got != 1 {
				t.Errorf("got %d connections, want 1", got)
			}
			s.idle(t)
			s.unused(t)
		})
	}
	t.Run("host_of_the_operator", func(t *testing.T) {
		b := secure(t, false, describe)
		headers := object{"request": object{"set": object{"host": []string{"{http.request.host}"}}}}
		s := newSite(t, web([]string{b.address}, trusting), object{"headers": headers})
		if r := s.get(t); !strings.Contains(r.body, "host=127.0.0.1 ") {
			t.Errorf("got %q, want the host that the client asked for", r.body)
		}
	})
	t.Run("C3_failed_handshake_is_a_connect_failure", func(t *testing.T) {
		untrusted := secure(t, false, describe)
		s := newSite(t, web([]string{untrusted.address}, object{"tls": object{}}), nil)
		s.get(t).want(t, http.StatusBadGateway)
		if got := s.placeholder("attempts") + s.placeholder("failure"); got != "4connect" {
			t.Errorf("got %s, want 4 attempts that failed to connect", got)
		}
	})
	t.Run("another_protocol_over_TLS_with_an_endpoint_that_has_HTTP2", func(t *testing.T) {
		b := secure(t, true, func(w http.ResponseWriter, r *http.Request) {
			fmt.Fprint(w, r.Proto, " ", r.Header.Get("Upgrade"))
		})
		s := newSite(t, web([]string{b.address}, trusting), object{"allow_upgrade": []string{"custom"}})
		s.get(t).want(t, http.StatusOK)
		_, _, res := s.shake(t, "Connection: Upgrade", "Upgrade: custom")
		if body, _ := io.ReadAll(res.Body); string(body) != "HTTP/1.1 custom" {
			t.Errorf("got %q", body)
		}
	})
	t.Run("WebSocket_over_TLS_with_an_endpoint_that_has_HTTP2", func(t *testing.T) {
		b := secure(t, true, func(w http.ResponseWriter, r *http.Request) {
			fmt.Fprint(w, r.Proto, " ", r.Header.Get("Upgrade"))
		})
		s := newSite(t, web([]string{b.address}, trusting), nil)
		s.get(t).want(t, http.StatusOK)
		_, _, res := s.shake(t, wsHeaders...)
		if body, _ := io.ReadAll(res.Body); string(body) != "HTTP/1.1 websocket" {
			t.Errorf("got %q", body)
		}
	})
}

// unused checks that the connection which is left isn't counted.
func (s *site) unused(t testing.TB) {
	t.Helper()
	eventually(t, "idle connections only", func() bool { serving, pending := connections(); return serving == 0 && pending == 0 })
}

// TestCleartextHTTP2 checks HTTP/2 without TLS, with a trailer.
func TestCleartextHTTP2(t *testing.T) {
	b := unstarted(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Trailer", "Grpc-Status")
		fmt.Fprint(w, r.Proto)
		_ = http.NewResponseController(w).Flush()
		w.Header().Set("Grpc-Status", "0")
	})
	b.Config.Protocols = new(http.Protocols)
	b.Config.Protocols.SetUnencryptedHTTP2(true)
	b.Start()
	b.started(t)
	s := newSite(t, web([]string{b.address}, object{"per_try_timeout": int64(ample)}), object{"transport": object{"protocol": "http", "versions": []string{"h2c"}}})
	t.Run("Z95_Z102_h2c_with_a_trailer", func(t *testing.T) {
		res, err := s.Client().Get(s.URL)
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		if body, _ := io.ReadAll(res.Body); string(body) != "HTTP/2.0" || res.Trailer.Get("Grpc-Status") != "0" {
			t.Errorf("got %q with trailer %v", body, res.Trailer)
		}
		s.idle(t)
		s.unused(t)
	})
}

// TestPROXYHeader checks that endpoints get the header first, with TLS and without, and a connection for each client.
func TestPROXYHeader(t *testing.T) {
	headers := make(chan string, 8)
	plain := newBackend(t, describe)
	withTLS := secure(t, true, describe)
	front := func(address string) *raw {
		return newRaw(t, func(_ int, c net.Conn) {
			line, err := bufio.NewReaderSize(oneByte{c}, 16).ReadString('\n')
			if err != nil {
				return
			}
			headers <- line
			relay(c, address)
		})
	}
	for _, tc := range []struct {
		name, address       string
		settings, transport object
	}{
		{"of_the_cluster", front(plain.address).address, object{"proxy_protocol": "v1"}, nil},
		{"of_the_transport", front(plain.address).address, nil, object{"proxy_protocol": "v1"}},
		{"with_TLS", front(withTLS.address).address, object{"proxy_protocol": "v1", "tls": object{"insecure_skip_verify": true}}, nil},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := newSite(t, web([]string{tc.address}, tc.settings), object{"transport": with(object{"protocol": "http"}, tc.transport)})
			s.get(t).want(t, http.StatusOK)
			if got := <-headers; !strings.HasPrefix(got, "PROXY TCP4 127.0.0.1 0.0.0.0 ") {
				t.Errorf("got %q", got)
			}
			s.idle(t)
		})
	}
}

// oneByte reads one byte at a time, so that nothing behind what is looked for is taken.
type oneByte struct{ io.Reader }

func (r oneByte) Read(p []byte) (int, error) { return r.Reader.Read(p[:1]) }

// TestUnixSocket checks an endpoint behind a unix socket.
func TestUnixSocket(t *testing.T) {
	path := filepath.Join(t.TempDir(), "api.sock")
	ln, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	b := unstarted(echo)
	_ = b.Listener.Close()
	b.Listener = ln
	b.Start()
	b.started(t)
	s := newSite(t, web([]string{"unix/" + path}, nil), nil)
	s.do(t, "POST", "hello").want(t, http.StatusOK)
	if got := s.placeholder("endpoint"); got != "unix/"+path {
		t.Errorf("got endpoint %s", got)
	}
}

// TestStreaming checks that nothing is held back on the way.
func TestStreaming(t *testing.T) {
	t.Run("Z101_server_sent_events", func(t *testing.T) {
		next := make(chan struct{})
		b := newBackend(t, func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "text/event-stream")
			for n := range 3 {
				fmt.Fprintf(w, "data: %d\n\n", n)
				_ = http.NewResponseController(w).Flush()
				select {
				case <-next:
				case <-r.Context().Done():
				}
			}
		})
		s := newSite(t, web([]string{b.address}, nil), object{"flush_interval": -1})
		res, err := s.Client().Get(s.URL)
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		in := bufio.NewReader(res.Body)
		for n := range 3 {
			if got, err := in.ReadString('\n'); got != fmt.Sprintf("data: %d\n", n) {
				t.Fatalf("got %q, %v", got, err)
			}
			_, _ = in.ReadString('\n')
			next <- struct{}{}
		}
		s.idle(t)
	})
	t.Run("both_ways_at_once", func(t *testing.T) {
		b := newBackend(t, func(w http.ResponseWriter, r *http.Request) {
			_ = http.NewResponseController(w).EnableFullDuplex()
			in := bufio.NewReader(r.Body)
			for {
				line, err := in.ReadString('\n')
				if err != nil {
					return
				}
				fmt.Fprint(w, line)
				_ = http.NewResponseController(w).Flush()
			}
		})
		s := newSite(t, web([]string{b.address}, nil), nil)
		body, client := io.Pipe()
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		r := s.request(t, "POST", "/", "").WithContext(ctx)
		r.Body, r.ContentLength = body, -1
		s.duplex = true
		go fmt.Fprint(client, "one\n")
		res, err := s.Client().Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		in := bufio.NewReader(res.Body)
		if got, err := in.ReadString('\n'); got != "one\n" {
			t.Fatalf("got %q, %v", got, err)
		}
		_ = client.Close()
		_, _ = io.Copy(io.Discard, in)
		s.idle(t)
	})
}
