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
				return nil, fmt.Errorf("%q: %w", entry, err)
			}
			prefixes = append(prefixes, prefix.Masked())
		}
	}
	return prefixes, nil
}
