package guarddial

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/dns/dnsmessage"

	"github.com/caddy-sluice/sluice/internal/netguard"
	"github.com/caddy-sluice/sluice/internal/testkit/dns"
)

const name = "upstream.example.test"

// resolverOf returns a resolver for which every name has these addresses.
func resolverOf(t *testing.T, list ...string) *net.Resolver {
	t.Helper()
	addrs := make([]netip.Addr, 0, len(list))
	for _, s := range list {
		addrs = append(addrs, netip.MustParseAddr(s))
	}
	return dns.Serve(t, func(string, dnsmessage.Type) []netip.Addr { return addrs })
}

// listen returns a listener on a loopback address, and its port.
func listen(t *testing.T) (net.Listener, uint16) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { listener.Close() })
	return listener, netip.MustParseAddrPort(listener.Addr().String()).Port()
}

// nobodyCame checks that the next connection that the listener accepts is one made now.
func nobodyCame(t *testing.T, listener net.Listener) {
	t.Helper()
	probe, err := net.Dial("tcp", listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer probe.Close()
	conn, err := listener.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if conn.RemoteAddr().String() != probe.LocalAddr().String() {
		t.Errorf("got a connection from %v before the one from %v", conn.RemoteAddr(), probe.LocalAddr())
	}
}

// dialled records the addresses that a dialer connects to. Whatever the address, the connection is one end of a pipe.
type dialled []string

func (d *dialled) dial(_ context.Context, _ *net.Dialer, address string) (net.Conn, error) {
	*d = append(*d, address)
	conn, other := net.Pipe()
	return conn, other.Close()
}

// wantRefused checks that an error is a refusal, of this name and address.
func wantRefused(t *testing.T, err error, host, addr string) {
	t.Helper()
	refused, ok := errors.AsType[*netguard.Refused](err)
	if !ok {
		t.Fatalf("got %v, want a refusal of %s", err, addr)
	}
	if refused.Name != host || refused.Addr.String() != addr {
		t.Errorf("got %+v, want %s, %s", refused, host, addr)
	}
}

func TestT76_NameOfThisHost(t *testing.T) {
	listener, port := listen(t)
	d := Dialer{Resolver: resolverOf(t, "127.0.0.1")}
	_, err := d.Dial(t.Context(), name, port, true)
	wantRefused(t, err, name, "127.0.0.1")
	if !strings.Contains(err.Error(), "allow_private") {
		t.Errorf("got %v, want the setting that would permit it", err)
	}
	nobodyCame(t, listener)
}

func TestZ107_NothingIsSent(t *testing.T) {
	for _, addr := range []string{
		"127.0.0.1", "::1", "::ffff:127.0.0.1", "169.254.169.254", "0.0.0.0", "::", "10.1.2.3", "fc00::1", "fd00::1",
		"64:ff9b::7f00:1", "::ffff:10.0.0.1",
	} {
		unmapped := netip.MustParseAddr(addr).Unmap().String()
		t.Run("Z107_name_"+addr, func(t *testing.T) {
			var got dialled
			d := Dialer{Resolver: resolverOf(t, addr), dial: got.dial}
			_, err := d.Dial(t.Context(), name, 80, true)
			wantRefused(t, err, name, unmapped)
			if len(got) != 0 {
				t.Errorf("got %v dialled", got)
			}
		})
		t.Run("Z107_literal_"+addr, func(t *testing.T) {
			var got dialled
			d := Dialer{dial: got.dial}
			_, err := d.Dial(t.Context(), addr, 80, false)
			wantRefused(t, err, addr, unmapped)
			if len(got) != 0 {
				t.Errorf("got %v dialled", got)
			}
		})
	}
}

func TestT80_OneRefusedAddressRefusesTheName(t *testing.T) {
	for _, tc := range []struct {
		name string
		list []string
	}{
		{"T80_public_first", []string{"192.0.2.1", "10.0.0.1"}},
		{"T80_private_first", []string{"10.0.0.1", "192.0.2.1"}},
		{"Z109_behind_what_is_tried", append(slices.Repeat([]string{"192.0.2.1"}, maxAttempts), "10.0.0.1")},
		{"Z109_of_the_other_family", []string{"2001:db8::1", "10.0.0.1"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var got dialled
			d := Dialer{Resolver: resolverOf(t, tc.list...), dial: got.dial}
			_, err := d.Dial(t.Context(), name, 80, true)
			wantRefused(t, err, name, "10.0.0.1")
			if len(got) != 0 {
				t.Errorf("got %v dialled", got)
			}
		})
	}
}

// TestModes dials this host in all ways.
func TestModes(t *testing.T) {
	_, port := listen(t)
	for _, tc := range []struct {
		name    string
		mode    netguard.Mode
		host    string
		trusted bool
		refused bool
	}{
		{"dns_literal_of_the_operator", netguard.DNS, "127.0.0.1", true, false},
		{"dns_mapped_literal_of_the_operator", netguard.DNS, "[::ffff:127.0.0.1]", true, false},
		{"dns_literal_of_a_client", netguard.DNS, "127.0.0.1", false, true},
		{"dns_name_of_the_operator", netguard.DNS, name, true, true},
		{"dns_name_of_a_client", netguard.DNS, name, false, true},
		{"T81_strict_literal_of_the_operator", netguard.Strict, "127.0.0.1", true, true},
		{"strict_name_of_the_operator", netguard.Strict, name, true, true},
		{"strict_literal_of_a_client", netguard.Strict, "127.0.0.1", false, true},
		{"T82_off_name_of_the_operator", netguard.Off, name, true, false},
		{"T82_off_literal_of_the_operator", netguard.Off, "127.0.0.1", true, false},
		{"T82_off_literal_of_a_client", netguard.Off, "127.0.0.1", false, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			d := Dialer{Resolver: resolverOf(t, "127.0.0.1"), Mode: tc.mode}
			conn, err := d.Dial(t.Context(), tc.host, port, tc.trusted)
			if tc.refused {
				wantRefused(t, err, tc.host, "127.0.0.1")
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			conn.Close()
		})
	}
}

// TestT83_Rebinding has a name server that answers with a public address at first, and with this host from then on.
func TestT83_Rebinding(t *testing.T) {
	var lookups int
	resolver := dns.Serve(t, func(_ string, question dnsmessage.Type) []netip.Addr {
		if question != dnsmessage.TypeA {
			return []netip.Addr{}
		}
		if lookups++; lookups == 1 {
			return []netip.Addr{netip.MustParseAddr("192.0.2.1")}
		}
		return []netip.Addr{netip.MustParseAddr("127.0.0.1")}
	})
	var got dialled
	d := Dialer{Resolver: resolver, dial: got.dial}
	conn, err := d.Dial(t.Context(), name, 443, true)
	if err != nil {
		t.Fatal(err)
	}
	conn.Close()
	if want := []string{"192.0.2.1:443"}; !slices.Equal(got, want) || lookups != 1 {
		t.Errorf("Z108: got %v dialled after %d lookups, want %v after one", got, lookups, want)
	}
	_, err = d.Dial(t.Context(), name, 443, true)
	wantRefused(t, err, name, "127.0.0.1")
	if len(got) != 1 {
		t.Errorf("got %v dialled", got)
	}
}

// TestTheSocketIsJudgedToo has an address changed between the check and the connection.
func TestTheSocketIsJudgedToo(t *testing.T) {
	listener, port := listen(t)
	target := netip.AddrPortFrom(netip.MustParseAddr("127.0.0.1"), port).String()
	d := Dialer{Resolver: resolverOf(t, "192.0.2.1")}
	d.dial = func(ctx context.Context, dialer *net.Dialer, _ string) (net.Conn, error) {
		return dialTCP(ctx, dialer, target)
	}
	_, err := d.Dial(t.Context(), name, port, true)
	wantRefused(t, err, name, "127.0.0.1")
	nobodyCame(t, listener)
	if err := judge(name)(t.Context(), "tcp", "example.test:80", nil); err == nil {
		t.Error("got no error for an address that can't be read")
	}
}

func TestResolveErrors(t *testing.T) {
	for _, tc := range []struct {
		name     string
		resolver *net.Resolver
		host     string
	}{
		{"no_such_name", dns.Serve(t, func(string, dnsmessage.Type) []netip.Addr { return nil }), name},
		{"no_addresses", resolverOf(t), name},
		{"empty", resolverOf(t, "192.0.2.1"), ""},
		{"one_bracket", dns.Serve(t, func(string, dnsmessage.Type) []netip.Addr { return nil }), "[::1"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			d := Dialer{Resolver: tc.resolver}
			_, err := d.Dial(t.Context(), tc.host, 80, true)
			failed, ok := errors.AsType[*ResolveError](err)
			if !ok || failed.Host != tc.host {
				t.Fatalf("got %v, want a resolve error", err)
			}
			if _, ok := errors.AsType[*net.DNSError](err); !ok {
				t.Errorf("got %v, want the resolver's error in it", err)
			}
		})
	}
}

