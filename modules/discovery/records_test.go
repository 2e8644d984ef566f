package discovery

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/miekg/dns"

	"github.com/caddy-sluice/sluice/internal/testkit/modules"
)

const (
	service = "_api._tcp.example.test"
	host    = "api.example.test"
)

// provision returns the source of settings.
func provision(t *testing.T, d *Discover) *source {
	t.Helper()
	found, err := d.Provision(modules.Context(t))
	if err != nil {
		t.Fatal(err)
	}
	return found.(*source)
}

// srv returns the source for the service, asked for at name servers.
func srv(t *testing.T, servers ...string) *source {
	t.Helper()
	return provision(t, &Discover{SRV: &SRV{Name: service, Resolvers: servers}})
}

// addrs returns the source for the host, asked for at name servers.
func addrs(t *testing.T, servers ...string) *source {
	t.Helper()
	return provision(t, &Discover{A: &A{Name: host, Port: 8080, Resolvers: servers}})
}

// wantFound looks and checks what was found: host:port/priority/weight, in order.
func wantFound(t *testing.T, s Source, want ...string) time.Duration {
	t.Helper()
	_, again := wantFoundAfter(t, s, nil, want...)
	return again
}

// wantFoundAfter is wantFound where something is known already.
func wantFoundAfter(t *testing.T, s Source, known []Endpoint, want ...string) (found []Endpoint, again time.Duration) {
	t.Helper()
	found, again, err := s.Lookup(t.Context(), known)
	if err != nil {
		t.Fatal(err)
	}
	got := make([]string, 0, len(found))
	for _, e := range found {
		got = append(got, fmt.Sprintf("%s/%d/%d", net.JoinHostPort(e.Host, fmt.Sprint(e.Port)), e.Priority, e.Weight))
	}
	if !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	return found, again
}

// wantFailure looks and checks the error, and that one looks again soon.
func wantFailure(t *testing.T, s Source, want ...string) {
	t.Helper()
	found, again, err := s.Lookup(t.Context(), nil)
	if err == nil || found != nil {
		t.Fatalf("got %v, %v, want an error", found, err)
	}
	for _, part := range want {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("got %v, want %q in it", err, part)
		}
	}
	if again != retryAfter {
		t.Errorf("got the next lookup after %v, want %v", again, retryAfter)
	}
}

func TestSRV(t *testing.T) {
	const owner = service + ". 60 IN SRV "
	for _, tc := range []struct {
		name    string
		records []string
		want    []string
	}{
		{"tiers_and_weights", []string{owner + "20 5 80 c.test.", owner + "10 7 80 b.test.", owner + "10 3 81 a.test."}, []string{
			"a.test:81/10/3", "b.test:80/10/7", "c.test:80/20/5",
		}},
		{"weight_0_beside_others", []string{owner + "10 0 80 a.test.", owner + "10 65535 80 b.test.", owner + "20 2 80 c.test."}, []string{
			"a.test:80/10/1", "b.test:80/10/1048560", "c.test:80/20/2",
		}},
		{"weight_0_alone", []string{owner + "10 0 80 a.test.", owner + "10 0 80 b.test."}, []string{"a.test:80/10/1", "b.test:80/10/1"}},
		{"doubles", []string{owner + "20 9 80 A.test.", owner + "10 1 80 a.test.", owner + "10 2 80 a.TEST.", owner + "10 1 81 a.test."}, []string{
			"a.test:80/10/2", "a.test:81/10/1",
		}},
		{"not_available", []string{owner + "0 0 0 ."}, nil},
		{"not_available_beside_others", []string{owner + "0 0 0 .", owner + "0 1 80 a.test."}, []string{"a.test:80/0/1"}},
		{"unusable_beside_others", []string{owner + "0 1 0 b.test.", owner + "0 1 80 b\\.\\ c.test.", owner + "0 1 80 a.test."}, []string{"a.test:80/0/1"}},
		{"alias", []string{service + ". 60 IN CNAME other.test.", "other.test. 60 IN SRV 1 1 80 a.test."}, []string{"a.test:80/1/1"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			_, server := zoneOf(t, tc.records...)
			wantFound(t, srv(t, server), tc.want...)
		})
	}
}

