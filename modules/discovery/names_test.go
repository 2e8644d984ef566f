package discovery

import (
	"net/netip"
	"slices"
	"testing"

	"github.com/miekg/dns"
)

// TestOneFamilyFails checks that the addresses of a family stay while nothing is known about them, also those that a source
// before this one has found.
func TestOneFamilyFails(t *testing.T) {
	z, server := zoneOf(t, host+". 60 IN A 192.0.2.1", host+". 60 IN AAAA 2001:db8::1")
	known, _ := wantFoundAfter(t, addrs(t, server), nil, "192.0.2.1:8080/0/1", "[2001:db8::1]:8080/0/1")
	s := addrs(t, server)
	z.set(t, host+". 60 IN A 192.0.2.2")
	z.use(func(network string, query *dns.Msg) *dns.Msg {
		if query.Question[0].Qtype == dns.TypeAAAA {
			return rcode(dns.RcodeServerFailure)(network, query)
		}
		return z.lookup(network, query)
	})
	known, again := wantFoundAfter(t, s, known, "192.0.2.2:8080/0/1", "[2001:db8::1]:8080/0/1")
	if again != retryAfter {
		t.Errorf("got the next lookup after %v, want %v", again, retryAfter)
	}
	wantFoundAfter(t, s, known, "192.0.2.2:8080/0/1", "[2001:db8::1]:8080/0/1")
	z.use(nil)
	wantFoundAfter(t, s, known, "192.0.2.2:8080/0/1")
	z.set(t, host+". 60 IN TXT nothing")
	wantFailure(t, s, host, "A or AAAA")
}

// TestNames checks that the targets of SRV records are looked up where the records were, if that is said, and else by the
// system.
func TestNames(t *testing.T) {
	z, server := zoneOf(t, service+". 60 IN SRV 1 1 80 "+host+".", host+". 60 IN A 192.0.2.1", host+". 60 IN AAAA 2001:db8::1")
	names := srv(t, server).Names()
	for range 2 {
		found, err := names(t.Context(), host)
		if err != nil || !slices.Equal(found, []netip.Addr{netip.MustParseAddr("192.0.2.1"), netip.MustParseAddr("2001:db8::1")}) {
			t.Errorf("got %v, %v", found, err)
		}
	}
	if got := z.questions(); !slices.Equal(got, []string{"udp " + host + ". A", "udp " + host + ". AAAA"}) {
		t.Errorf("got the questions %v, want each once", got)
	}
	if found, err := names(t.Context(), "none.test"); err == nil {
		t.Errorf("got %v, want an error", found)
	}
	if srv(t).Names() != nil || addrs(t, server).Names() != nil {
		t.Error("got another resolver than the system's")
	}
}
