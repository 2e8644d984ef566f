package sockets

import (
	"net"
	"testing"

	"github.com/caddy-sluice/sluice/internal/testkit/conns"
)

// wrapper is a listener of another listener wrapper, with a socket in a field that looks like one of Caddy's.
type wrapper struct{ net.Listener }

// TestOf checks that only a TCP socket that Caddy itself made is used behind the listener's back.
func TestOf(t *testing.T) {
	own := conns.Listen(t, "127.0.0.1:0")
	unix := conns.Listen(t, "unix/"+t.TempDir()+"/a.sock")
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
