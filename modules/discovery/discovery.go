// Package discovery finds the endpoints of a cluster: in DNS, or by a module of Caddy's reverse proxy.
package discovery

import (
	"context"
	"encoding/json"
	"time"

	"github.com/caddyserver/caddy/v2"
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

	// A module of Caddy's reverse proxy. It gives addresses only: no tiers, no weights.
	UpstreamsRaw json.RawMessage `json:"upstreams,omitempty" caddy:"namespace=http.reverse_proxy.upstreams inline_key=source"`
}

// SRV is a name that has SRV records.
type SRV struct {
	Name      string   `json:"name,omitempty"`
	Resolvers []string `json:"resolvers,omitempty"`
}

// A is a name that has A or AAAA records.
type A struct {
	Name      string   `json:"name,omitempty"`
	Port      int      `json:"port,omitempty"`
	Resolvers []string `json:"resolvers,omitempty"`
}

// Endpoint is one that was found.
type Endpoint struct {
	// Host is an IP address without brackets, or a name. Port is its port.
	Host string
	Port uint16
	// Priority is that of an SRV record: the lowest are used first. Weight is 1 or more.
	Priority uint16
	Weight   uint32
}

// Source looks for endpoints.
type Source interface {
	// Lookup returns the endpoints of this moment, sorted, and when to look again. An error says that nothing is known:
	// what was found before still holds. No endpoints and no error says that there are none.
	Lookup(ctx context.Context) (found []Endpoint, again time.Duration, err error)
	// Identity is the same for two sources that look for the same thing, so that what one has found holds for the other.
	Identity() string
}

// Provision checks the settings and returns the source.
func (d *Discover) Provision(ctx caddy.Context) (Source, error) { panic("not yet") }
