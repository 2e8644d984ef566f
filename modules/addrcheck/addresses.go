package addrcheck

import (
	"cmp"
	"net"
	"net/netip"
	"slices"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"github.com/mholt/caddy-l4/layer4"
)

// Listeners are the addresses that a config listens on, for finding the one that a connection came in by.
type Listeners struct {
	tcp  []listenAddress // the most specific first
	unix []listenAddress
}

// listenAddress is one address to listen on, which may be many socket addresses.
type listenAddress struct {
	// key is the address as Caddy writes it.
	key string
	// rank is smaller the fewer IP addresses it stands for.
	rank int
	// ip is the one IP address, if rank says so.
	ip          netip.Addr
	families    int
	first, last uint16
	path        string
}

// The ranks of addresses.
const (
	rankIP = iota
	rankLocalhost
	rankName
	rankUnspecified
	rankDual
)

// Addresses returns what the servers listen on that the module being provisioned may stand in: those of the layer4 app, or
// under our listener wrapper the one HTTP server.
func Addresses(ctx caddy.Context) (*Listeners, error) {
	var addrs []string
	if server, ok := ctx.Value(caddyhttp.ServerCtxKey).(*caddyhttp.Server); ok {
		addrs = server.Listen
	} else if modules := ctx.Modules(); len(modules) > 0 {
		if l4, ok := modules[0].(*layer4.App); ok {
			for _, server := range l4.Servers {
				addrs = append(addrs, server.Listen...)
			}
		}
	}
	return newListeners(addrs)
}

func newListeners(addrs []string) (*Listeners, error) {
	l := new(Listeners)
	for _, addr := range addrs {
		na, err := parse(addr)
		switch {
		case err != nil:
			return nil, err
		case na.IsUnixNetwork():
			l.unix = append(l.unix, listenAddress{key: na.Network + "/" + socketPath(na), path: socketPath(na)})
		case !na.IsFdNetwork() && !datagrams(na.Network):
			l.tcp = append(l.tcp, newListenAddress(na))
		}
	}
	// The servers come from a map: the same config must always give the same answer.
	slices.SortFunc(l.tcp, func(a, b listenAddress) int {
		return cmp.Or(a.rank-b.rank, cmp.Compare(a.last-a.first, b.last-b.first), cmp.Compare(a.key, b.key))
	})
	return l, nil
}

func newListenAddress(na caddy.NetworkAddress) listenAddress {
	a := listenAddress{
		key: na.String(), rank: rankName, families: families(na),
		first: uint16(na.StartPort), last: uint16(na.EndPort),
	}
	ip, err := netip.ParseAddr(na.Host)
	switch {
	case na.Host == "" || err == nil && ip == netip.IPv6Unspecified():
		a.rank = rankDual
	case err == nil && ip.IsUnspecified():
		a.rank = rankUnspecified
	case err == nil:
		a.rank, a.ip = rankIP, ip.Unmap().WithZone("")
	case na.Host == "localhost":
		a.rank = rankLocalhost
	}
	return a
}

// has says whether a connection to this socket address came in by a.
func (a *listenAddress) has(ip netip.Addr, port uint16) bool {
	if port < a.first || port > a.last {
		return false
	}
	switch a.rank {
	case rankIP:
		return a.ip == ip
	case rankLocalhost:
		return ip.IsLoopback()
	}
	family := ipv6
	if ip.Is4() {
		family = ipv4
	}
	return a.families&family != 0
}

// Key returns the address to listen on, as Caddy writes it, that a connection with this local address came in by: one
// with this IP address before one for all. If there is none, it returns the local address itself.
func (l *Listeners) Key(local net.Addr) string {
	switch addr := local.(type) {
	case *net.TCPAddr:
		at := addr.AddrPort()
		ip := at.Addr().Unmap().WithZone("")
		for i := range l.tcp {
			if l.tcp[i].has(ip, at.Port()) {
				return l.tcp[i].key
			}
		}
	case *net.UnixAddr:
		for i := range l.unix {
			if l.unix[i].path == addr.Name {
				return l.unix[i].key
			}
		}
	}
	return local.String()
}
