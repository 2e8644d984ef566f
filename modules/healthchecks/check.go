// Package healthchecks finds out whether endpoints work, by asking them. Each kind of check is a module; others can add
// theirs.
package healthchecks

import (
	"context"
	"net"

	"github.com/caddy-sluice/sluice/modules/upstreamtls"
)

// Namespace is that of the modules.
const Namespace = "sluice.health_checks"

// Checker is what a module in the namespace implements. It is provisioned with the config that it is in. One Checker
// serves all endpoints of a cluster, at the same time.
type Checker interface {
	// Check returns nil if the endpoint works. It returns before ctx ends or soon after: the timeout is the caller's.
	// What it opens is closed when it returns. An error that wraps ErrNotMade says nothing about the endpoint.
	Check(ctx context.Context, target *Target) error
}

// Target is an endpoint to be checked, and how the cluster speaks to it. A Checker may go elsewhere, to another port for
// example; it never changes where traffic goes.
type Target struct {
	// Host and Port are the endpoint's; Host is a name or an IP address without brackets. Path is set instead for a unix
	// socket.
	Host string
	Port uint16
	Path string
	// TLS is how the cluster speaks TLS to its endpoints; nil if it doesn't.
	TLS *upstreamtls.Client
	// ProxyProtocol is the version of the PROXY header that endpoints expect, `v1` or `v2`; empty if they don't.
	ProxyProtocol string
	// Dial connects to a port of a host, or to the unix socket if there is a path and the port is the endpoint's, through
	// the guard of the cluster. Nothing was sent on the connection.
	Dial func(ctx context.Context, host string, port uint16) (net.Conn, error)
}
