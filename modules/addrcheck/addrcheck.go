// Package addrcheck finds configs that can't work as they are meant: Sluice and Caddy's HTTP app on one address, handlers
// in an order in which one defeats the other.
package addrcheck

import (
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"github.com/mholt/caddy-l4/layer4"
	"go.uber.org/zap"

	"github.com/caddy-sluice/sluice/modules/sluiceapp"
)

// handlersKey is what the checks of the layer4 app are made for, once per config.
type handlersKey struct{}

// Handler checks the layer4 app, for a layer4 handler that is being provisioned: the first that calls it does so for the
// whole config, since Caddy drops the JSON of a route that it has loaded. Under the HTTP app, where our listener wrapper
// shares the port on purpose and checks its routes itself, it has nothing to say.
func Handler(ctx caddy.Context) error {
	modules := ctx.Modules()
	if len(modules) == 0 {
		return nil
	}
	l4, ok := modules[0].(*layer4.App)
	if !ok {
		return nil
	}
	// This may load the HTTP app, whose handlers come here too: it must be done before the app is asked.
	web, err := ctx.AppIfConfigured("http")
	if err != nil && !errors.Is(err, caddy.ErrNotConfigured) {
		return err
	}
	app, err := sluiceapp.Of(ctx)
	if err != nil {
		return err
	}
	return app.Once(handlersKey{}, func() error { return servers(l4, web, ctx.Logger()) })
}

// servers checks all servers of the layer4 app. web is the HTTP app, or nil.
func servers(l4 *layer4.App, web any, logger *zap.Logger) error {
	if web, ok := web.(*caddyhttp.App); ok {
		if err := exclusive(l4, web); err != nil {
			return err
		}
	}
	for _, name := range slices.Sorted(maps.Keys(l4.Servers)) {
		server := l4.Servers[name]
		if err := streams(name, server); err != nil {
			return err
		}
		logger := logger.With(zap.String("server", name))
		if err := checkRoutes(server.Routes, place{}, logger); err != nil {
			return fmt.Errorf("layer4 server %q: %w", name, err)
		}
	}
	return nil
}

// Wrapper checks the routes of a listener wrapper, which calls it before it provisions them. proxied says whether the
// wrapper reads PROXY headers.
func Wrapper(ctx caddy.Context, routes layer4.RouteList, proxied bool) error {
	return checkRoutes(routes, place{handsOver: true, proxied: proxied, byWrapper: proxied}, ctx.Logger())
}

// exclusive refuses a config in which a server of the layer4 app and one of the HTTP app listen on one address. The
// kernel would let both bind and split the connections between them at random.
func exclusive(l4 *layer4.App, web *caddyhttp.App) error {
	for l4Name, l4Server := range l4.Servers {
		for httpName, httpServer := range web.Servers {
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
