//go:build !unix

package ports

import "testing"

// Dead returns an address at which connections are refused, unless somebody else takes the port.
func Dead(t testing.TB) string {
	t.Helper()
	return free(t)
}
