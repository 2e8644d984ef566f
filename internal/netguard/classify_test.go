package netguard

import (
	"net/netip"
	"strings"
	"testing"
)

// edges has a row for each range: its first and last address, and the classes of the addresses just outside of it.
// Invalid stands for "there is no such address". A range that another one begins or ends is written without it.
var edges = []struct {
	name          string
	class         Class
	first, last   string
	before, after Class
}{
	{"0.0.0.0/32", Unspecified, "0.0.0.0", "0.0.0.0", Invalid, CurrentNetwork},
	{"0.0.0.0/8", CurrentNetwork, "0.0.0.1", "0.255.255.255", Unspecified, Public},
	{"10.0.0.0/8", Private, "10.0.0.0", "10.255.255.255", Public, Public},
	{"100.64.0.0/10", CGNAT, "100.64.0.0", "100.127.255.255", Public, Public},
	{"127.0.0.0/8", Loopback, "127.0.0.0", "127.255.255.255", Public, Public},
	{"169.254.0.0/16", LinkLocal, "169.254.0.0", "169.254.255.255", Public, Public},
	{"172.16.0.0/12", Private, "172.16.0.0", "172.31.255.255", Public, Public},
	{"192.168.0.0/16", Private, "192.168.0.0", "192.168.255.255", Public, Public},
	{"224.0.0.0/4", Multicast, "224.0.0.0", "239.255.255.255", Public, Reserved},
	{"240.0.0.0/4", Reserved, "240.0.0.0", "255.255.255.254", Multicast, Broadcast},
	{"255.255.255.255/32", Broadcast, "255.255.255.255", "255.255.255.255", Reserved, Invalid},
	{"::/128", Unspecified, "::", "::", Invalid, Loopback},
	{"::1/128", Loopback, "::1", "::1", Unspecified, V4Compatible},
	{"::/96", V4Compatible, "::2", "::255.255.255.255", Loopback, Public},
	{"64:ff9b::/96", NAT64, "64:ff9b::", "64:ff9b::255.255.255.255", Public, Public},
	{"64:ff9b:1::/48", NAT64, "64:ff9b:1::", "64:ff9b:1:ffff:ffff:ffff:ffff:ffff", Public, Public},
	{"2001::/32", Teredo, "2001::", "2001:0:ffff:ffff:ffff:ffff:ffff:ffff", Public, Public},
	{"2002::/16", SixToFour, "2002::", "2002:ffff:ffff:ffff:ffff:ffff:ffff:ffff", Public, Public},
	{"fc00::/7", UniqueLocal, "fc00::", "fdff:ffff:ffff:ffff:ffff:ffff:ffff:ffff", Public, Public},
	{"fe80::/10", LinkLocal, "fe80::", "febf:ffff:ffff:ffff:ffff:ffff:ffff:ffff", Public, SiteLocal},
	{"fec0::/10", SiteLocal, "fec0::", "feff:ffff:ffff:ffff:ffff:ffff:ffff:ffff", LinkLocal, Multicast},
	{"ff00::/8", Multicast, "ff00::", "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff", SiteLocal, Invalid},
}

// mapped returns an IPv4 address in its IPv4-mapped form.
func mapped(addr netip.Addr) netip.Addr { return netip.AddrFrom16(addr.As16()) }

func TestT77_EndsOfRangesAreRefused(t *testing.T) {
	for _, tc := range edges {
		t.Run("T77_"+tc.name, func(t *testing.T) {
			for _, s := range []string{tc.first, tc.last} {
				if got := Classify(netip.MustParseAddr(s)); got != tc.class {
					t.Errorf("%s: got %v, want %v", s, got, tc.class)
				}
			}
		})
	}
}

func TestT78_NeighboursOfRanges(t *testing.T) {
	for _, tc := range edges {
		t.Run("T78_"+tc.name, func(t *testing.T) {
			if before := netip.MustParseAddr(tc.first).Prev(); Classify(before) != tc.before {
				t.Errorf("%v: got %v, want %v", before, Classify(before), tc.before)
			}
			if after := netip.MustParseAddr(tc.last).Next(); Classify(after) != tc.after {
				t.Errorf("%v: got %v, want %v", after, Classify(after), tc.after)
			}
		})
	}
}

