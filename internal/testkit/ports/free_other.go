//go:build !linux

package ports

import (
	"net"
	"testing"
)

// free returns an address that nobody listens on, unless somebody else takes the port.
func free(t testing.TB) string {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	return ln.Addr().String()
}
