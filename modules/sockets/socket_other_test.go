//go:build !linux

package sockets

import (
	"net"
	"testing"
)

// checkOwnSocket checks nothing: Caddy opens its sockets in another way here, and the wrapper works without.
func checkOwnSocket(*testing.T, net.Listener) {}
