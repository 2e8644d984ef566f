package ipset

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"strings"
	"testing"
)

// networks parses prefixes.
func networks(t testing.TB, text string) []netip.Prefix {
	t.Helper()
	var list []netip.Prefix
	for word := range strings.FieldsSeq(text) {
		prefix, err := netip.ParsePrefix(word)
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, prefix)
	}
	return list
}

func TestContains(t *testing.T) {
	for _, tc := range []struct {
		networks, addr string
		want           bool
	}{
		{"", "10.0.0.1", false},
		{"", "::1", false},
		{"10.0.0.0/8", "10.0.0.0", true},
		{"10.0.0.0/8", "10.255.255.255", true},
		{"10.0.0.0/8", "9.255.255.255", false},
		{"10.0.0.0/8", "11.0.0.0", false},
		{"10.1.2.3/8", "10.200.0.1", true}, // host bits don't count
		{"10.0.0.1/32", "10.0.0.1", true},
		{"10.0.0.1/32", "10.0.0.2", false},
		{"10.0.0.0/8 10.1.0.0/16", "10.2.0.1", true}, // the smaller one does not hide the wider
		{"10.1.0.0/16 10.0.0.0/8", "10.1.0.1", true},
		{"10.0.0.0/8 10.0.0.0/16", "10.9.0.1", true}, // both begin at one address
		{"10.0.0.0/16 10.0.0.0/16", "10.0.0.1", true},
		{"10.0.0.0/25 10.0.0.128/25", "10.0.0.200", true},
		{"10.0.0.0/9 10.128.0.0/9 12.0.0.0/8", "11.0.0.1", false},
		{"0.0.0.0/0", "255.255.255.255", true},
		{"0.0.0.0/0", "::ffff:1.2.3.4", true},
		{"0.0.0.0/0", "::1", false},
		{"::/0", "2001:db8::1", true},
		{"::/0", "1.2.3.4", false},
		{"2001:db8::/32", "2001:db8:ffff::1", true},
		{"2001:db8::/32", "2001:db9::", false},
		{"fe80::/10", "fe80::1%eth0", true}, // a zone does not count
		{"10.0.0.0/8", "::ffff:10.0.0.1", true},
		{"::ffff:10.0.0.0/104", "10.0.0.1", true},
		{"::ffff:10.0.0.0/104", "11.0.0.1", false},
		{"::ffff:0.0.0.0/96", "11.0.0.1", true},
		{"::/90", "11.0.0.1", false},
	} {
		set := New(networks(t, tc.networks))
		if got := set.Contains(netip.MustParseAddr(tc.addr)); got != tc.want {
			t.Errorf("%s in %q: got %v, want %v", tc.addr, tc.networks, got, tc.want)
		}
	}
}

// TestNoAddress checks the zero values.
func TestNoAddress(t *testing.T) {
	var none Set
	if none.Contains(netip.MustParseAddr("10.0.0.1")) || none.Contains(netip.Addr{}) {
		t.Error("got an address in the zero Set")
	}
	if New(networks(t, "0.0.0.0/0 ::/0")).Contains(netip.Addr{}) {
		t.Error("got the zero Addr in a set")
	}
}

// TestInputIsKept checks that the caller's list is left as it is.
func TestInputIsKept(t *testing.T) {
	list := networks(t, "192.0.2.9/24 10.0.0.0/8 10.1.0.0/16")
	before := fmt.Sprint(list)
	if set := New(list); fmt.Sprint(list) != before || set.Len() != 2 {
		t.Errorf("got %v and %d networks, want %s and 2", list, set.Len(), before)
	}
}

// naive answers by looking at each network.
func naive(list []netip.Prefix, addr netip.Addr) bool {
	addr = addr.Unmap().WithZone("")
	for _, network := range list {
		if network.Contains(addr) {
			return true
		}
	}
	return false
}

// crowded returns an address of a small corner of the space, so that networks and addresses meet often.
func crowded(rng *rand.Rand) netip.Addr {
	v4 := netip.AddrFrom4([4]byte{10, 0, byte(rng.IntN(4)), byte(rng.IntN(256))})
	if rng.IntN(2) == 0 {
		return v4
	}
	b := v4.As16()
	b[0], b[10], b[11] = 0x20, 0, 0
	return netip.AddrFrom16(b)
}

// TestModel compares the set with a model that looks at each network.
func TestModel(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	hits := 0
	for range 2000 {
		var list []netip.Prefix
		for range rng.IntN(12) {
			addr := crowded(rng)
			list = append(list, netip.PrefixFrom(addr, addr.BitLen()-rng.IntN(12)))
		}
		set := New(list)
		for range 50 {
			addr := crowded(rng)
			got, want := set.Contains(addr), naive(list, addr)
			if got != want {
				t.Fatalf("%v in %v: got %v, want %v", addr, list, got, want)
			}
			if want {
				hits++
			}
		}
	}
	if hits < 10_000 || hits > 90_000 {
		t.Errorf("got %d hits of 100000: the model was hardly asked", hits)
	}
}

func FuzzContains(f *testing.F) {
	f.Add("10.0.0.0/8 10.1.0.0/16 2001:db8::/32", "10.1.2.3")
	f.Add("0.0.0.0/0", "::ffff:1.2.3.4")
	f.Fuzz(func(t *testing.T, text, at string) {
		addr, err := netip.ParseAddr(at)
		if err != nil {
			return
		}
		var list []netip.Prefix
		for word := range strings.FieldsSeq(text) {
			if prefix, err := netip.ParsePrefix(word); err == nil && !prefix.Addr().Is4In6() {
				list = append(list, prefix)
			}
		}
		set := New(list)
		if got, want := set.Contains(addr), naive(list, addr); got != want || set.Len() > len(list) {
			t.Errorf("%v in %v: got %v of %d, want %v", addr, list, got, set.Len(), want)
		}
	})
}

// many returns a set of n networks without an address in common.
func many(n int) Set {
	list := make([]netip.Prefix, n)
	for i := range list {
		list[i] = netip.PrefixFrom(netip.AddrFrom4([4]byte{byte(i >> 16), byte(i >> 8), byte(i), 0}), 25)
	}
	return New(list)
}

func TestNoAllocation(t *testing.T) {
	set, addr := many(100), netip.MustParseAddr("::ffff:0.0.1.1")
	if got := testing.AllocsPerRun(100, func() { set.Contains(addr) }); got != 0 {
		t.Errorf("got %v allocations, want none", got)
	}
}

func BenchmarkContains(b *testing.B) {
	for _, n := range []int{10, 1000, 100_000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			set, addr := many(n), netip.MustParseAddr("0.0.9.200")
			b.ReportAllocs()
			for b.Loop() {
				set.Contains(addr)
			}
		})
	}
}
