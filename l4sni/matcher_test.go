package l4sni

import (
	"encoding/json"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/mholt/caddy-l4/layer4"
	"go.uber.org/zap"

	"github.com/caddy-sluice/sluice/internal/testkit/hellos"
	"github.com/caddy-sluice/sluice/internal/testkit/modules"
)

// newMatcher provisions a matcher.
func newMatcher(t testing.TB, config string) *Matcher {
	t.Helper()
	mod, err := modules.Load(t, "layer4.matchers.preread", config)
	if err != nil {
		t.Fatal(err)
	}
	return mod.(*Matcher)
}

// round is a round of matching: a connection with a longer window than that of the round before, if there was one.
func round(previous *layer4.Connection, conn *script, window []byte) *layer4.Connection {
	cx := layer4.WrapConnection(conn, window, zap.NewNop())
	if previous != nil {
		cx.SetVar(seenVar, previous.GetVar(seenVar))
	}
	return cx
}

func checkMatch(t *testing.T, m *Matcher, cx *layer4.Connection, want bool, wantErr error) {
	t.Helper()
	if got, err := m.Match(cx); got != want || err != wantErr {
		t.Errorf("got %v, %v, want %v, %v", got, err, want, wantErr)
	}
}

// TestMatch checks every kind of question against hellos that answer it in each way.
func TestMatch(t *testing.T) {
	ech := func(name string) []byte { return hellos.New(hellos.Options{ServerName: name, ECH: true}) }
	for _, tc := range []struct {
		config string
		yes    [][]byte
		no     [][]byte
	}{
		{`{}`, [][]byte{hello(""), hello("a.example.com"), ech(""), hello("192.0.2.1")}, nil},
		{
			`{"names":["a.example.com"]}`,
			[][]byte{hello("a.example.com"), hello("A.EXAMPLE.com."), hello("a.example.com", "h2"), ech("a.example.com")},
			[][]byte{hello("b.example.com"), hello(""), ech(""), hello("x.a.example.com"), hello("example.com")},
		},
		{
			`{"names":["*.example.com","b.example.net"]}`,
			[][]byte{hello("a.example.com"), hello("b.example.net")},
			[][]byte{hello("example.com"), hello("a.b.example.com"), hello("a.example.net")},
		},
		{
			`{"names":["**.example.com"]}`,
			[][]byte{hello("a.example.com"), hello("a.b.example.com")},
			[][]byte{hello("example.com")},
		},
		{
			`{"names":[".example.com"]}`,
			[][]byte{hello("example.com"), hello("a.b.example.com")},
			[][]byte{hello("badexample.com")},
		},
		{
			`{"alpn":["h2","spdy/1"]}`,
			[][]byte{hello("", "h2"), hello("a.example.com", "http/1.1", "spdy/1")},
			[][]byte{hello(""), hello("", "http/1.1"), hello("", "H2"), hello("", "h2c")},
		},
		{
			`{"names":["a.example.com"],"alpn":["h2"]}`,
			[][]byte{hello("a.example.com", "h2"), hello("a.example.com", "http/1.1", "h2")},
			[][]byte{hello("a.example.com"), hello("b.example.com", "h2"), hello("a.example.com", "http/1.1")},
		},
		{`{"ech":true}`, [][]byte{ech(""), ech("a.example.com")}, [][]byte{hello("a.example.com")}},
		{`{"ech":false}`, [][]byte{hello("a.example.com")}, [][]byte{ech("a.example.com")}},
		{
			`{"names":["a.example.com"],"ech":true}`,
			[][]byte{ech("a.example.com")},
			[][]byte{hello("a.example.com"), ech("b.example.com")},
		},
	} {
		t.Run(tc.config, func(t *testing.T) {
			m := newMatcher(t, tc.config)
			for want, list := range map[bool][][]byte{true: tc.yes, false: tc.no} {
				for i, flight := range list {
					got, err := m.Match(round(nil, new(script), flight))
					if got != want || err != nil {
						t.Errorf("hello %d: got %v, %v, want %v, no error", i, got, err, want)
					}
				}
			}
		})
	}
}

// TestMatchCut cuts hellos at every position: what is there asks for more, and the answer is the same in the end.
func TestMatchCut(t *testing.T) {
	message := hellos.Message(hellos.Options{ServerName: "a.example.com", ALPN: []string{"h2"}})
	m := newMatcher(t, `{"names":["a.example.com"]}`)
	for name, flight := range map[string][]byte{
		"one_record":   hellos.Wrap(message),
		"many_records": hellos.Wrap(message, 1, 3, 10),
	} {
		t.Run(name, func(t *testing.T) {
			conn := new(script)
			var growing *layer4.Connection
			for n := range len(flight) {
				checkMatch(t, m, round(nil, conn, flight[:n]), false, layer4.ErrConsumedAllPrefetchedBytes)
				growing = round(growing, conn, flight[:n])
				checkMatch(t, m, growing, false, layer4.ErrConsumedAllPrefetchedBytes)
			}
			checkMatch(t, m, round(growing, conn, flight), true, nil)
			checkMatch(t, m, round(growing, conn, append(flight, "payload"...)), true, nil)
		})
	}
}