// TestT45_ResolverHangs checks that the context bounds the lookup, and how its end is told.
func TestT45_ResolverHangs(t *testing.T) {
	d := Dialer{Resolver: dns.Serve(t, func(string, dnsmessage.Type) []netip.Addr {
		<-t.Context().Done()
		return nil
	})}
	start := time.Now()
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	_, err := d.Dial(ctx, name, 80, true)
	if _, ok := errors.AsType[*ResolveError](err); !ok || !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v, want a resolve error for %v", err, context.DeadlineExceeded)
	}
	// The resolver itself would go on for ten seconds.
	if took := time.Since(start); took > 4*time.Second {
		t.Errorf("got an answer after %v", took)
	}
	gone, leave := context.WithCancel(t.Context())
	leave()
	if _, err := d.Dial(gone, name, 80, true); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want %v", err, context.Canceled)
	}
}

// TestEnvironment checks that proxy variables are not looked at.
func TestEnvironment(t *testing.T) {
	proxy, proxyPort := listen(t)
	_, port := listen(t)
	for _, variable := range []string{"HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"} {
		t.Setenv(variable, "http://"+netip.AddrPortFrom(netip.MustParseAddr("127.0.0.1"), proxyPort).String())
	}
	var d Dialer
	conn, err := d.Dial(t.Context(), "127.0.0.1", port, true)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	nobodyCame(t, proxy)
}

// TestDefaultResolver checks that a dialer without a resolver asks the process's.
func TestDefaultResolver(t *testing.T) {
	before := net.DefaultResolver
	t.Cleanup(func() { net.DefaultResolver = before })
	net.DefaultResolver = resolverOf(t, "10.0.0.1")
	_, err := new(Dialer).Dial(t.Context(), name, 80, true)
	wantRefused(t, err, name, "10.0.0.1")
}
