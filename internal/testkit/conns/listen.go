package conns

import (
	"context"
	"net"
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
