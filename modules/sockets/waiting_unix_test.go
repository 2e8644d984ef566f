//go:build unix

package sockets

import (
	"net"
	"testing"
)

// TestWaiting checks that somebody in the queue is seen, and nobody when it is empty or closed.
func TestWaiting(t *testing.T) {
	opened, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ln := opened.(*net.TCPListener)
	if Waiting(ln) {
		t.Error("got somebody in an empty queue")
	}
	client, err := net.Dial("tcp", ln.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	if !Waiting(ln) {
		t.Error("got nobody, want the client")
	}
	conn, err := ln.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if Waiting(ln) {
		t.Error("got somebody after the client was let in")
	}
	_ = ln.Close()
	if Waiting(ln) {
		t.Error("got somebody at a closed listener")
	}
}
