// Package addrcheck finds configs in which Sluice and Caddy's HTTP app would get in each other's way.
package addrcheck

import (
	"errors"
	"fmt"
	"net/netip"
	"strings"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"github.com/mholt/caddy-l4/layer4"
)

// Handler checks the listeners of a layer4 handler, which calls it when it is provisioned. Under the HTTP app, where our
// listener wrapper shares the port on purpose, it has nothing to say.
func Handler(ctx caddy.Context) error {
	modules := ctx.Modules()
	if len(modules) == 0 {
		return nil
	}
	l4, ok := modules[0].(*layer4.App)
	if !ok {
		return nil
	}
	if err := streams(l4, ctx.Module()); err != nil {
		return err
	}
	return exclusive(ctx, l4)
}

// exclusive refuses a config in which a server of the layer4 app and one of the HTTP app listen on one address. The
// kernel would let both bind and split the connections between them at random.
func exclusive(ctx caddy.Context, l4 *layer4.App) error {
	app, err := ctx.AppIfConfigured("http")
	if errors.Is(err, caddy.ErrNotConfigured) {
		return nil
	}
	if err != nil {
		return err
	}
	for l4Name, l4Server := range l4.Servers {
		for httpName, httpServer := range app.(*caddyhttp.App).Servers {
			a, b, err := overlap(l4Server.Listen, httpServer.Listen)
			if err != nil {
				return err
			}
			if a != "" {
				return fmt.Errorf("listen: layer4 server %q (%s) and HTTP server %q (%s) share an address; "+
					"to share a port with Caddy's own sites, use the sluice listener wrapper in the HTTP server instead", l4Name, a, httpName, b)
			}
		}
	}
	return nil
}

// overlap returns the first pair of addresses, one of each list, that are served by one socket address.
func overlap(as, bs []string) (string, string, error) {
	for _, a := range as {
		for _, b := range bs {
			shared, err := shareAddress(a, b)
			if err != nil || shared {
				return a, b, err
			}
		}
	}
	return "", "", nil
}

// shareAddress says whether two of Caddy's network addresses have a socket address in common.
func shareAddress(a, b string) (bool, error) {
	x, err := parse(a)
	if err != nil {
		return false, err
	}
	y, err := parse(b)
	if err != nil {
		return false, err
	}
	if x.IsUnixNetwork() || y.IsUnixNetwork() {
		return x.IsUnixNetwork() && y.IsUnixNetwork() && socketPath(x) == socketPath(y), nil
	}
	if !strings.HasPrefix(x.Network, "tcp") || !strings.HasPrefix(y.Network, "tcp") {
		return false, nil
	}
	ports := x.StartPort <= y.EndPort && y.StartPort <= x.EndPort
	return ports && families(x)&families(y) != 0 && shareHost(x.Host, y.Host), nil
}

// The IP versions of a socket.
const (
	ipv4 = 1 << iota
	ipv6
)

// families returns the IP versions that a TCP address is for. A socket of [::] takes both.
func families(na caddy.NetworkAddress) int {
	f := ipv4 | ipv6
	if ip, err := netip.ParseAddr(na.Host); err == nil {
		switch {
		case ip.Unmap().Is4():
			f = ipv4
		case !ip.IsUnspecified():
			f = ipv6
		}
	}
	switch na.Network {
	case "tcp4":
		f &= ipv4
	case "tcp6":
		f &= ipv6
	}
	return f
}

// socketPath returns the path of a unix socket, without the permission bits that may stand behind it.
func socketPath(na caddy.NetworkAddress) string {
	path, _, _ := strings.Cut(na.Host, "|")
	return path
}

// parse reads a network address in which placeholders may stand.
func parse(addr string) (caddy.NetworkAddress, error) {
	na, err := caddy.ParseNetworkAddress(caddy.NewReplacer().ReplaceAll(addr, ""))
	if err != nil {
		return na, fmt.Errorf("listen: %w", err)
	}
	return na, nil
}

// shareHost says whether two hosts to listen on have an IP address in common. An unspecified one has all.
func shareHost(a, b string) bool {
	if a == b || unspecified(a) || unspecified(b) {
		return true
	}
	return (a == "localhost" && loopback(b)) || (b == "localhost" && loopback(a))
}

func unspecified(host string) bool {
	ip, err := netip.ParseAddr(host)
	return host == "" || err == nil && ip.IsUnspecified()
}

func loopback(host string) bool {
	ip, err := netip.ParseAddr(host)
	return err == nil && ip.IsLoopback()
}

// Sites returns the host names that Caddy's own sites answer for on the HTTP server under whose listener wrapper ctx
// is; none elsewhere.
func Sites(ctx caddy.Context) []string {
	server, ok := ctx.Value(caddyhttp.ServerCtxKey).(*caddyhttp.Server)
	if !ok {
		return nil
	}
	var hosts []string
	for _, route := range server.Routes {
		for _, set := range route.MatcherSets {
			hosts = append(hosts, hostsOf(set)...)
		}
	}
	return hosts
}

// hostsOf returns the host names in a matcher set.
func hostsOf(set caddyhttp.MatcherSet) []string {
	var hosts []string
	for _, matcher := range set {
		switch m := matcher.(type) {
		case *caddyhttp.MatchHost:
			hosts = append(hosts, *m...)
		case caddyhttp.MatchHost:
			hosts = append(hosts, m...)
		}
	}
	return hosts
}
