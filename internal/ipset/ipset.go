// Package ipset answers whether an IP address lies in one of many networks.
package ipset

import (
	"net/netip"
	"slices"
)

// mappedBits is the length of the prefix ::ffff:0:0, in which IPv4 addresses are written as IPv6.
const mappedBits = 96

// Set is a set of addresses. The zero value is empty. It is immutable and safe for concurrent use.
type Set struct {
	// networks are in order and have no address in common, so that only one of them can have a given address: the last
	// that does not begin behind it.
	networks []netip.Prefix
}

// New returns the set of the addresses in any of the networks, which must be valid. Host bits don't count. A network of
// IPv4-mapped IPv6 addresses stands for the IPv4 network that it is.
func New(networks []netip.Prefix) Set {
	sorted := make([]netip.Prefix, len(networks))
	for i, network := range networks {
		sorted[i] = unmap(network).Masked()
	}
	slices.SortFunc(sorted, func(a, b netip.Prefix) int {
		if c := a.Addr().Compare(b.Addr()); c != 0 {
			return c
		}
		return a.Bits() - b.Bits() // the wider one first: it has the others in it
	})
	disjoint := sorted[:0]
	for _, network := range sorted {
		if n := len(disjoint); n > 0 && disjoint[n-1].Contains(network.Addr()) {
			continue
		}
		disjoint = append(disjoint, network)
	}
	return Set{slices.Clip(disjoint)}
}

func unmap(network netip.Prefix) netip.Prefix {
	if !network.Addr().Is4In6() || network.Bits() < mappedBits {
		return network
	}
	return netip.PrefixFrom(network.Addr().Unmap(), network.Bits()-mappedBits)
}

// Contains says whether the address is in the set. An IPv4-mapped address is the IPv4 address that it is, and a zone
// does not count. No set has the zero Addr in it.
func (s Set) Contains(addr netip.Addr) bool {
	addr = addr.Unmap().WithZone("")
	i, found := slices.BinarySearchFunc(s.networks, addr, func(network netip.Prefix, addr netip.Addr) int {
		return network.Addr().Compare(addr)
	})
	if found {
		return true
	}
	return i > 0 && s.networks[i-1].Contains(addr)
}

// Len returns the number of networks that are left when none lies in another.
func (s Set) Len() int { return len(s.networks) }
