package forward

import (
	"bufio"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"testing"
	"time"

	"github.com/pires/go-proxyproto"

	"github.com/caddy-sluice/sluice/internal/testkit/certs"
	"github.com/caddy-sluice/sluice/modules/cluster"
	"github.com/caddy-sluice/sluice/modules/session"
)

// TestClusterDefaults checks what a cluster says about TLS and the PROXY header, and that a forward's own comes first.
func TestClusterDefaults(t *testing.T) {
	cert, file := certs.New(t, "backend.example.test")
	ca := `"ca":{"provider":"file","pem_files":["` + file + `"]}`
	for _, tc := range []struct {
		name, cluster, settings string
		version                 byte
		serverName              string
	}{
		{"E10_of_the_cluster", `,"proxy_protocol":"v1","tls":{"server_name":"backend.example.test",` + ca + `}`, ``, 1, "backend.example.test"},
		{
			"of_the_forward", `,"proxy_protocol":"v1","tls":{"server_name":"other.example.test",` + ca + `}`,
			`,"proxy_protocol":"v2","tls":{"server_name":"backend.example.test",` + ca + `}`, 2, "backend.example.test",
		},
		{"without_a_name", `,"proxy_protocol":"v2","tls":{` + ca + `}`, ``, 2, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var version byte
			serverName := "no handshake"
			address, done := backend(t, func(conn *net.TCPConn) {
				reader := bufio.NewReader(conn)
				header, err := proxyproto.Read(reader)
				if err != nil {
					t.Error(err)
					return
				}
				version = header.Version
				secured := tls.Server(&buffered{conn, reader}, &tls.Config{Certificates: []tls.Certificate{cert}})
				_, _ = io.Copy(secured, secured)
				serverName = secured.ConnectionState().ServerName
				_ = secured.CloseWrite()
			})
			s := start(t, endpoints(address)+tc.cluster, tc.settings)
			got := exchange(t, s.Handler, plain)
			<-done
			if got != session.Completed || version != tc.version || serverName != tc.serverName {
				t.Errorf("got %v, version %d, name %q, want %v, %d, %q", got, version, serverName, session.Completed, tc.version, tc.serverName)
			}
			s.wantIdle(t)
		})
	}
}

// TestHandshakeFailure checks that TLS which fails is a failure to connect: the next endpoint is tried.
func TestHandshakeFailure(t *testing.T) {
	silent, done := backend(t, func(conn *net.TCPConn) { _, _ = io.WriteString(conn, "this is no TLS") })
	e := newSecureEcho(t, nil)
	s := start(t, endpoints(silent, e.address)+first+`,"outlier":{},"tls":{"insecure_skip_verify":true}`, ``)
	if got := exchange(t, s.Handler, plain); got != session.Completed {
		t.Errorf("got %v, want %v", got, session.Completed)
	}
	<-done
	if got := s.endpoint(t, silent).ConsecutiveFailures; got != 1 {
		t.Errorf("got %d failures, want 1", got)
	}
	s.wantIdle(t)
}

// TestAttemptEnd checks how much of the time an attempt gets.
func TestAttemptEnd(t *testing.T) {
	many := endpoints("192.0.2.1:1", "192.0.2.1:2", "192.0.2.1:3", "192.0.2.1:4", "192.0.2.1:5")
	for _, tc := range []struct {
		name, endpoints, config string
		left, want              time.Duration
	}{
		{"a_single_endpoint", endpoints("192.0.2.1:1"), ``, 20 * time.Second, 20 * time.Second},
		{"one_of_two", endpoints("192.0.2.1:1", "192.0.2.1:2"), ``, 20 * time.Second, 10 * time.Second},
		{"a_quarter", many, ``, 20 * time.Second, 5 * time.Second},
		{"two_seconds_at_least", many, ``, 4 * time.Second, 2 * time.Second},
		{"all_that_is_left", many, ``, time.Second, time.Second},
		{"few_retries", many, `,"retry":{"max":1}`, 10 * time.Second, 5 * time.Second},
		{"per_try_timeout", many, `,"per_try_timeout":"1s"`, 20 * time.Second, time.Second},
		{"longer_per_try_timeout", many, `,"per_try_timeout":"1m"`, 20 * time.Second, 5 * time.Second},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := start(t, tc.endpoints+tc.config, ``)
			var l leased
			if err := s.cluster.Admit(&l.request); err != nil {
				t.Fatal(err)
			}
			defer l.end()
			now := time.Now()
			ctx, cancel := context.WithDeadline(t.Context(), now.Add(tc.left))
			defer cancel()
			if got := s.attemptEnd(ctx, &l, now).Sub(now); got != tc.want {
				t.Errorf("got %v, want %v", got, tc.want)
			}
		})
	}
}

// TestStaleLease checks that ending twice, or without an endpoint, leaves nothing counted and nothing settled twice.
func TestStaleLease(t *testing.T) {
	s := start(t, endpoints("192.0.2.1:1"), ``)
	for _, picked := range []bool{false, true} {
		var l leased
		if err := s.cluster.Admit(&l.request); err != nil {
			t.Fatal(err)
		}
		if picked {
			if err := l.request.Pick(&l.lease, cluster.Key{}); err != nil {
				t.Fatal(err)
			}
		}
		l.end()
		l.end()
		s.wantIdle(t)
	}
	if got := s.counts(t)[fmt.Sprintf("caddy_sluice_cluster_attempts_total %s 192.0.2.1:1 aborted", s.Cluster)]; got != 1 {
		t.Errorf("got %v aborted attempts, want 1", got)
	}
}
