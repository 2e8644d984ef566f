package integration

import (
	"strings"
	"testing"

	"github.com/caddyserver/caddy/v2"
)

// TestReload is E23 and E26: connections stay where they are, new ones see the new table.
func TestReload(t *testing.T) {
	l := newLab(t)
	old := l.backend()
	p := l.start("sight\npreread {\ntimeout 1m\n}\n" + routes(old.addr, ""))
	base := p.counts()
	c, up := pair(p, old)
	undecided := p.dial()
	undecided.send(named("known.test")[:20])
	p.await(base, counts{"active": 1, "routed_total": 1, "duration_seconds_count": 1})

	if err := p.route("sight\n" + routes(l.digester("new"), "")); err != nil {
		t.Fatal(err)
	}
	hello := named("known.test")
	p.expectAnswer(digest("new", hello), hello)
	echoes(c, up)
	// A connection under way stays on the handlers it began with.
	undecided.send(hello[20:])
	other := old.accept()
	other.expect(hello)
	echoes(undecided, other)

	if err := p.route("sight\n" + strings.ReplaceAll(routes(l.digester("new"), ""), "known.test", "gone.test")); err != nil {
		t.Fatal(err)
	}
	refused := p.dial()
	refused.send(hello)
	refused.expectEnd(alert(112))
	refused.Close()
	if err := p.route("sight\n" + routes(l.digester("again"), "")); err != nil {
		t.Fatal(err)
	}
	p.expectAnswer(digest("again", hello), hello)
	echoes(c, up)
	for _, end := range []*peer{c, up, undecided, other} {
		end.Close()
	}
	p.settle(base, 5, counts{"routed_total": 4, rejected("sni_unmatched"): 1})
}

// echoes sends something both ways.
func echoes(a, b *peer) {
	a.Helper()
	a.send([]byte("ping"))
	b.expect([]byte("ping"))
	b.send([]byte("pong"))
	a.expect([]byte("pong"))
}

// TestFailedReload loads configs that are refused: nothing changes.
func TestFailedReload(t *testing.T) {
	l := newLab(t)
	b := l.backend()
	p := startWatched(l, b.addr)
	taken := l.backend()
	base := p.counts()
	c, up := pair(p, b)
	good := routes(l.digester("new"), "")
	for _, tc := range []struct {
		name, want string
		config     string
	}{
		{"table", "another route for a protocol", strings.ReplaceAll(good, "known.test {", "h2.test {\n alpn h2 \n")},
		{"later_handler", "max_bytes", good + "\n preread {\n max_bytes 4 \n}"},
		{"fallback", "not a reason", strings.Replace(good, "\n\t}", "\n fallback nonsense {\n next \n}\n}", 1)},
	} {
		t.Run(tc.name, func(t *testing.T) {
			err := p.route(tc.config)
			if err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("reload: got %v, want an error with %q", err, tc.want)
			}
			echoes(c, up)
			c, up := pair(p, b)
			echoes(c, up)
			up.Close()
			c.Close()
		})
	}
	t.Run("address_in_use", func(t *testing.T) {
		err := p.load(server(taken.addr, "route {\n"+good+"\n}"), "")
		if err == nil || !strings.Contains(err.Error(), "address already in use") {
			t.Errorf("reload: got %v, want address already in use", err)
		}
		echoes(c, up)
		c, up := pair(p, b)
		echoes(c, up)
		up.Close()
		c.Close()
	})
	up.Close()
	c.Close()
	p.settle(base, 5, counts{"routed_total": 5})
}

// TestReloadToNothing changes to a config without a layer4 app: connections go on.
func TestReloadToNothing(t *testing.T) {
	l := newLab(t)
	b := l.backend()
	p := startWatched(l, b.addr)
	c, up := pair(p, b)
	if err := caddy.Load([]byte(offConfig), true); err != nil {
		t.Fatal(err)
	}
	echoes(c, up)
	up.Close()
	c.expectEnd(nil)
}
