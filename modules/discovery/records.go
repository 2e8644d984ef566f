package discovery

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/miekg/dns"

	"github.com/caddy-sluice/sluice/internal/guarddial"
)

// srvFinder finds endpoints in SRV records.
type srvFinder struct {
	id       string
	name     string
	resolver *resolver
	// names looks up the targets; nil if that is up to the system.
	names *guarddial.Names
}

func (f *srvFinder) identity() string { return f.id }

func (f *srvFinder) label() string { return "srv " + f.name }

// find asks for the records. One whose target is "." says that the service does not exist (RFC 2782): if there is
// nothing else, there are no endpoints. One that can't be an endpoint is left out: if there is nothing else, nothing is
// known.
func (f *srvFinder) find(ctx context.Context, _ []Endpoint) ([]Endpoint, time.Duration, error) {
	replies, err := f.resolver.find(ctx, f.name, dns.TypeSRV)
	if err != nil {
		return nil, 0, err
	}
	var records []*dns.SRV
	var unusable *dns.SRV
	for _, rr := range replies[0].records {
		srv, ok := rr.(*dns.SRV)
		switch {
		case !ok || srv.Target == ".":
		case srv.Port == 0 || !isName(srv.Target):
			unusable = srv
		default:
			records = append(records, srv)
		}
	}
	if len(records) == 0 && unusable != nil {
		return nil, 0, fmt.Errorf("%q has an SRV record with the target %q and port %d", f.name, unusable.Target, unusable.Port)
	}
	return endpoints(records), replies[0].ttl, nil
}

// endpoints turns records into endpoints. A weight of 0 is for a target that is chosen very rarely beside others (RFC
// 2782): it becomes 1, and the weights of the others with the same priority, if there are any, count sixteenfold. So
// none is larger than 2^20.
func endpoints(records []*dns.SRV) []Endpoint {
	type tier struct{ zero, others bool }
	tiers := make(map[uint16]tier)
	for _, srv := range records {
		t := tiers[srv.Priority]
		tiers[srv.Priority] = tier{t.zero || srv.Weight == 0, t.others || srv.Weight > 0}
	}
	found := make([]Endpoint, 0, len(records))
	for _, srv := range records {
		weight := uint32(srv.Weight)
		if t := tiers[srv.Priority]; t.zero && t.others {
			weight *= 16
		}
		found = append(found, Endpoint{
			Host: strings.ToLower(strings.TrimSuffix(srv.Target, ".")), Port: srv.Port, Priority: srv.Priority, Weight: max(weight, 1),
		})
	}
	return found
}

// aFinder finds endpoints in A and AAAA records.
type aFinder struct {
	id       string
	name     string
	port     uint16
	resolver *resolver
}

func (f *aFinder) identity() string { return f.id }

func (f *aFinder) label() string { return fmt.Sprintf("a %s %d", f.name, f.port) }

// find asks for the records of both families. A name that has none of a family has none; a family about which no name
// server says anything keeps what it had.
func (f *aFinder) find(ctx context.Context, known []Endpoint) ([]Endpoint, time.Duration, error) {
	replies, err := f.resolver.find(ctx, f.name, dns.TypeA, dns.TypeAAAA)
	if err != nil {
		return nil, 0, err
	}
	ttl := noTTL
	var found []Endpoint
	for family, reply := range replies {
		if reply.err != nil {
			found = append(found, ofFamily(known, family == 0)...)
			ttl = min(ttl, retryAfter)
			continue
		}
		for _, addr := range addresses(reply.records) {
			found = append(found, Endpoint{Host: addr.String(), Port: f.port, Weight: 1})
		}
		ttl = min(ttl, reply.ttl)
	}
	return found, ttl, nil
}

// ofFamily returns the endpoints whose addresses are IPv4, or those that are IPv6.
func ofFamily(known []Endpoint, ipv4 bool) (some []Endpoint) {
	for _, e := range known {
		if addr, err := netip.ParseAddr(e.Host); err == nil && addr.Is4() == ipv4 {
			some = append(some, e)
		}
	}
	return some
}

// addressesOf asks for the addresses of a name, which is taken as it is. Those of one family are enough.
func (r *resolver) addressesOf(ctx context.Context, name string) ([]netip.Addr, error) {
	replies, err := r.find(ctx, name, dns.TypeA, dns.TypeAAAA)
	if err != nil {
		return nil, err
	}
	return slices.Concat(addresses(replies[0].records), addresses(replies[1].records)), nil
}

// addresses returns those in the records. An IPv4-mapped one is IPv4.
func addresses(records []dns.RR) []netip.Addr {
	var addrs []netip.Addr
	for _, rr := range records {
		var ip []byte
		switch rr := rr.(type) {
		case *dns.A:
			ip = rr.A
		case *dns.AAAA:
			ip = rr.AAAA
		}
		if addr, ok := netip.AddrFromSlice(ip); ok {
			addrs = append(addrs, addr.Unmap())
		}
	}
	return addrs
}
