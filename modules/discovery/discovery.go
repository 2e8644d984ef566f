// Package discovery finds the endpoints of a cluster: in DNS, or by a module of Caddy's reverse proxy.
package discovery

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"time"

	"github.com/caddyserver/caddy/v2"
)

const (
	defaultRefresh = 30 * time.Second
	minRefresh     = time.Second
	maxRefresh     = 24 * time.Hour
)

// Discover is one source of endpoints, of one kind: `srv`, `a` or `upstreams`.
type Discover struct {
	// How often to look. Answers of `srv` and `a` whose time to live is shorter are asked for again when it is over, at
	// the earliest after `1s`. Range: `1s` to `1d`. Default: `30s`. No placeholders.
	Refresh caddy.Duration `json:"refresh,omitempty"`

	// SRV records (RFC 2782).
	SRV *SRV `json:"srv,omitempty"`

	// A and AAAA records, with one port.
	A *A `json:"a,omitempty"`

	// A module of Caddy's reverse proxy. It gives addresses only: no tiers, no weights. `cluster` is refused: a cluster is
	// not found by a cluster.
	UpstreamsRaw json.RawMessage `json:"upstreams,omitempty" caddy:"namespace=http.reverse_proxy.upstreams inline_key=source"`
}

// SRV is a name that has SRV records. Each record is one endpoint, called by the name of its target.
type SRV struct {
	// The name, such as `_api._tcp.example.com`. Required. Placeholders such as `{env.NAME}` are replaced at load.
	Name string `json:"name,omitempty"`

	// The name servers to ask, in this order: `host` or `host:port`, at most 8. They are also asked for the addresses of the
	// targets. Default: those of the system, with its search list. Placeholders such as `{env.NAME}` are replaced at load.
	Resolvers []string `json:"resolvers,omitempty"`
}

// A is a name that has A or AAAA records. Each address is one endpoint.
type A struct {
	// The name, such as `api.example.com`. Required. Placeholders such as `{env.NAME}` are replaced at load.
	Name string `json:"name,omitempty"`

	// The port of all endpoints. Range: 1 to 65535. Required. No placeholders.
	Port int `json:"port,omitempty"`

	// The name servers to ask, in this order: `host` or `host:port`, at most 8. Default: those of the system, with its
	// search list. Placeholders such as `{env.NAME}` are replaced at load.
	Resolvers []string `json:"resolvers,omitempty"`
}

// Endpoint is one that was found. What is at its address is not the operator's choice: whoever connects to it has the
// guard judge it, also when Host is an IP address.
type Endpoint struct {
	// Host is an IP address without brackets, or a name in lower case without the last dot. Port is its port.
	Host string
	Port uint16
	// Priority is that of an SRV record: the lowest are used first. Weight is 1 or more.
	Priority uint16
	Weight   uint32
}

// Source looks for endpoints.
type Source interface {
	// Lookup returns the endpoints of this moment, sorted, and when to look again. known are those that were found last, by
	// this source or by one before it: a part of them stays where nothing is known about that part. An error says that
	// nothing is known: what was found before still holds. No endpoints and no error says that there are none. It takes ten
	// seconds at most.
	Lookup(ctx context.Context, known []Endpoint) (found []Endpoint, again time.Duration, err error)
	// Identity is the same for two sources that look for the same thing in the same way, so that what one has found holds
	// for the other. It may have secrets of a module in it.
	Identity() string
	// String is for logs: `srv _api._tcp.example.com`.
	String() string
}

// DNS is a Source that knows more about itself. Those of Provision are.
type DNS interface {
	Source
	// Subject is the same for two sources that look for the same thing, if perhaps at other name servers.
	Subject() string
	// Names looks up the names that were found; nil if that is up to the system.
	Names() func(ctx context.Context, host string) ([]netip.Addr, error)
}

// Provision checks the settings and returns the source.
func (d *Discover) Provision(ctx caddy.Context) (Source, error) {
	if d.Refresh == 0 {
		d.Refresh = caddy.Duration(defaultRefresh)
	}
	if d.Refresh < caddy.Duration(minRefresh) || d.Refresh > caddy.Duration(maxRefresh) {
		return nil, fmt.Errorf("refresh %v is not between 1s and 1d", time.Duration(d.Refresh))
	}
	s := &source{refresh: time.Duration(d.Refresh), logger: ctx.Logger()}
	var err error
	switch {
	case d.kinds() != 1:
		return nil, errors.New("exactly one of srv, a and upstreams is needed")
	case d.SRV != nil:
		s.finder, err = d.SRV.provision()
	case d.A != nil:
		s.finder, err = d.A.provision()
	default:
		s.finder, err = d.loadUpstreams(ctx)
	}
	if err != nil {
		return nil, err
	}
	return s, nil
}

// kinds counts the kinds that are given.
func (d *Discover) kinds() (n int) {
	for _, given := range []bool{d.SRV != nil, d.A != nil, d.UpstreamsRaw != nil} {
		if given {
			n++
		}
	}
	return n
}