func TestA(t *testing.T) {
	for _, tc := range []struct {
		name    string
		records []string
		want    []string
	}{
		{"both_families", []string{host + ". 60 IN AAAA 2001:db8::1", host + ". 60 IN A 192.0.2.2", host + ". 60 IN A 192.0.2.1"}, []string{
			"192.0.2.1:8080/0/1", "192.0.2.2:8080/0/1", "[2001:db8::1]:8080/0/1",
		}},
		{"ipv6_only", []string{host + ". 60 IN AAAA 2001:db8::1"}, []string{"[2001:db8::1]:8080/0/1"}},
		{"doubles", []string{host + ". 60 IN A 192.0.2.1", host + ". 60 IN AAAA ::ffff:192.0.2.1"}, []string{"192.0.2.1:8080/0/1"}},
		{"aliases", []string{
			host + ". 60 IN CNAME b.test.", "B.test. 60 IN CNAME c.test.", "c.test. 60 IN A 192.0.2.1", "other.test. 60 IN A 192.0.2.9",
		}, []string{"192.0.2.1:8080/0/1"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			_, server := zoneOf(t, tc.records...)
			wantFound(t, addrs(t, server), tc.want...)
		})
	}
}

func TestNextLookup(t *testing.T) {
	for _, tc := range []struct {
		name    string
		refresh time.Duration
		records []string
		want    time.Duration
	}{
		{"refresh", 0, []string{host + ". 60 IN A 192.0.2.1"}, 30 * time.Second},
		{"ttl", time.Minute, []string{host + ". 60 IN A 192.0.2.1", host + ". 7 IN AAAA 2001:db8::1"}, 7 * time.Second},
		{"ttl_of_an_alias", time.Minute, []string{host + ". 3 IN CNAME b.test.", "b.test. 60 IN A 192.0.2.1"}, 3 * time.Second},
		{"floor", time.Minute, []string{host + ". 0 IN A 192.0.2.1"}, time.Second},
		{"first_bit", time.Minute, []string{host + ". 2147483648 IN A 192.0.2.1"}, time.Second},
	} {
		t.Run(tc.name, func(t *testing.T) {
			_, server := zoneOf(t, tc.records...)
			s := provision(t, &Discover{Refresh: caddy.Duration(tc.refresh), A: &A{Name: host, Port: 1, Resolvers: []string{server}}})
			if _, got, err := s.Lookup(t.Context(), nil); err != nil || got != tc.want {
				t.Errorf("got %v, %v, want %v", got, err, tc.want)
			}
		})
	}
}

func TestNoAnswer(t *testing.T) {
	noData := rcode(dns.RcodeSuccess)
	authority := func(network string, query *dns.Msg) *dns.Msg {
		reply := noData(network, query)
		reply.Authoritative = true
		return reply
	}
	another := func(network string, query *dns.Msg) *dns.Msg {
		reply := noData(network, query)
		reply.Question[0].Name = "other.test."
		return reply
	}
	for _, tc := range []struct {
		name   string
		handle func(string, *dns.Msg) *dns.Msg
		want   string
	}{
		{"no_such_name", rcode(dns.RcodeNameError), "has no records of type SRV"},
		{"no_records", authority, "has no records of type SRV"},
		{"refused", rcode(dns.RcodeRefused), "REFUSED"},
		{"failed", rcode(dns.RcodeServerFailure), "SERVFAIL"},
		{"does_not_resolve", noData, "does not resolve names"},
		{"of_another_question", another, "another question"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			z := &zone{handle: tc.handle}
			wantFailure(t, srv(t, z.serve(t)), service, tc.want)
		})
	}
	t.Run("only_unusable_records", func(t *testing.T) {
		_, server := zoneOf(t, service+". 60 IN SRV 1 1 0 a.test.")
		wantFailure(t, srv(t, server), service, "a.test", "port 0")
	})
}

