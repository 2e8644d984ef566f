package sockets

import (
	"context"
	"net"
	"testing"

	"github.com/caddyserver/caddy/v2"
)

// listenAs opens a listener as Caddy does for a server, and closes it when the test ends.
func listenAs(t *testing.T, address string) net.Listener {
	t.Helper()
	na, err := caddy.ParseNetworkAddress(address)
	if err != nil {
		t.Fatal(err)
	}
	opened, err := na.Listen(context.Background(), 0, net.ListenConfig{})
	if err != nil {
		t.Fatal(err)
	}
	ln := opened.(net.Listener)
	t.Cleanup(func() { _ = ln.Close() })
	return ln
}

// wrapper is a listener of another listener wrapper, with a socket in a field that looks like one of Caddy's.
type wrapper struct{ net.Listener }

// TestOf checks that only a TCP socket that Caddy itself made is used behind the listener's back.
func TestOf(t *testing.T) {
	own := listenAs(t, "127.0.0.1:0")
	unix := listenAs(t, "unix/"+t.TempDir()+"/a.sock")
	bare, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer bare.Close()
	for name, foreign := range map[string]net.Listener{
		"unix": unix, "bare": bare, "wrapper": wrapper{own}, "pointer_to_wrapper": &wrapper{own},
	} {
		if got := Of(foreign); got != nil {
			t.Errorf("%s: got a socket, want none", name)
		}
	}
	checkOwnSocket(t, own)
}

// TestDuplicate checks that the twin of a socket lives on, with its address, when the first is closed.
func TestDuplicate(t *testing.T) {
	first, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	twin, err := Duplicate(first.(*net.TCPListener))
	if err != nil {
		t.Fatal(err)
	}
	defer twin.Close()
	_ = first.Close()
	client, err := net.Dial("tcp", twin.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	conn, err := twin.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if got, want := conn.RemoteAddr().String(), client.LocalAddr().String(); got != want {
		t.Errorf("got a connection from %v, want %v", got, want)
	}
}
