package conns

import (
	"context"
	"net"
	"sync"
	"testing"

	"github.com/caddyserver/caddy/v2"
)

// Listen opens a listener as Caddy does for a server, and closes it when the test ends.
func Listen(t testing.TB, address string) net.Listener {
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

// Serve listens on loopback, and has each connection served, and closed then. The test does not end before all of them
// have been.
func Serve(t testing.TB, serve func(net.Conn)) net.Addr {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var serving sync.WaitGroup
	t.Cleanup(func() {
		_ = ln.Close()
		serving.Wait()
	})
	serving.Go(func() {
		for {
			conn, err := ln.Accept()
			if err != nil {
				return
			}
			serving.Go(func() {
				defer conn.Close()
				serve(conn)
			})
		}
	})
	return ln.Addr()
}