func TestTruncatedAnswers(t *testing.T) {
	var records, want []string
	for i := range 100 {
		records = append(records, fmt.Sprintf("%s. 60 IN SRV 1 1 80 a-long-name-of-an-endpoint-%03d.example.test.", service, i))
		want = append(want, fmt.Sprintf("a-long-name-of-an-endpoint-%03d.example.test:80/1/1", i))
	}
	z, server := zoneOf(t, records...)
	wantFound(t, srv(t, server), want...)
	if got := z.questions(); !slices.Equal(got, []string{"udp " + service + ". SRV", "tcp " + service + ". SRV"}) {
		t.Errorf("got the questions %v", got)
	}
}

func TestNextServer(t *testing.T) {
	_, listening := zoneOf(t)
	closed, err := net.Dial("udp", listening) // takes a port, and refuses what comes from others than its peer
	if err != nil {
		t.Fatal(err)
	}
	defer closed.Close()
	down := &zone{handle: rcode(dns.RcodeServerFailure)}
	z, server := zoneOf(t, service+". 60 IN SRV 1 1 80 a.test.")
	wantFound(t, srv(t, closed.LocalAddr().String(), down.serve(t), server), "a.test:80/1/1")
	if len(down.questions()) != 1 || len(z.questions()) != 1 {
		t.Error("want one question to each of the servers that are there")
	}
}

// TestServerThatIsSilent checks that one that says nothing is given up after its time, and that the next one is asked then.
func TestServerThatIsSilent(t *testing.T) {
	silent := &zone{handle: func(string, *dns.Msg) *dns.Msg { return nil }}
	z, server := zoneOf(t, service+". 60 IN SRV 1 1 80 a.test.")
	start := time.Now()
	wantFound(t, srv(t, silent.serve(t), server), "a.test:80/1/1")
	if took := time.Since(start); took < serverTimeout {
		t.Errorf("got an answer after %v, want it after %v", took, serverTimeout)
	}
	// Where the machine was busy for all the time that the other one has, both are asked once more.
	if got, want := silent.questions(), z.questions(); len(got) == 0 || !slices.Equal(got, want) {
		t.Errorf("got the questions %v to the one that is silent, %v to the other", got, want)
	}
}

// TestTheCallerGoes checks that a lookup ends with its context. A time in which the machine was busy elsewhere says nothing.
func TestTheCallerGoes(t *testing.T) {
	var took time.Duration
	for range 3 {
		ctx, cancel := context.WithCancel(t.Context())
		silent := &zone{handle: func(string, *dns.Msg) *dns.Msg {
			cancel()
			return nil
		}}
		s := srv(t, silent.serve(t))
		start := time.Now()
		if _, _, err := s.Lookup(ctx, nil); !errors.Is(err, context.Canceled) {
			t.Errorf("got %v, want %v", err, context.Canceled)
		}
		if took = time.Since(start); took < serverTimeout/2 {
			return
		}
	}
	t.Errorf("got the end after %v", took)
}

// TestWithoutEDNS has a server that doesn't know EDNS0.
func TestWithoutEDNS(t *testing.T) {
	z, server := zoneOf(t, service+". 60 IN SRV 1 1 80 a.test.")
	z.use(func(network string, query *dns.Msg) *dns.Msg {
		if query.IsEdns0() != nil {
			return rcode(dns.RcodeFormatError)(network, query)
		}
		return z.lookup(network, query)
	})
	wantFound(t, srv(t, server), "a.test:80/1/1")
}

func TestLimit(t *testing.T) {
	var list []Endpoint
	for i := range maxEndpoints + 1 {
		list = append(list, Endpoint{Host: fmt.Sprintf("%04d.test", maxEndpoints-i), Port: 80, Weight: 1})
	}
	var records []string
	for _, e := range list {
		records = append(records, fmt.Sprintf("%s. 60 IN SRV 0 1 80 %s.", service, e.Host))
	}
	_, server := zoneOf(t, records...)
	s := srv(t, server)
	found, _, err := s.Lookup(t.Context(), nil)
	if err != nil || len(found) != maxEndpoints || found[0].Host != "0000.test" || found[maxEndpoints-1].Host != "0999.test" {
		t.Fatalf("got %d endpoints, %v, want the first %d", len(found), err, maxEndpoints)
	}
	if !s.tooMany.Load() {
		t.Error("got nothing said about the one that is left out")
	}
}

