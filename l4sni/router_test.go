package l4sni

import (
	"bytes"
	"fmt"
	"io"
	"maps"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mholt/caddy-l4/layer4"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/caddy-sluice/sluice/internal/preread"
	"github.com/caddy-sluice/sluice/internal/testkit/hellos"
	"github.com/caddy-sluice/sluice/modules/session"
)

// sending is a connection that can't be decided as it should, and why.
type sending struct {
	reason preread.Reason
	bytes  []byte
	open   bool // the client stays, silent, for an hour
	// preread is the config of a preread in front of the router; empty: none.
	preread string
	// hello says whether the bytes hold a complete hello.
	hello bool
	alert []byte
}

// sendings has one entry for each of the reasons, for testRoutes.
var sendings = []sending{
	{reason: preread.NotTLS, bytes: []byte("GET / HTTP/1.1\r\n\r\n")},
	{reason: preread.MalformedRecord, bytes: []byte{22, 3, 1, 0x50, 0, 1, 0}},
	{reason: preread.MalformedHandshake, bytes: hellos.Record(hellos.TypeHandshake, 0x0303, hellos.Handshake(2, make([]byte, 40)))},
	{reason: preread.Fragmented, bytes: hello("a.example.com")[:20], open: true},
	{reason: preread.TooLarge, bytes: longHello},
	{reason: preread.NoSNI, bytes: hello(""), hello: true},
	{reason: preread.ECHOuterAbsent, bytes: hellos.New(hellos.Options{ECH: true}), hello: true},
	{reason: preread.SNIUnmatched, bytes: hello("unknown.example.net"), hello: true, alert: []byte{21, 3, 3, 0, 2, 2, 112}},
	{reason: preread.ALPNUnmatched, bytes: hello("h2.example.com", "http/1.1"), hello: true, alert: []byte{21, 3, 3, 0, 2, 2, 120}},
	{reason: preread.ProxyHeaderInvalid, bytes: hello("a.example.com"), preread: `{"proxy_protocol":{"from":["192.0.2.0/24"]}}`},
	{reason: preread.FrontClosed, bytes: hello("a.example.com")[:20]},
}

// connect returns both ends of a connection whose client sends.
func (s *sending) connect(t *testing.T) (client, server *duplex) {
	t.Helper()
	client, server = newDuplex(t)
	play(t, client, func(c *duplex) {
		_, _ = c.Write(s.bytes)
		if s.open {
			time.Sleep(time.Hour)
		}
		_ = c.CloseWrite()
	})
	return client, server
}

// testRoutes is a list of routes whose probes have the names of the routes.
const testRoutes = `
	{"names":["a.example.com"],"tags":{"team":"blue","tier":"1"},"handle":[{"handler":"probe","name":"a"}]},
	{"names":["*.wild.example.com"],"handle":[{"handler":"probe","name":"wild"}]},
	{"names":["h2.example.com"],"alpn":["h2"],"handle":[{"handler":"probe","name":"h2"}]},
	{"names":["panic.example.com"],"handle":[{"handler":"probe","name":"panic","do":"panic"}]},
	{"names":["chain.example.com"],"handle":[{"handler":"probe","name":"one","do":"next"},
		{"handler":"probe","name":"two","do":"next"},{"handler":"probe","name":"three","do":"next"}]}`

// testRouter is the config of a router with testRoutes and more fields.
func testRouter(more string) string { return `{"routes":[` + testRoutes + `]` + more + `}` }

// outcome is what has become of one connection.
type outcome struct {
	cx     *layer4.Connection
	sess   *session.Session
	got    []byte // by the client
	counts counts
	logs   *observer.ObservedLogs
}

// serve runs one connection through a router and its preread, if it has one, in the current bubble.
func serve(t *testing.T, config string, s sending, prepare func(*session.Session)) outcome {
	t.Helper()
	router, logs := newRouter(t, config)
	handlers := chain{router}
	if s.preread != "" {
		pre, _ := newPreread(t, s.preread)
		pre.logger = router.logger
		handlers = chain{pre, router}
	}
	before := count(t)
	client, server := s.connect(t)
	o := outcome{cx: layer4.WrapConnection(server, nil, zap.NewNop()), logs: logs}
	o.sess = session.Of(o.cx)
	if prepare != nil {
		prepare(o.sess)
	}
	read := make(chan []byte)
	go func() {
		b, _ := io.ReadAll(client)
		read <- b
	}()
	if err := handlers.handle(o.cx, end); err != nil {
		t.Errorf("got error %v, want none", err)
	}
	_ = server.Close()
	o.got = <-read
	o.counts = count(t).since(before)
	return o
}

