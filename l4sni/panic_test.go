package l4sni

import (
	"net"
	"testing"
	"testing/synctest"

	"github.com/mholt/caddy-l4/layer4"
	"go.uber.org/zap"

	"github.com/caddy-sluice/sluice/internal/preread"
	"github.com/caddy-sluice/sluice/modules/session"
)

// TestPanic checks that a fault in a handler ends its own connection only, is reported, and leaves no count behind.
func TestPanic(t *testing.T) {
	const fallback = `,"fallback":[{"handle":[{"handler":"probe","name":"panic","do":"panic"}]}]`
	for _, pre := range []string{"", "{}"} {
		for _, tc := range []struct {
			name string
			s    sending
			want counts
		}{
			{"route", sending{bytes: hello("panic.example.com"), hello: true}, counts{"routed_total": 1}},
			{"fallback", sending{bytes: hello("unknown.example.net"), hello: true}, counts{"fallback_total sni_unmatched": 1}},
			{"fallback_without_hello", sending{bytes: []byte("GET /")}, counts{"fallback_total not_tls": 1}},
		} {
			t.Run(tc.name+pre, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					tc.s.preread = pre
					o := serve(t, testRouter(fallback), tc.s, nil)
					checkPath(t, o.cx, "panic")
					o.check(t, tc.s, tc.want)
					if got := o.sess.CloseReason(); got != session.Internal {
						t.Errorf("got close reason %v, want %v", got, session.Internal)
					}
					errors := o.logs.FilterLevelExact(zap.ErrorLevel).All()
					if len(errors) != 1 || errors[0].ContextMap()["panic"] != "probe panic" {
						t.Errorf("got errors %v, want one with the panic's value", errors)
					}
				})
			})
		}
	}
}

// TestUDPIsCountedAsNothing checks that a connection which can't be preread is an error, and not a client's.
func TestUDPIsCountedAsNothing(t *testing.T) {
	router, _ := newRouter(t, testRouter(""))
	pre, _ := newPreread(t, "{}")
	for _, handlers := range []chain{{router}, {pre, router}} {
		before := count(t)
		cx := udpConnection()
		if err := handlers.handle(cx, end); err != errUDP {
			t.Errorf("got error %v, want %v", err, errUDP)
		}
		checkPath(t, cx)
		checkCounts(t, before, counts{"duration_seconds": 1})
		if got := session.Of(cx).Reason; got != preread.None {
			t.Errorf("got reason %v, want none", got)
		}
	}
}

// udpConnection is a connection of datagrams with a hello in the first.
func udpConnection() *layer4.Connection {
	conn := &script{data: hello("a.example.com"), local: &net.UDPAddr{Port: 443}}
	return layer4.WrapConnection(conn, nil, zap.NewNop())
}
