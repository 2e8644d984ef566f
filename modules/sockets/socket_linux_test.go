package sockets

import (
	"fmt"
	"net"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/caddy-sluice/sluice/internal/testkit/conns"
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

// TestOfGiven checks that a socket which Caddy was given is left alone.
func TestOfGiven(t *testing.T) {
	first, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer first.Close()
	file, err := first.(*net.TCPListener).File()
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	fd, err := unix.Dup(int(file.Fd())) // Caddy's from here on
	if err != nil {
		t.Fatal(err)
	}
	given := conns.Listen(t, fmt.Sprintf("fd/%d", fd))
	if given.Addr().String() != first.Addr().String() {
		t.Fatalf("got a listener on %v, want the socket given", given.Addr())
	}
	if got := Of(given); got != nil {
		t.Error("got the socket, want it left alone")
	}
}