// TestT79_IPv4MappedAddresses has all rows of IPv4 again in the form ::ffff:a.b.c.d.
func TestT79_IPv4MappedAddresses(t *testing.T) {
	for _, tc := range edges {
		first, last := netip.MustParseAddr(tc.first), netip.MustParseAddr(tc.last)
		if !first.Is4() {
			continue
		}
		t.Run("T79_"+tc.name, func(t *testing.T) {
			for _, addr := range []netip.Addr{first, last} {
				if got := Classify(mapped(addr)); got != tc.class {
					t.Errorf("%v: got %v, want %v", mapped(addr), got, tc.class)
				}
			}
		})
	}
	// What lies around the mapped addresses is IPv6 as any other.
	for _, s := range []string{"::fffe:ffff:ffff", "::1:0:0:0", "::ffff:8.8.8.8"} {
		if got := Classify(netip.MustParseAddr(s)); got != Public {
			t.Errorf("%s: got %v, want %v", s, got, Public)
		}
	}
}

func TestZ107_Addresses(t *testing.T) {
	for _, tc := range []struct {
		addr string
		want Class
	}{
		{"127.0.0.1", Loopback},
		{"::1", Loopback},
		{"::ffff:127.0.0.1", Loopback},
		{"169.254.169.254", LinkLocal},
		{"0.0.0.0", Unspecified},
		{"::", Unspecified},
		{"10.1.2.3", Private},
		{"fd00::1", UniqueLocal},
		{"64:ff9b::7f00:1", NAT64},
		{"64:ff9b:1::8.8.8.8", NAT64},
		{"::127.0.0.1", V4Compatible},
		{"2002:7f00:1::", SixToFour},
		{"2001:0:4136:e378:8000:63bf:3fff:fdd2", Teredo},
	} {
		t.Run("Z107_"+tc.addr, func(t *testing.T) {
			if got := Classify(netip.MustParseAddr(tc.addr)); got != tc.want {
				t.Errorf("got %v, want %v", got, tc.want)
			}
		})
	}
}

func TestPublicAddresses(t *testing.T) {
	for _, s := range []string{
		"8.8.8.8", "1.1.1.1", "192.0.2.1", "198.51.100.1", "203.0.113.1", "198.18.0.1", "192.0.0.1",
		"2001:db8::1", "2606:4700::1111", "2001:4860:4860::8888", "3fff::1",
	} {
		if got := Classify(netip.MustParseAddr(s)); got != Public {
			t.Errorf("%s: got %v, want %v", s, got, Public)
		}
	}
}

func TestZonesAndTheZeroAddress(t *testing.T) {
	for _, tc := range []struct {
		addr netip.Addr
		want Class
	}{
		{netip.Addr{}, Invalid},
		{netip.MustParseAddr("fe80::1%eth0"), Zoned},
		{netip.MustParseAddr("2606:4700::1111%1"), Zoned},
		{mapped(netip.MustParseAddr("8.8.8.8")).WithZone("eth0"), Zoned},
	} {
		if got := Classify(tc.addr); got != tc.want {
			t.Errorf("%v: got %v, want %v", tc.addr, got, tc.want)
		}
	}
}

func TestClassNames(t *testing.T) {
	seen := make(map[string]Class)
	for class := range Class(len(classNames)) {
		name := class.String()
		if name == "" || strings.ToLower(name) != name || strings.ContainsAny(name, " -") {
			t.Errorf("class %d: got name %q", class, name)
		}
		if other, ok := seen[name]; ok {
			t.Errorf("%q: got classes %d and %d", name, other, class)
		}
		seen[name] = class
	}
	if got := Class(len(classNames)).String(); got != "unknown" {
		t.Errorf("got %q, want %q", got, "unknown")
	}
}

func TestClassifyAllocatesNothing(t *testing.T) {
	addr := netip.MustParseAddr("2606:4700::1111")
	if got := testing.AllocsPerRun(100, func() { Classify(addr) }); got != 0 {
		t.Errorf("got %v allocations, want 0", got)
	}
}

func BenchmarkClassify(b *testing.B) {
	for _, s := range []string{"8.8.8.8", "2606:4700::1111"} {
		addr := netip.MustParseAddr(s)
		b.Run(s, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				Classify(addr)
			}
		})
	}
}
