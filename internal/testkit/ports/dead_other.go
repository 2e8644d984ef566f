//go:build !unix

package ports

import (
	"net"
	"testing"
)

// Dead returns an address at which connections are refused, unless somebody else takes the port.
func Dead(t testing.TB) string {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	return ln.Addr().String()
}
