package ports

import "testing"

// Own returns an address for a server of the test, which may stop and come back: nobody else gets the port until the test
// ends.
func Own(t testing.TB) string {
	t.Helper()
	return Dead(t)
}
