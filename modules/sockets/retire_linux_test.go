package sockets

import (
	"net"
	"testing"
	"time"
)

// TestRetire checks that the connections which wait in the queue of a socket are handled before it is closed.
func TestRetire(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	const queued = 5
	want := make(map[string]bool)
	for range queued {
		client, err := net.Dial("tcp", ln.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer client.Close()
		want[client.LocalAddr().String()] = true
	}
	handled := make(chan net.Conn, queued)
	Retire(ln.(*net.TCPListener), time.Millisecond, func(conn net.Conn) { handled <- conn })
	late := time.After(30 * time.Second)
	for range queued {
		select {
		case conn := <-handled:
			defer conn.Close()
			if _, ok := conn.(*net.TCPConn); !ok {
				t.Errorf("got a %T, want a TCP connection", conn)
			}
			delete(want, conn.RemoteAddr().String())
		case <-late:
			t.Fatalf("got %d connections handled, want %d", queued-len(want), queued)
		}
	}
	if len(want) > 0 {
		t.Errorf("got no connection of the clients %v", want)
	}
	if conn, err := net.Dial("tcp", ln.Addr().String()); err == nil {
		_ = conn.Close()
		t.Error("got a connection to a socket that is closed")
	}
	Retire(ln.(*net.TCPListener), time.Millisecond, func(net.Conn) { t.Error("got a connection from a closed socket") })
}

// TestRetireGone checks that a client which has reset its connection in the queue still has an address.
func TestRetireGone(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	client, err := net.Dial("tcp", ln.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	want := client.LocalAddr().String()
	_ = client.(*net.TCPConn).SetLinger(0)
	_ = client.Close()
	handled := make(chan net.Conn, 1)
	Retire(ln.(*net.TCPListener), time.Millisecond, func(conn net.Conn) { handled <- conn })
	select {
	case conn := <-handled:
		defer conn.Close()
		if got := conn.RemoteAddr(); got == nil || got.String() != want {
			t.Errorf("got client %v, want %v", got, want)
		}
	case <-time.After(30 * time.Second):
		t.Fatal("got no connection handled")
	}
}
