package netguard

import (
	"errors"
	"net/netip"
	"slices"
	"testing"
)

// FuzzCheck takes the bytes as a list of addresses: IPv4 if four says so, else IPv6, the first of them with the zone.
func FuzzCheck(f *testing.F) {
	for _, tc := range edges {
		first, last := netip.MustParseAddr(tc.first), netip.MustParseAddr(tc.last)
		f.Add(append(first.AsSlice(), last.AsSlice()...), first.Is4(), "")
		f.Add(append(first.Prev().AsSlice(), last.Next().AsSlice()...), first.Is4(), "")
	}
	f.Add(mapped(netip.MustParseAddr("8.8.8.8")).AsSlice(), false, "eth0")
	f.Fuzz(func(t *testing.T, data []byte, four bool, zone string) {
		size := 16
		if four {
			size = 4
		}
		var list []netip.Addr
		for chunk := range slices.Chunk(data[:len(data)-len(data)%size], size) {
			addr, _ := netip.AddrFromSlice(chunk)
			if len(list) == 0 {
				addr = addr.WithZone(zone)
			}
			list = append(list, addr)
			checkClass(t, addr)
		}
		checkList(t, list)
		slices.Reverse(list)
		checkList(t, list)
	})
}

// checkClass: an address and its IPv4-mapped form are judged the same, one with a zone is never public, and neither is
// one that the standard library has a word for.
func checkClass(t *testing.T, addr netip.Addr) {
	t.Helper()
	got := Classify(addr)
	if (addr.Zone() != "") != (got == Zoned) {
		t.Fatalf("%v: got %v", addr, got)
	}
	if addr.Zone() == "" && got != Classify(addr.Unmap()) {
		t.Fatalf("%v: got %v, unmapped %v", addr, got, Classify(addr.Unmap()))
	}
	if addr.Is4() && got != Classify(mapped(addr)) {
		t.Fatalf("%v: got %v, mapped %v", addr, got, Classify(mapped(addr)))
	}
	plain := addr.Unmap()
	special := plain.IsPrivate() || plain.IsLoopback() || plain.IsLinkLocalUnicast() || plain.IsMulticast() || plain.IsUnspecified()
	if special && got == Public {
		t.Fatalf("%v: got %v", addr, got)
	}
}

// checkList: a list is refused if and only if one of its addresses isn't public, and the first such is named.
func checkList(t *testing.T, list []netip.Addr) {
	t.Helper()
	i := slices.IndexFunc(list, func(addr netip.Addr) bool { return Classify(addr) != Public })
	err := Check("name", list)
	refused, ok := errors.AsType[*Refused](err)
	if ok != (i >= 0) || ok != (err != nil) {
		t.Fatalf("%v: got %v", list, err)
	}
	if ok && (refused.Addr != list[i] || refused.Class != Classify(list[i])) {
		t.Fatalf("%v: got %v, want %v", list, err, list[i])
	}
}