// TestMatchNo checks that what can't become a hello is a plain no, as soon as that is clear.
func TestMatchNo(t *testing.T) {
	m := newMatcher(t, `{}`)
	for name, window := range map[string][]byte{
		"not_tls":             []byte("G"),
		"proxy_header":        []byte("PROXY TCP4 "),
		"malformed_record":    {22, 3, 1, 0x50, 0},
		"malformed_handshake": hellos.Record(hellos.TypeHandshake, 0x0303, hellos.Handshake(2, make([]byte, 40))),
		"full_buffer":         longHello[:layer4.MaxMatchingBytes],
		"over_full_buffer":    longHello[:layer4.MaxMatchingBytes+100],
	} {
		t.Run(name, func(t *testing.T) {
			checkMatch(t, m, round(nil, new(script), window), false, nil)
		})
	}
	checkMatch(t, m, round(nil, new(script), longHello[:layer4.MaxMatchingBytes-1]), false, layer4.ErrConsumedAllPrefetchedBytes)
}

// TestMatchFullBuffer checks that a hello which just fits is still found.
func TestMatchFullBuffer(t *testing.T) {
	flight := hellos.New(hellos.Options{ServerName: "a.example.com", Pad: layer4.MaxMatchingBytes - 5})
	if len(flight) != layer4.MaxMatchingBytes {
		t.Fatalf("got a hello of %d bytes, want %d", len(flight), layer4.MaxMatchingBytes)
	}
	checkMatch(t, newMatcher(t, `{"names":["a.example.com"]}`), round(nil, new(script), flight), true, nil)
}

// TestMatchParsesOnce checks that all matchers of a connection share what is parsed.
func TestMatchParsesOnce(t *testing.T) {
	cx := round(nil, new(script), hellos.Find("go-1.26-pq").Bytes)
	checkMatch(t, newMatcher(t, `{"names":["other.example.com"]}`), cx, false, nil)
	first := cx.GetVar(seenVar)
	others := make([]*Matcher, 20)
	for i := range others {
		others[i] = newMatcher(t, fmt.Sprintf(`{"names":["%d.example.com"],"alpn":["h2"]}`, i))
	}
	got := testing.AllocsPerRun(10, func() {
		for _, m := range others {
			if yes, err := m.Match(cx); yes || err != nil {
				t.Errorf("got %v, %v, want no", yes, err)
			}
		}
	})
	if cx.GetVar(seenVar) != first {
		t.Error("got another parser, want that of the first matcher")
	}
	// Each matcher copies the name it looks up; nothing else.
	if got > float64(len(others)) {
		t.Errorf("got %v allocations for %d matchers, want at most one each", got, len(others))
	}
}

// TestMatchNewStream checks that what was parsed is forgotten when the bytes are not those of the same stream.
func TestMatchNewStream(t *testing.T) {
	one, two := hello("a.example.com"), hello("b.example.com")
	two[20] = 0xff // another random
	m := newMatcher(t, `{"names":["b.example.com"]}`)
	conn := new(script)
	for name, tc := range map[string]struct{ before, after *layer4.Connection }{
		"another_connection": {round(nil, conn, one), layer4.WrapConnection(new(script), two, zap.NewNop())},
		"consumed":           {round(nil, conn, append([]byte("GET "), two...)), layer4.WrapConnection(conn, two, zap.NewNop())},
		"another_hello":      {round(nil, conn, one), layer4.WrapConnection(conn, two, zap.NewNop())},
		"shorter":            {round(nil, conn, append(one, two...)), layer4.WrapConnection(conn, two, zap.NewNop())},
		"half_of_another":    {round(nil, conn, one[:30]), layer4.WrapConnection(conn, two, zap.NewNop())},
	} {
		t.Run(name, func(t *testing.T) {
			if yes, _ := m.Match(tc.before); yes {
				t.Fatal("got yes for the stream before, want no")
			}
			tc.after.SetVar(seenVar, tc.before.GetVar(seenVar))
			checkMatch(t, m, tc.after, true, nil)
		})
	}
}

// matchRoute is a route with a matcher in front of a probe.
func matchRoute(name, matcher string) *layer4.Route {
	return &layer4.Route{
		MatcherSetsRaw: []caddy.ModuleMap{{"preread": json.RawMessage(matcher)}},
		HandlersRaw:    []json.RawMessage{json.RawMessage(fmt.Sprintf(`{"handler":"probe","name":%q}`, name))},
	}
}

// TestMatchRoutes runs matchers as caddy-l4 does, with a client that sends byte by byte.
func TestMatchRoutes(t *testing.T) {
	for name, want := range map[string][]string{
		"a.example.com": {"a"}, "b.example.com": {"b"}, "c.example.com": {"rest"}, "": {"rest"},
	} {
		synctest.Test(t, func(t *testing.T) {
			var routes layer4.RouteList
			for _, label := range []string{"a", "b"} {
				routes = append(routes, matchRoute(label, fmt.Sprintf(`{"names":["%s.example.com"]}`, label)))
			}
			routes = append(routes, matchRoute("rest", `{}`))
			if err := routes.Provision(modules.Context(t)); err != nil {
				t.Fatal(err)
			}
			client, server := newDuplex(t)
			sent := string(hello(name)) + "payload"
			play(t, client, func(c *duplex) {
				drip(c, []byte(sent), time.Millisecond)
				_ = c.CloseWrite()
			})
			cx := layer4.WrapConnection(server, nil, zap.NewNop())
			if err := routes.Compile(zap.NewNop(), time.Minute, end).Handle(cx); err != nil {
				t.Fatal(err)
			}
			checkPath(t, cx, want...)
			if got := noteOf(cx).stream; got != sent {
				t.Errorf("got a stream of %d bytes, want the %d sent", len(got), len(sent))
			}
		})
	}
}
