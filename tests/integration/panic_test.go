package integration

import (
	"fmt"
	"strings"
	"testing"
)

// TestPanic has a faulty handler behind ours: its connection ends, all others go on.
func TestPanic(t *testing.T) {
	inFallback := counts{"routed_total": 1, fallback("sni_unmatched"): 2}
	for _, tc := range []struct {
		name, handlers string
		want           counts
	}{
		{"in_a_route", "sight\n sni_router {\n route bad.test {\n fault \n}\n route known.test {\n forward %s \n}\n}", counts{"routed_total": 3}},
		{"in_a_fallback", "sight\n sni_router {\n route known.test {\n forward %s \n}\n fallback {\n fault \n}\n}", inFallback},
		{"behind_a_preread", "sight\n preread\n sni_router {\n route known.test {\n forward %s \n}\n fallback {\n next \n}\n}\n fault", inFallback},
	} {
		t.Run(tc.name, func(t *testing.T) {
			l := newLab(t)
			b := l.backend()
			p := l.start(fmt.Sprintf(tc.handlers, b.addr))
			base := p.counts()
			survive(p, b)
			p.settle(base, 3, tc.want)
			loud := p.loud()
			if len(loud) != 2 || loud[0].Level != "error" || !strings.Contains(loud[0].Line, "modules_test.go") {
				t.Errorf("log: got %v, want two errors with the place of the panic", loud)
			}
		})
	}
}

// survive has two connections that make the handler panic, while a third goes on.
func survive(p *proxy, b *backend) {
	p.Helper()
	c, up := pair(p, b)
	for range 2 {
		bad := p.dial()
		bad.send(named("bad.test"))
		bad.expectClosed()
		p.expectValues(p.sighting().After, map[string]string{"sluice.close_reason": "internal"})
	}
	echoes(c, up)
	up.Close()
	c.Close()
}
