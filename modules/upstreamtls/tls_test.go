package upstreamtls

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/caddy-sluice/sluice/internal/testkit/certs"
	"github.com/caddy-sluice/sluice/internal/testkit/conns"
	"github.com/caddy-sluice/sluice/internal/testkit/modules"
)

// client makes the client that settings stand for.
func client(t *testing.T, settings *TLS) *Client {
	t.Helper()
	c, err := settings.Client(modules.Context(t))
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// trusting returns settings that trust the certificate in a file.
func trusting(file string) *TLS {
	return &TLS{TLSConfig: pool(file)}
}

// upstream is a listener that makes handshakes, and tells the name and the protocol of each.
func upstream(t *testing.T, config *tls.Config) (address string, seen <-chan string) {
	t.Helper()
	names := make(chan string, 100)
	return conns.Serve(t, func(conn net.Conn) {
		secured := tls.Server(conn, config)
		if secured.Handshake() == nil {
			state := secured.ConnectionState()
			names <- state.ServerName + " " + state.NegotiatedProtocol
			_, _ = io.Copy(io.Discard, secured)
		}
	}).String(), names
}

// handshake connects to an upstream, and returns the error of the handshake.
func handshake(t *testing.T, c *Client, address, host string, alpn ...string) error {
	t.Helper()
	conn, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	secured, err := c.Handshake(t.Context(), conn, host, alpn...)
	if err != nil && secured != nil {
		t.Errorf("got a connection with the error %v", err)
	}
	return err
}

// TestHandshake checks what an upstream is asked for, and what its certificate must have.
func TestHandshake(t *testing.T) {
	cert, file := certs.New(t, "backend.example.test")
	named := func(name string) func(*TLS) { return func(s *TLS) { s.ServerName = name } }
	offering := func(names ...string) func(*TLS) { return func(s *TLS) { s.ALPN = names } }
	as := func(*TLS) {}
	for _, tc := range []struct {
		name   string
		change func(*TLS)
		host   string
		alpn   []string
		// seen is what the upstream sees; empty if the handshake fails.
		seen string
	}{
		{"host_is_a_name", as, "backend.example.test", nil, "backend.example.test "},
		{"host_is_an_address", as, "127.0.0.1", nil, " "},
		{"host_is_another_name", as, "other.example.test", nil, ""},
		{"host_is_another_address", as, "127.0.0.9", nil, ""},
		{"server_name_before_host", named("backend.example.test"), "other.example.test", nil, "backend.example.test "},
		{"server_name_is_another", named("other.example.test"), "backend.example.test", nil, ""},
		{"server_name_from_environment", named("{env.UPSTREAMTLS_NAME}"), "127.0.0.1", nil, "backend.example.test "},
		{"unverified", func(s *TLS) { s.InsecureSkipVerify = true }, "other.example.test", nil, "other.example.test "},
		{"unverified_without_a_name", func(s *TLS) { s.InsecureSkipVerify = true }, "", nil, " "},
		{"offers_of_the_caller", as, "127.0.0.1", []string{"xmpp", "mqtt"}, " mqtt"},
		{"offers_of_the_settings", offering("h2"), "127.0.0.1", []string{"mqtt"}, " h2"},
		{"offers_that_nobody_wants", offering("xmpp"), "127.0.0.1", nil, ""},
		{"no_offers", as, "127.0.0.1", nil, " "},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Setenv("UPSTREAMTLS_NAME", "backend.example.test")
			address, seen := upstream(t, &tls.Config{Certificates: []tls.Certificate{cert}, NextProtos: []string{"h2", "mqtt"}})
			settings := trusting(file)
			tc.change(settings)
			err := handshake(t, client(t, settings), address, tc.host, tc.alpn...)
			if tc.seen == "" {
				if err == nil || !strings.HasPrefix(err.Error(), "TLS handshake: ") {
					t.Errorf("got error %v, want one of the handshake", err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if got := <-seen; got != tc.seen {
				t.Errorf("got %q at the upstream, want %q", got, tc.seen)
			}
		})
	}
}

// TestUntrusted checks that a certificate which nobody vouches for is refused, whatever its name is.
func TestUntrusted(t *testing.T) {
	cert, _ := certs.New(t, "backend.example.test")
	address, _ := upstream(t, &tls.Config{Certificates: []tls.Certificate{cert}})
	err := handshake(t, client(t, new(TLS)), address, "backend.example.test")
	if _, ok := errors.AsType[*tls.CertificateVerificationError](err); !ok {
		t.Errorf("got error %v, want one about the certificate", err)
	}
}

// TestSharedConfig makes handshakes at the same time that differ: none changes what another asks for.
func TestSharedConfig(t *testing.T) {
	cert, file := certs.New(t, "a.example.test", "b.example.test")
	address, seen := upstream(t, &tls.Config{Certificates: []tls.Certificate{cert}, NextProtos: []string{"h2", "mqtt"}})
	c := client(t, trusting(file))
	want := map[string]int{"a.example.test h2": 8, "b.example.test mqtt": 8, "a.example.test ": 8}
	var wait sync.WaitGroup
	for key, times := range want {
		name, protocol, _ := strings.Cut(key, " ")
		for range times {
			wait.Go(func() {
				var offers []string
				if protocol != "" {
					offers = []string{protocol}
				}
				if err := handshake(t, c, address, name, offers...); err != nil {
					t.Errorf("%s: %v", key, err)
				}
			})
		}
	}
	wait.Wait()
	got := make(map[string]int)
	for range 24 {
		got[<-seen]++
	}
	for key, times := range want {
		if got[key] != times {
			t.Errorf("%q: got %d handshakes, want %d", key, got[key], times)
		}
	}
	if c.Config.ServerName != "" || len(c.Config.NextProtos) > 0 {
		t.Errorf("got %q, %q in the config, want it as it was", c.Config.ServerName, c.Config.NextProtos)
	}
}

// TestHandshakeEnds has an upstream that is silent: the timeout ends the handshake, and so does the context.
func TestHandshakeEnds(t *testing.T) {
	for name, timeout := range map[string]time.Duration{"handshake_timeout": 50 * time.Millisecond, "context": 0} {
		t.Run(name, func(t *testing.T) {
			near, far := net.Pipe()
			defer near.Close()
			defer far.Close()
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			reading := make(chan struct{})
			go func() {
				_, _ = far.Read(make([]byte, 1))
				close(reading)
				_, _ = io.Copy(io.Discard, far)
			}()
			if timeout == 0 {
				go func() {
					<-reading
					cancel()
				}()
			}
			c := &Client{Config: new(tls.Config), HandshakeTimeout: timeout}
			_, err := c.Handshake(ctx, near, "backend.example.test")
			if !errors.Is(err, context.Canceled) && !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("got error %v, want that of the context", err)
			}
		})
	}
}

// TestRefused checks that each error names its field and says what would be right.
func TestRefused(t *testing.T) {
	for _, tc := range []struct {
		name   string
		change func(*TLS)
		err    string
	}{
		{"ports", func(s *TLS) { s.ExceptPorts = []string{"80"} }, "except_ports: is not supported"},
		{"timeout_short", func(s *TLS) { s.HandshakeTimeout = 1e6 }, "handshake_timeout: 1ms is out of range, 10ms to 5m0s"},
		{"timeout_long", func(s *TLS) { s.HandshakeTimeout = 301e9 }, "handshake_timeout: 5m1s is out of range"},
		{"timeout_negative", func(s *TLS) { s.HandshakeTimeout = -1 }, "handshake_timeout: -1ns is out of range"},
		{"alpn_empty", func(s *TLS) { s.ALPN = []string{"h2", ""} }, `alpn 1: "" must have 1 to 255 bytes`},
		{"alpn_long", func(s *TLS) { s.ALPN = []string{strings.Repeat("x", 256)} }, "must have 1 to 255 bytes"},
		{"curve", func(s *TLS) { s.Curves = []string{"none"} }, "unsupported curve: none"},
		{"name_unknown", func(s *TLS) { s.ServerName = "{l4.sluice.sni}" }, `server_name: "{l4.sluice.sni}"`},
		{"name_empty", func(s *TLS) { s.ServerName = "{env.UPSTREAMTLS_UNSET}" }, "server_name: "},
		{"certificate_without_key", func(s *TLS) { s.ClientCertificateFile = os.DevNull }, "client_certificate_key_file"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			settings := new(TLS)
			tc.change(settings)
			if _, err := settings.Client(modules.Context(t)); err == nil || !strings.Contains(err.Error(), tc.err) {
				t.Errorf("got error %v, want one with %q", err, tc.err)
			}
		})
	}
}

// TestAccepted checks settings at the ends of their ranges.
func TestAccepted(t *testing.T) {
	long := strings.Repeat("x", 255)
	for _, timeout := range []time.Duration{0, 10 * time.Millisecond, 5 * time.Minute} {
		settings := &TLS{ALPN: []string{"x", long}}
		settings.HandshakeTimeout = duration(timeout)
		c := client(t, settings)
		if c.HandshakeTimeout != timeout || len(c.Config.NextProtos) != 2 {
			t.Errorf("got %v, %q, want %v and both protocols", c.HandshakeTimeout, c.Config.NextProtos, timeout)
		}
	}
}
