//go:build !linux

package ports

import (
	"net"
	"testing"
)

// Own returns an address for a server of the test, which may stop and come back, unless somebody else takes the port.
func Own(t testing.TB) string {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	return ln.Addr().String()
}
