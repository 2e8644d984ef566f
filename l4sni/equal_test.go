package l4sni

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/mholt/caddy-l4/layer4"
	"go.uber.org/zap"

	"github.com/caddy-sluice/sluice/internal/testkit/hellos"
	"github.com/caddy-sluice/sluice/modules/session"
)

// flights are first bytes of all kinds, by name.
func flights() map[string][]byte {
	all := make(map[string][]byte)
	for _, rec := range hellos.Recorded() {
		all[rec.Name] = rec.Bytes
	}
	for _, s := range sendings {
		all[s.reason.String()] = s.bytes
	}
	for _, name := range []string{"", "a.example.com", "x.wild.example.com", "h2.example.com", "unknown.example.net", "192.0.2.1"} {
		for _, alpn := range [][]string{nil, {"h2"}, {"http/1.1", "h2"}, {"spdy/1"}} {
			for _, ech := range []bool{false, true} {
				o := hellos.Options{ServerName: name, ALPN: alpn, ECH: ech}
				label := fmt.Sprintf("%s/%s/%v", name, strings.Join(alpn, ","), ech)
				all[label] = hellos.New(o)
				all[label+"/records"] = hellos.Wrap(hellos.Message(o), 3, 40, 1)
			}
		}
	}
	return all
}

// seenOf is all that can be told of a connection that has gone through handlers, in words.
func seenOf(t *testing.T, conn *script, handlers chain) string {
	t.Helper()
	before := count(t)
	cx := layer4.WrapConnection(conn, nil, zap.NewNop())
	if err := handlers.handle(cx, end); err != nil {
		t.Fatal(err)
	}
	sess := session.Of(cx)
	hello := "no hello"
	if sess.Hello != nil {
		hello = fmt.Sprintf("%+v", *sess.Hello)
	}
	changes := count(t).since(before)
	var sorted []string
	for _, name := range slices.Sorted(maps.Keys(changes)) {
		sorted = append(sorted, fmt.Sprint(name, "=", changes[name]))
	}
	n := noteOf(cx)
	return fmt.Sprintf("path %q, %d bytes; %v, %q, routed %v, pattern %q, protocol %q, tags %v; %s; %v", n.path, len(n.stream),
		sess.Reason, sess.CloseReason(), sess.Routed, sess.Pattern, sess.Protocol, sess.Tags, hello, sorted)
}

// TestPrereadChangesNothing checks that a router decides the same whether a preread runs before it or not, and however
// the client's bytes are cut.
func TestPrereadChangesNothing(t *testing.T) {
	const fallback = `,"alert":"off","fallback":[{"reasons":["no_sni","not_tls","sni_unmatched"],"handle":[{"handler":"probe","name":"fallback"}]}]`
	router, _ := newRouter(t, testRouter(fallback))
	pre, _ := newPreread(t, "{}")
	routes := make(map[string]int)
	for name, flight := range flights() {
		want := seenOf(t, &script{data: flight}, chain{router})
		routes[want[:strings.Index(want, ",")]]++
		for _, chunk := range []int{0, 1, 50, 1023} {
			if got := seenOf(t, &script{data: flight, chunk: chunk}, chain{pre, router}); got != want {
				t.Errorf("%s in reads of %d behind a preread:\ngot  %s\nwant %s", name, chunk, got, want)
			}
			if got := seenOf(t, &script{data: flight, chunk: chunk}, chain{router}); got != want {
				t.Errorf("%s in reads of %d:\ngot  %s\nwant %s", name, chunk, got, want)
			}
		}
	}
	if len(routes) < 5 { // closed, fallback, a, wild, h2
		t.Errorf("got outcomes %v, want more kinds", routes)
	}
}

// TestSecondRouter checks that a router behind another asks its own table about the hello that the first has read.
func TestSecondRouter(t *testing.T) {
	first, _ := newRouter(t, testRouter(`,"fallback":[{"handle":[{"handler":"probe","name":"first","do":"next"}]}]`))
	second, _ := newRouter(t, `{"alert":"off","routes":[{"names":["unknown.example.net"],"handle":[{"handler":"probe","name":"second"}]}]}`)
	for _, tc := range []struct {
		name   string
		flight []byte
		path   []string
		want   counts
	}{
		{
			"routed_by_the_second", hello("unknown.example.net"),
			[]string{"first", "second"},
			counts{"fallback_total sni_unmatched": 1, "routed_total": 1, "hello_size_bytes": 1, "hello_records": 1, "duration_seconds": 1},
		},
		{
			"rejected_by_the_second", hello("other.example.net"),
			[]string{"first"},
			counts{"fallback_total sni_unmatched": 1, "rejected_total sni_unmatched": 1, "hello_size_bytes": 1, "hello_records": 1, "duration_seconds": 1},
		},
		{
			"not_tls_for_both", []byte("GET /"),
			[]string{"first"},
			counts{"fallback_total not_tls": 1, "rejected_total not_tls": 1, "duration_seconds": 1},
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			before := count(t)
			cx := layer4.WrapConnection(&script{data: tc.flight}, nil, zap.NewNop())
			if err := (chain{first, second}).handle(cx, end); err != nil {
				t.Fatal(err)
			}
			checkPath(t, cx, tc.path...)
			checkCounts(t, before, tc.want)
		})
	}
}
