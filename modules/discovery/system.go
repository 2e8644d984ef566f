package discovery

import (
	"context"
	"errors"
	"net"

	"github.com/miekg/dns"
)

// askSystem asks the system's resolver, which does not say for how long its answers hold.
func (r *resolver) askSystem(ctx context.Context, name string, question uint16) reply {
	plain := r.plain
	if plain == nil {
		plain = net.DefaultResolver
	}
	ask := systemAddrs
	if question == dns.TypeSRV {
		ask = systemSRV
	}
	records, err := ask(ctx, plain, name, question)
	if failed, ok := errors.AsType[*net.DNSError](err); ok && failed.IsNotFound {
		return reply{ttl: noTTL}
	}
	return reply{records: records, ttl: noTTL, err: err}
}

// systemSRV returns SRV records. The resolver leaves out those whose target is no name, with an error beside the rest.
func systemSRV(ctx context.Context, plain *net.Resolver, name string, _ uint16) ([]dns.RR, error) {
	_, found, err := plain.LookupSRV(ctx, "", "", name)
	if len(found) == 0 {
		return nil, err
	}
	records := make([]dns.RR, 0, len(found))
	for _, srv := range found {
		records = append(records, &dns.SRV{Priority: srv.Priority, Weight: srv.Weight, Port: srv.Port, Target: srv.Target})
	}
	return records, nil
}

// systemAddrs returns the addresses of one family.
func systemAddrs(ctx context.Context, plain *net.Resolver, name string, question uint16) ([]dns.RR, error) {
	network := "ip4"
	if question == dns.TypeAAAA {
		network = "ip6"
	}
	found, err := plain.LookupNetIP(ctx, network, name)
	if err != nil {
		return nil, err
	}
	records := make([]dns.RR, 0, len(found))
	for _, addr := range found {
		records = append(records, &dns.AAAA{AAAA: addr.AsSlice()})
	}
	return records, nil
}