// check checks what has been counted: the duration in any case, the hello if there was one.
func (o *outcome) check(t *testing.T, s sending, want counts) {
	t.Helper()
	want = maps.Clone(want)
	want["duration_seconds"] = 1
	if s.hello {
		want["hello_size_bytes"], want["hello_records"] = 1, 1
	}
	if !maps.Equal(o.counts, want) {
		t.Errorf("got counts %v, want %v", o.counts, want)
	}
}

// each runs f in a bubble for each reason.
func each(t *testing.T, f func(*testing.T, sending)) {
	t.Helper()
	var seen []preread.Reason
	for _, s := range sendings {
		seen = append(seen, s.reason)
		t.Run(s.reason.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { f(t, s) })
		})
	}
	if want := slices.Collect(preread.Reasons()); !slices.Equal(seen, want) {
		t.Errorf("got tests for %v, want %v", seen, want)
	}
}

// TestRejected takes every reason through a router without a fallback.
func TestRejected(t *testing.T) {
	for _, alert := range []string{"on", "off"} {
		t.Run("alert_"+alert, func(t *testing.T) {
			each(t, func(t *testing.T, s sending) {
				o := serve(t, testRouter(`,"alert":"`+alert+`"`), s, nil)
				checkPath(t, o.cx)
				o.check(t, s, counts{"rejected_total " + s.reason.String(): 1})
				if got, want := o.sess.CloseReason(), session.ForPreread(s.reason); got != want {
					t.Errorf("got close reason %v, want %v", got, want)
				}
				if alert == "off" {
					s.alert = nil
				}
				if !bytes.Equal(o.got, s.alert) {
					t.Errorf("got %v on the wire, want %v", o.got, s.alert)
				}
				checkQuiet(t, o.logs)
				if got := o.logs.All(); len(got) != 1 || got[0].ContextMap()["reason"] != s.reason.String() {
					t.Errorf("got log entries %v, want one with the reason", got)
				}
			})
		})
	}
}

// TestFallback takes every reason through a router with a fallback for all that can have one.
func TestFallback(t *testing.T) {
	each(t, func(t *testing.T, s sending) {
		o := serve(t, testRouter(`,"fallback":[{"handle":[{"handler":"probe","name":"fallback"}]}]`), s, nil)
		checkQuiet(t, o.logs)
		if closes(s.reason) {
			checkPath(t, o.cx)
			o.check(t, s, counts{"rejected_total " + s.reason.String(): 1})
			return
		}
		checkPath(t, o.cx, "fallback")
		o.check(t, s, counts{"fallback_total " + s.reason.String(): 1})
		if got := noteOf(o.cx).stream; got != string(s.bytes) {
			t.Errorf("got a stream of %d bytes in the fallback, want the %d sent", len(got), len(s.bytes))
		}
		if !o.sess.Routed || o.sess.Reason != s.reason || o.sess.CloseReason() != session.Open {
			t.Errorf("got routed %v, reason %v, close reason %q, want true, %v, none", o.sess.Routed, o.sess.Reason, o.sess.CloseReason(), s.reason)
		}
		if len(o.got) > 0 {
			t.Errorf("got %v on the wire, want nothing", o.got)
		}
	})
}

// TestFallbackForOne checks that a fallback takes its own reason and no other.
func TestFallbackForOne(t *testing.T) {
	each(t, func(t *testing.T, s sending) {
		o := serve(t, testRouter(`,"fallback":[{"reasons":["no_sni","too_large"],"handle":[{"handler":"probe","name":"one"}]},
			{"reasons":["not_tls"],"handle":[{"handler":"probe","name":"two"}]}]`), s, nil)
		switch s.reason {
		case preread.NoSNI, preread.TooLarge:
			checkPath(t, o.cx, "one")
		case preread.NotTLS:
			checkPath(t, o.cx, "two")
		default:
			checkPath(t, o.cx)
			o.check(t, s, counts{"rejected_total " + s.reason.String(): 1})
		}
	})
}

