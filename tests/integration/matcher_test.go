package integration

import (
	"slices"
	"testing"
	"time"

	"github.com/caddy-sluice/sluice/internal/testkit/hellos"
)

// startMatchers runs one route for each use of the matcher, with caddy-l4's own proxy behind.
func startMatchers(l *lab) *proxy {
	l.Helper()
	return l.startServer(`
		matching_timeout 20s
		@names preread a.test *.wild.test
		@both preread b.test {
			alpn h2 xmpp-client
		}
		@alpn {
			preread {
				alpn acme-tls/1
			}
		}
		@ech {
			preread {
				ech
			}
		}
		@plain {
			preread c.test {
				ech no
			}
		}
		route @names {
			proxy ` + l.digester("names") + `
		}
		route @both {
			proxy ` + l.digester("both") + `
		}
		route @alpn {
			proxy ` + l.digester("alpn") + `
		}
		route @ech {
			proxy ` + l.digester("ech") + `
		}
		route @plain {
			proxy ` + l.digester("plain") + `
		}
		route {
			proxy ` + l.digester("rest") + `
		}`)
}

func TestMatcherWithStockProxy(t *testing.T) {
	p := startMatchers(newLab(t))
	withECH := func(name string) []byte { return hellos.New(hellos.Options{ServerName: name, ECH: true}) }
	for _, tc := range []struct {
		name, want string
		first      []byte
	}{
		{"name", "names", named("A.Test.")},
		{"wildcard", "names", named("x.wild.test", "h2")},
		{"name_and_protocol", "both", named("b.test", "h2")},
		{"second_protocol", "both", named("b.test", "http/1.1", "xmpp-client")},
		{"name_without_protocol", "rest", named("b.test", "http/1.1")},
		{"protocol", "alpn", named("other.test", "acme-tls/1")},
		{"ech", "ech", withECH("public.test")},
		{"ech_without_name", "ech", withECH("")},
		{"ech_and_name", "names", withECH("a.test")},
		{"no_ech", "plain", named("c.test")},
		{"unknown_name", "rest", named("z.test")},
		{"no_name", "rest", hellos.New(hellos.Options{})},
		{"long", "names", hellos.New(hellos.Options{ServerName: "a.test", Pad: 15000})},
		{"in_many_records", "names", hellos.Wrap(hellos.Message(hellos.Options{ServerName: "a.test"}), 1)},
		{"not_tls", "rest", []byte("GET / HTTP/1.1\r\n\r\n")},
		{"malformed", "rest", []byte{22, 3, 1, 0xff, 0xff}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			data := pattern(5000)
			want := digest(tc.want, tc.first, data)
			if got, err := p.ask(0, append(slices.Clip(tc.first), data...)); err != nil || got != want {
				t.Errorf("answer: got %q, %v, want %q", got, err, want)
			}
		})
	}
	t.Run("cut", func(t *testing.T) {
		hello := named("a.test", "h2")
		var flights [][][]byte
		for i := 1; i < len(hello); i++ {
			flights = append(flights, [][]byte{hello[:i], hello[i:]})
		}
		askAll(p, 5*time.Millisecond, digest("names", hello), flights)
	})
	p.quiet()
}

// TestMatcherBeforeRouter has a matcher in front: the router goes on with the bytes that the matcher has seen.
func TestMatcherBeforeRouter(t *testing.T) {
	l := newLab(t)
	p := l.startServer("@tls preread\n route @tls {\n sight\n" + routes(l.digester("route"), "") +
		"\n}\n route {\n forward " + l.digester("plain") + "\n}")
	hello, data, plain := named("known.test"), pattern(70_000), []byte("plain text")
	base := p.counts()
	p.expectAnswer(digest("route", hello, data), append(hello, data...))
	p.expectAnswer(digest("plain", plain), plain)
	p.eventually("routed", func() (string, bool) {
		got := p.counts().since(base)
		return got.String(), got["routed_total"] == 1 && got[handled] == 2
	})
	p.expectEnding("completed", len(hello)+len(data), len(digest("route", hello, data)))
}
