package relay

import "testing"

// ownPipes returns a pool for one test, and checks that it gets back what it gave out.
func ownPipes(t testing.TB) *pipePool {
	t.Helper()
	p := &pipePool{limits: readPipeLimits()}
	t.Cleanup(func() {
		p.trim()
		p.trim()
		p.mu.Lock()
		defer p.mu.Unlock()
		if p.made != 0 || p.used != 0 {
			t.Errorf("pipes not given back: %d of %d bytes", p.made, p.used)
		}
	})
	return p
}