// TestFallbackNext checks that the fallback's last handler leads to what follows the router.
func TestFallbackNext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := sendings[0]
		o := serve(t, testRouter(`,"fallback":[{"handle":[{"handler":"probe","name":"fallback","do":"next"}]}]`), s, nil)
		checkPath(t, o.cx, "fallback", "end")
		if got := noteOf(o.cx).stream; got != string(s.bytes) {
			t.Errorf("got %q behind the router, want %q", got, s.bytes)
		}
	})
}

// TestHandsOver takes every reason through a router under a listener that has somewhere else to go.
func TestHandsOver(t *testing.T) {
	each(t, func(t *testing.T, s sending) {
		o := serve(t, testRouter(""), s, func(sess *session.Session) { sess.HandsOver = true })
		checkQuiet(t, o.logs)
		if closes(s.reason) {
			checkPath(t, o.cx)
			o.check(t, s, counts{"rejected_total " + s.reason.String(): 1})
			return
		}
		checkPath(t, o.cx, "end")
		o.check(t, s, counts{})
		if got := noteOf(o.cx).stream; got != string(s.bytes) || len(o.got) > 0 {
			t.Errorf("got a stream of %d bytes and %v on the wire, want the %d sent and nothing", len(got), o.got, len(s.bytes))
		}
	})
}

// TestFallbackBeforeHandOver checks that a fallback wins over what the listener has.
func TestFallbackBeforeHandOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := serve(t, testRouter(`,"fallback":[{"handle":[{"handler":"probe","name":"fallback"}]}]`), sendings[0],
			func(sess *session.Session) { sess.HandsOver = true })
		checkPath(t, o.cx, "fallback")
	})
}

// TestSilentClose checks that a client which comes and goes without a byte leaves no trace but the time it took.
func TestSilentClose(t *testing.T) {
	for _, pre := range []string{"", "{}", `{"proxy_protocol":{"from":["192.0.2.0/24"]}}`} {
		synctest.Test(t, func(t *testing.T) {
			s := sending{preread: pre}
			o := serve(t, testRouter(`,"fallback":[{"handle":[{"handler":"probe","name":"fallback"}]}]`), s, nil)
			checkPath(t, o.cx)
			o.check(t, s, counts{})
			checkQuiet(t, o.logs)
			if got, want := o.sess.CloseReason(), session.ForPreread(preread.FrontClosed); got != want {
				t.Errorf("got close reason %v, want %v", got, want)
			}
		})
	}
}

// TestRouted checks what a route's handlers find in the session.
func TestRouted(t *testing.T) {
	for _, tc := range []struct {
		name                    string
		hello                   []byte
		path                    []string
		pattern, protocol, team string
	}{
		{"exact", hello("A.example.com."), []string{"a"}, "a.example.com", "", "blue"},
		{"wildcard", hello("x.wild.example.com", "h2"), []string{"wild"}, "*.wild.example.com", "", ""},
		{"protocol", hello("h2.example.com", "spdy/1", "h2"), []string{"h2"}, "h2.example.com", "h2", ""},
		{"chain", hello("chain.example.com"), []string{"one", "two", "three", "end"}, "chain.example.com", "", ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := sending{bytes: append(tc.hello, "payload"...), hello: true}
				o := serve(t, testRouter(""), s, nil)
				checkPath(t, o.cx, tc.path...)
				o.check(t, s, counts{"routed_total": 1})
				checkQuiet(t, o.logs)
				if got := noteOf(o.cx).stream; got != string(s.bytes) {
					t.Errorf("got a stream of %d bytes, want the %d sent", len(got), len(s.bytes))
				}
				got := o.cx.Replacer().ReplaceAll("{l4.sluice.pattern} {l4.sluice.tags.team} {l4.sluice.reason}", "-")
				if want := fmt.Sprintf("%s %s %s", tc.pattern, orDash(tc.team), "-"); got != want {
					t.Errorf("got placeholders %q, want %q", got, want)
				}
				if !o.sess.Routed || o.sess.Protocol != tc.protocol || o.sess.CloseReason() != session.Open {
					t.Errorf("got routed %v, protocol %q, close reason %q, want true, %q, none",
						o.sess.Routed, o.sess.Protocol, o.sess.CloseReason(), tc.protocol)
				}
			})
		})
	}
}

// orDash is what the replacer makes of an empty value.
func orDash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}
