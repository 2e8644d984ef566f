// Package balancers has the balancing policies of clusters. Each is a module; others can add theirs.
package balancers

import (
	"github.com/caddyserver/caddy/v2"

	"github.com/caddy-sluice/sluice/internal/balance"
)

// Namespace is that of the modules.
const Namespace = "sluice.balancers"

// What a balancer is given. These are other names for internal types, for balancers that live elsewhere.
type (
	// Endpoint is a member of the list that a picker chooses from.
	Endpoint = balance.Endpoint
	// Query is what a pick depends on, besides the endpoints.
	Query = balance.Query
	// Live is the load and availability of an endpoint.
	Live = balance.Live
	// Set is the picker of the policies that come with Sluice.
	Set = balance.Set
)

// Balancer is what a module in the namespace implements. It is provisioned with the config that it is in.
type Balancer interface {
	// Prepare returns a picker for a list of endpoints, which may be empty. It is called again when the list or a weight
	// changes, never by those who pick. before is the picker until now, of this balancer or of another one; nil at first.
	Prepare(endpoints []Endpoint, before Picker) (Picker, error)
	// Traits says what the cluster has to know about it.
	Traits() Traits
}

// Picker chooses. It is safe for concurrent use, and the contract of Set.Pick holds for it: the pick counts as load of
// the endpoint that it chose.
type Picker interface {
	Pick(q Query) (place int, ok bool)
}

// Traits are what the cluster has to know about a balancer.
type Traits struct {
	// Key is what it chooses by; the zero Key for one that has none.
	Key Key
	// Ramps says whether it heeds Live.Share, without which a slow start has no meaning.
	Ramps bool
}

// Source says where a key comes from.
type Source uint8

// The sources of keys.
const (
	NoKey Source = iota
	// ClientIP is the address of the client, without its port.
	ClientIP
	// SNI is the server name that the client asked for in TLS.
	SNI
	// Header, Cookie, URI and Query are of an HTTP request. Key.Name is the name of the header, the cookie, the parameter.
	Header
	Cookie
	URI
	QueryParameter
	// Placeholder is any text with placeholders, Key.Name.
	Placeholder
)

// Key is what a balancer chooses by.
type Key struct {
	Source Source
	Name   string
}

// info is the module information of a policy.
func info(policy balance.Policy, create func() caddy.Module) caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: caddy.ModuleID(Namespace + "." + policy.String()), New: create}
}

// prepare returns the set of a policy. It goes on where the one before was, if that was one of ours.
func prepare(config balance.Config, endpoints []Endpoint, before Picker) (Picker, error) {
	last, _ := before.(*Set)
	set, err := balance.New(config, endpoints, last)
	if err != nil {
		return nil, err
	}
	return set, nil
}

// Interface guards
var _ Picker = (*Set)(nil)
