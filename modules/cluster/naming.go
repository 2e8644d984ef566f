package cluster

import (
	"context"
	"net"
	"net/netip"

	"github.com/caddy-sluice/sluice/internal/guarddial"
)

// naming says how the name of an endpoint is looked up.
type naming struct {
	// names looks it up; nil if that is up to who connects.
	names func(ctx context.Context, host string) ([]netip.Addr, error)
	// absolute says that the name isn't to be tried in other domains.
	absolute bool
}

// Dialer returns a dialer with the settings of d that finds the addresses of the endpoint's name: d, if that looks it up in
// the right place.
func (e *Endpoint) Dialer(d *guarddial.Dialer) *guarddial.Dialer {
	n := e.naming.Load()
	if n == nil {
		return d
	}
	own := *d
	if n.names != nil {
		own.Lookup = n.names
	}
	if n.absolute {
		own.Lookup = absolutely(d)
	}
	return &own
}

// absolutely looks up names as a dialer does, but with a dot at their end.
func absolutely(d *guarddial.Dialer) func(context.Context, string) ([]netip.Addr, error) {
	return func(ctx context.Context, host string) ([]netip.Addr, error) {
		host += "."
		if d.Lookup != nil {
			return d.Lookup(ctx, host)
		}
		resolver := d.Resolver
		if resolver == nil {
			resolver = net.DefaultResolver
		}
		return resolver.LookupNetIP(ctx, "ip", host)
	}
}
