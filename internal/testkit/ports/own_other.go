//go:build !linux

package ports

import "testing"

// Own returns an address for a server of the test, which may stop and come back, unless somebody else takes the port.
func Own(t testing.TB) string {
	t.Helper()
	return free(t)
}
