package explain

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/caddyserver/caddy/v2"
)

// parseAddress reads a network address in which placeholders may stand.
func parseAddress(address string) (caddy.NetworkAddress, error) {
	na, err := caddy.ParseNetworkAddress(caddy.NewReplacer().ReplaceAll(address, ""))
	if err != nil {
		return na, fmt.Errorf("%q: %w", address, err)
	}
	return na, nil
}

// listensOn says whether a connection to want may arrive at one of the addresses.
func listensOn(listen []string, want caddy.NetworkAddress) (bool, error) {
	for _, address := range listen {
		have, err := parseAddress(address)
		if err != nil {
			return false, fmt.Errorf("listen: %w", err)
		}
		if have.IsUnixNetwork() || want.IsUnixNetwork() {
			if have.IsUnixNetwork() && want.IsUnixNetwork() && have.Host == want.Host {
				return true, nil
			}
			continue
		}
		ports := have.StartPort <= want.EndPort && want.StartPort <= have.EndPort
		if ports && (have.Host == want.Host || unspecified(have.Host) || unspecified(want.Host)) {
			return true, nil
		}
	}
	return false, nil
}

func unspecified(host string) bool {
	ip, err := netip.ParseAddr(host)
	return host == "" || err == nil && ip.IsUnspecified()
}

// onlyUDP says whether there are addresses, and no stream connection can come from them.
func onlyUDP(listen []string) bool {
	return len(listen) > 0 && !slices.ContainsFunc(listen, func(address string) bool {
		return !strings.HasPrefix(address, "udp")
	})
}

// unique sorts words and drops repetitions.
func unique(words []string) []string {
	return slices.Compact(slices.Sorted(slices.Values(words)))
}
