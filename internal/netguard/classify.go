// Package netguard says which addresses the proxy must not be led to: its own host, the networks around it, and the
// forms of IPv6 that carry an IPv4 address inside, so that one spelling of an address is as good as another.
//
// It judges addresses only. Whoever dials resolves the name, has all answers checked, and dials the addresses that were
// checked.
package netguard

import "net/netip"

// Class is the kind of network that an address belongs to. Every class but Public is refused.
type Class uint8

const (
	// Public is any address that is in none of the other classes. The ranges for documentation and for benchmarks
	// (RFC 5737, RFC 3849, RFC 2544) are among them: nothing is to be found there.
	Public Class = iota
	// Invalid is the zero netip.Addr.
	Invalid
	// Zoned is an address with a zone, whatever the address: it names an interface of this host.
	Zoned
	// Unspecified is 0.0.0.0 and ::, by which a connection reaches this host.
	Unspecified
	// CurrentNetwork is the rest of 0.0.0.0/8 (RFC 791 §3.2).
	CurrentNetwork
	// Loopback is 127.0.0.0/8 and ::1.
	Loopback
	// Private is 10.0.0.0/8, 172.16.0.0/12 and 192.168.0.0/16 (RFC 1918).
	Private
	// LinkLocal is 169.254.0.0/16, where clouds keep their metadata services, and fe80::/10.
	LinkLocal
	// CGNAT is 100.64.0.0/10 (RFC 6598).
	CGNAT
	// UniqueLocal is fc00::/7 (RFC 4193).
	UniqueLocal
	// SiteLocal is fec0::/10, which unique local addresses replaced (RFC 3879).
	SiteLocal
	// Multicast is 224.0.0.0/4 and ff00::/8.
	Multicast
	// Reserved is 240.0.0.0/4 without the broadcast address (RFC 1112 §4).
	Reserved
	// Broadcast is 255.255.255.255.
	Broadcast
	// NAT64 is 64:ff9b::/96 (RFC 6052) and 64:ff9b:1::/48 (RFC 8215), whatever the IPv4 address inside.
	NAT64
	// V4Compatible is ::/96 without :: and ::1 (RFC 4291 §2.5.5.1).
	V4Compatible
	// SixToFour is 2002::/16 (RFC 3056).
	SixToFour
	// Teredo is 2001::/32 (RFC 4380).
	Teredo
)

// classNames has a name for each class.
var classNames = [...]string{
	Public:         "public",
	Invalid:        "invalid",
	Zoned:          "zoned",
	Unspecified:    "unspecified",
	CurrentNetwork: "current_network",
	Loopback:       "loopback",
	Private:        "private",
	LinkLocal:      "link_local",
	CGNAT:          "cgnat",
	UniqueLocal:    "unique_local",
	SiteLocal:      "site_local",
	Multicast:      "multicast",
	Reserved:       "reserved",
	Broadcast:      "broadcast",
	NAT64:          "nat64",
	V4Compatible:   "v4_compatible",
	SixToFour:      "6to4",
	Teredo:         "teredo",
}

// String returns the name of the class in snake_case; "unknown" for a value that is no class.
func (c Class) String() string {
	if int(c) >= len(classNames) {
		return "unknown"
	}
	return classNames[c]
}

// classRange is a prefix and the class of its addresses.
type classRange struct {
	prefix netip.Prefix
	class  Class
}

// ranges4 and ranges6 are all ranges that are refused. The first one that holds an address counts.
var (
	ranges4 = []classRange{
		{netip.MustParsePrefix("0.0.0.0/32"), Unspecified},
		{netip.MustParsePrefix("0.0.0.0/8"), CurrentNetwork},
		{netip.MustParsePrefix("10.0.0.0/8"), Private},
		{netip.MustParsePrefix("100.64.0.0/10"), CGNAT},
		{netip.MustParsePrefix("127.0.0.0/8"), Loopback},
		{netip.MustParsePrefix("169.254.0.0/16"), LinkLocal},
		{netip.MustParsePrefix("172.16.0.0/12"), Private},
		{netip.MustParsePrefix("192.168.0.0/16"), Private},
		{netip.MustParsePrefix("224.0.0.0/4"), Multicast},
		{netip.MustParsePrefix("255.255.255.255/32"), Broadcast},
		{netip.MustParsePrefix("240.0.0.0/4"), Reserved},
	}
	ranges6 = []classRange{
		{netip.MustParsePrefix("::/128"), Unspecified},
		{netip.MustParsePrefix("::1/128"), Loopback},
		{netip.MustParsePrefix("::/96"), V4Compatible},
		{netip.MustParsePrefix("64:ff9b::/96"), NAT64},
		{netip.MustParsePrefix("64:ff9b:1::/48"), NAT64},
		{netip.MustParsePrefix("2001::/32"), Teredo},
		{netip.MustParsePrefix("2002::/16"), SixToFour},
		{netip.MustParsePrefix("fc00::/7"), UniqueLocal},
		{netip.MustParsePrefix("fe80::/10"), LinkLocal},
		{netip.MustParsePrefix("fec0::/10"), SiteLocal},
		{netip.MustParsePrefix("ff00::/8"), Multicast},
	}
)

// Classify returns the class of an address. An IPv4-mapped IPv6 address is judged as the IPv4 address.
func Classify(addr netip.Addr) Class {
	if !addr.IsValid() {
		return Invalid
	}
	if addr.Zone() != "" {
		return Zoned
	}
	addr = addr.Unmap()
	ranges := ranges6
	if addr.Is4() {
		ranges = ranges4
	}
	for _, r := range ranges {
		if r.prefix.Contains(addr) {
			return r.class
		}
	}
	return Public
}
