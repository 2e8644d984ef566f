package clusterproxy

import (
	"net"
	"net/http"
	"net/netip"
	"strings"
	"testing"

	"golang.org/x/net/dns/dnsmessage"

	"github.com/caddy-sluice/sluice/internal/guarddial"
	"github.com/caddy-sluice/sluice/internal/testkit/dns"
)

// named returns a site whose one endpoint is a name at a port, and what the name server says of it.
func named(t *testing.T, address string, answer dns.Answer, settings, transport object) *site {
	t.Helper()
	_, port, err := net.SplitHostPort(address)
	if err != nil {
		t.Fatal(err)
	}
	s := newSite(t, web([]string{net.JoinHostPort("api.example.com", port)}, settings), object{"transport": transport})
	h := s.handler.(*Handler)
	h.links.names.Resolver = dns.Serve(t, answer)
	h.only.dialer = guarddial.Dialer{Mode: h.only.cluster.Guard(), Lookup: h.links.names.Lookup}
	return s
}

// answers says the same of every name.
func answers(addrs ...string) dns.Answer {
	return func(string, dnsmessage.Type) []netip.Addr {
		var list []netip.Addr
		for _, a := range addrs {
			list = append(list, netip.MustParseAddr(a))
		}
		return list
	}
}

// TestGuard checks that a name which leads to where it must not is refused, whatever the connection begins with, and that
// nothing is sent, nothing tried again and nobody blamed.
func TestGuard(t *testing.T) {
	http1, proxied := object{"protocol": "http"}, object{"protocol": "http", "proxy_protocol": "v2"}
	secure := object{"tls": object{"insecure_skip_verify": true}}
	for _, tc := range []struct {
		name      string
		answer    dns.Answer
		settings  object
		transport object
		method    string
	}{
		{"Z107_H127_loopback", answers("127.0.0.1"), nil, http1, "GET"},
		{"Z107_loopback_of_IPv6", answers("::1"), nil, http1, "GET"},
		{"Z107_mapped", answers("::ffff:127.0.0.1"), nil, http1, "GET"},
		{"Z107_metadata", answers("169.254.169.254"), nil, http1, "GET"},
		{"Z107_NAT64", answers("64:ff9b::7f00:1"), nil, http1, "GET"},
		{"Z109_good_first", answers("192.0.2.1", "127.0.0.1"), nil, http1, "GET"},
		{"Z109_bad_first", answers("127.0.0.1", "192.0.2.1"), nil, http1, "GET"},
		{"Z111_TLS", answers("127.0.0.1"), secure, http1, "GET"},
		{"Z111_PROXY", answers("127.0.0.1"), nil, proxied, "GET"},
		{"Z111_PROXY_and_TLS", answers("127.0.0.1"), secure, proxied, "GET"},
		{"Z112_POST", answers("127.0.0.1"), nil, http1, "POST"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			b := newRaw(t, func(int, net.Conn) {})
			s := named(t, b.address, tc.answer, with(tc.settings, object{"passive": object{"fall": 9}}), tc.transport)
			r := s.do(t, tc.method, "")
			r.want(t, http.StatusBadGateway)
			for _, want := range []string{"cluster web", `"api.example.com"`, "allow_private"} {
				if !strings.Contains(r.body, want) {
					t.Errorf("got %q, want it to name %s", r.body, want)
				}
			}
			if got := s.placeholder("attempts"); got != "1" {
				t.Errorf("got %s attempts, want 1", got)
			}
			if got := b.accepted.Load(); got != 0 {
				t.Errorf("got %d connections, want 0", got)
			}
			_, port, _ := net.SplitHostPort(b.address)
			if got := failuresOf(t, "api.example.com:"+port); got != 0 {
				t.Errorf("got a streak of %d failures, want 0", got)
			}
			s.idle(t)
		})
	}
}

// TestGuardPermits checks what the guard lets through.
func TestGuardPermits(t *testing.T) {
	b := newBackend(t, echo)
	t.Run("H128_literal", func(t *testing.T) {
		newSite(t, web([]string{b.address}, nil), nil).get(t).want(t, http.StatusOK)
	})
	t.Run("allow_private", func(t *testing.T) {
		s := named(t, b.address, answers("127.0.0.1"), object{"allow_private": true}, object{"protocol": "http"})
		s.get(t).want(t, http.StatusOK)
	})
	t.Run("second_address", func(t *testing.T) {
		s := named(t, b.address, answers("127.0.0.9", "127.0.0.1"), object{"allow_private": true}, object{"protocol": "http"})
		s.get(t).want(t, http.StatusOK)
	})
	t.Run("Z110_forward_proxy_of_the_environment", func(t *testing.T) {
		t.Setenv("HTTP_PROXY", "http://"+dead(t))
		t.Setenv("http_proxy", "http://"+dead(t))
		s := newSite(t, web([]string{b.address}, nil), nil)
		s.get(t).want(t, http.StatusOK)
	})
}

// TestUnknownName checks that a name without addresses is a failure to connect.
func TestUnknownName(t *testing.T) {
	live := newBackend(t, echo)
	s := newSite(t, web([]string{"nowhere.example.com:80", live.address}, nil), nil)
	h := s.handler.(*Handler)
	h.links.names.Resolver = dns.Serve(t, func(string, dnsmessage.Type) []netip.Addr { return nil })
	s.get(t).want(t, http.StatusOK)
	if got := s.placeholder("attempts") + s.placeholder("failure"); got != "2connect" {
		t.Errorf("got %s, want 2 attempts, the first a failure to connect", got)
	}
}
