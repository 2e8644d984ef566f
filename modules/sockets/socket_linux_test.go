package sockets

import (
	"net"
	"testing"
)

// checkOwnSocket checks that the socket of a listener that Caddy made is found.
func checkOwnSocket(t *testing.T, own net.Listener) {
	t.Helper()
	got := Of(own)
	if got == nil {
		t.Fatalf("got no socket in a %T of Caddy, want one", own)
	}
	if got.Addr().String() != own.Addr().String() {
		t.Errorf("got a socket on %v, want %v", got.Addr(), own.Addr())
	}
}