// TestSystem reads the name servers and the search list from a file.
func TestSystem(t *testing.T) {
	z, server := zoneOf(t, "api.second.test. 60 IN A 192.0.2.1", "other.api.first.test. 60 IN A 192.0.2.2")
	_, port, err := net.SplitHostPort(server)
	if err != nil {
		t.Fatal(err)
	}
	conf := filepath.Join(t.TempDir(), "resolv.conf")
	if err := os.WriteFile(conf, []byte("nameserver 127.0.0.1\nsearch first.test second.test\noptions ndots:2\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	r := &resolver{conf: conf}
	if got := r.system().Servers; !slices.Equal(got, []string{"127.0.0.1:53"}) {
		t.Errorf("got the servers %v", got)
	}
	config := r.system()
	config.Servers = []string{net.JoinHostPort("127.0.0.1", port)}
	r.given = config
	for _, tc := range []struct {
		name string
		want string
		asks []string
	}{
		{"api", "192.0.2.1", []string{"udp api.first.test. A", "udp api.second.test. A"}},
		{"other.api", "192.0.2.2", []string{"udp other.api.first.test. A"}},
		{"api.second.test", "192.0.2.1", []string{"udp api.second.test. A"}},
		{"api.second.test.", "192.0.2.1", []string{"udp api.second.test. A"}},
		{"none.", "", []string{"udp none. A"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			z.questions()
			replies, err := r.find(t.Context(), tc.name, dns.TypeA)
			if tc.want == "" {
				if err == nil {
					t.Errorf("got %v, want an error", replies)
				}
			} else if err != nil || addresses(replies[0].records)[0].String() != tc.want {
				t.Errorf("got %v, %v, want %s", replies, err, tc.want)
			}
			if got := z.questions(); !slices.Equal(got, tc.asks) {
				t.Errorf("got the questions %v, want %v", got, tc.asks)
			}
		})
	}
}

// TestSearchStops checks that a name server's failure does not make another name the answer.
func TestSearchStops(t *testing.T) {
	z, server := zoneOf(t, "api.second.test. 60 IN A 192.0.2.1")
	z.use(func(network string, query *dns.Msg) *dns.Msg {
		if query.Question[0].Name == "api.first.test." {
			return rcode(dns.RcodeServerFailure)(network, query)
		}
		return z.lookup(network, query)
	})
	r := &resolver{given: &dns.ClientConfig{Servers: []string{server}, Search: []string{"first.test", "second.test"}, Ndots: 1}}
	if got, err := r.find(t.Context(), "api", dns.TypeA); err == nil {
		t.Errorf("got %v, want an error", got)
	}
}

// TestWithoutAFile asks through the process's resolver.
func TestWithoutAFile(t *testing.T) {
	z, server := zoneOf(t, service+". 1 IN SRV 1 1 80 a.test.", host+". 1 IN A 192.0.2.1", host+". 1 IN AAAA 2001:db8::1")
	plain := &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, network, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, network, server)
	}}
	r := &resolver{conf: filepath.Join(t.TempDir(), "none"), plain: plain}
	services := &source{finder: &srvFinder{name: service + ".", resolver: r}, refresh: time.Hour}
	hosts := &source{finder: &aFinder{name: host + ".", port: 80, resolver: r}, refresh: time.Hour}
	if again := wantFound(t, services, "a.test:80/1/1"); again != time.Hour {
		t.Errorf("got the next lookup after %v, want an hour", again)
	}
	wantFound(t, hosts, "192.0.2.1:80/0/1", "[2001:db8::1]:80/0/1")
	z.set(t, host+". 1 IN A 192.0.2.1")
	wantFound(t, hosts, "192.0.2.1:80/0/1")
	wantFailure(t, services, service, "has no records")
	z.use(rcode(dns.RcodeServerFailure))
	wantFailure(t, services, "server misbehaving")
}
