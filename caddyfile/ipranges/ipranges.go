// Package ipranges reads lists of IP addresses and CIDR ranges as users write them.
package ipranges

import (
	"fmt"
	"net/netip"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
)

// privateRanges is the word for all private ranges, as elsewhere in Caddy.
const privateRanges = "private_ranges"

// Parse turns addresses, CIDR ranges and the word private_ranges into prefixes. Global placeholders ({env.*}) are
// replaced.
func Parse(list []string) ([]netip.Prefix, error) {
	repl := caddy.NewReplacer()
	prefixes := make([]netip.Prefix, 0, len(list))
	for _, entry := range list {
		value, err := repl.ReplaceOrErr(entry, true, true)
		if err != nil {
			return nil, fmt.Errorf("%q: %w", entry, err)
		}
		exprs := []string{value}
		if value == privateRanges {
			exprs = caddyhttp.PrivateRangesCIDR()
		}
		for _, expr := range exprs {
			prefix, err := caddyhttp.CIDRExpressionToPrefix(expr)
			if err != nil {
				return nil, fmt.Errorf("%q: is neither an IP address nor a range such as 10.0.0.0/8", entry)
			}
			prefixes = append(prefixes, unmap(prefix).Masked())
		}
	}
	return prefixes, nil
}

// unmap turns IPv4 addresses that are written as IPv6 (::ffff:10.0.0.0/104) into the IPv4 addresses they are, since a
// client's address never looks like that.
func unmap(prefix netip.Prefix) netip.Prefix {
	const mapped = 96 // bits of the prefix ::ffff:0:0
	if !prefix.Addr().Is4In6() || prefix.Bits() < mapped {
		return prefix
	}
	return netip.PrefixFrom(prefix.Addr().Unmap(), prefix.Bits()-mapped)
}
