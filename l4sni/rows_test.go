package l4sni

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/mholt/caddy-l4/layer4"
	"go.uber.org/zap"

	"github.com/caddy-sluice/sluice/internal/preread"
	"github.com/caddy-sluice/sluice/modules/session"
)

// TestC39_ProxyHeaderCountsTowardsTheLimit has a header and a hello that fit exactly, and a limit of one byte less.
func TestC39_ProxyHeaderCountsTowardsTheLimit(t *testing.T) {
	header, tls := proxyV2(1, "198.51.100.7:1234", "203.0.113.9:8443"), hello("example.com")
	whole := slices.Concat(header, tls)
	if len(header) != 28 || len(tls) != 72 {
		t.Fatalf("got a header of %d bytes and a hello of %d, want 28 and 72", len(header), len(tls))
	}
	for _, tc := range []struct {
		limit  int
		kind   preread.Kind
		reason preread.Reason
	}{
		{99, preread.Reject, preread.TooLarge},
		{100, preread.Routed, preread.None},
	} {
		p := trusting(t, "192.0.2.0/24")
		p.cfg.MaxBytes = tc.limit
		conn := &script{data: whole}
		r := read(p, conn, nil)
		r.check(t, tc.kind, tc.reason)
		if got := len(whole) - len(conn.data); got != tc.limit {
			t.Errorf("limit %d: got %d bytes read, want the limit", tc.limit, got)
		}
		r.checkStream(t, tls)
	}
}

// tagged is a route for a name and these protocols with a tag.
func tagged(name, alpn, tag string) string {
	return fmt.Sprintf(`{"names":[%q],"alpn":[%s],"tags":{"team":%q},"handle":[{"handler":"probe"}]}`, name, alpn, tag)
}

// TestS17_Tags checks that each connection has the tags of its own route, whatever other routes are beside it. The list
// of two protocols and the protocol with a comma in it must not be taken for each other.
func TestS17_Tags(t *testing.T) {
	one, two := tagged("x.example.com", `"a,b"`, "one"), tagged("x.example.com", `"a","b"`, "two")
	other := tagged("y.example.com", "", "other")
	for _, tc := range []struct {
		name, routes string
		hello        []byte
		want         string // empty: no route
	}{
		{"comma", one + "," + two + "," + other, hello("x.example.com", "a,b"), "one"},
		{"first_of_list", one + "," + two + "," + other, hello("x.example.com", "a"), "two"},
		{"second_of_list", one + "," + two + "," + other, hello("x.example.com", "b"), "two"},
		{"other_name", one + "," + two + "," + other, hello("y.example.com", "a,b"), "other"},
		{"one_removed", two + "," + other, hello("x.example.com", "a,b"), ""},
		{"one_removed_list_stays", two + "," + other, hello("x.example.com", "b"), "two"},
		{"list_removed", one + "," + other, hello("x.example.com", "b"), ""},
		{"list_removed_one_stays", one + "," + other, hello("x.example.com", "a,b"), "one"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			router, _ := newRouter(t, `{"alert":"off","routes":[`+tc.routes+`]}`)
			cx := layer4.WrapConnection(&script{data: tc.hello}, nil, zap.NewNop())
			if err := router.Handle(cx, end); err != nil {
				t.Fatal(err)
			}
			sess := session.Of(cx)
			if got := sess.Tags["team"]; got != tc.want || sess.Routed != (tc.want != "") {
				t.Errorf("got routed %v with tag %q, want %q", sess.Routed, got, tc.want)
			}
		})
	}
}

// TestS15_NoLogOfRouted checks that what a stranger writes into a hello that gets its route can't fill the log.
func TestS15_NoLogOfRouted(t *testing.T) {
	name := strings.Repeat(strings.Repeat("n", 63)+".", 3) + strings.Repeat("n", 40) + ".wild.example.com"
	for _, routed := range []string{"*." + name[64:], "**.wild.example.com"} {
		synctest.Test(t, func(t *testing.T) {
			var alpn []string
			for len(alpn) < 4096/64 {
				alpn = append(alpn, strings.Repeat("p", 63))
			}
			config := fmt.Sprintf(`{"routes":[{"names":[%q],"handle":[{"handler":"probe"}]}]}`, routed)
			o := serve(t, config, sending{bytes: hello(name, alpn...), hello: true}, nil)
			if !o.sess.Routed || o.sess.Hello.ServerName != name {
				t.Fatalf("got routed %v with name %q", o.sess.Routed, o.sess.Hello.ServerName)
			}
			if o.logs.Len() != 0 {
				t.Errorf("got log entries %v, want none", o.logs.All())
			}
		})
	}
}

// TestT20_MessageWithoutEnd sends more than a full record of a message that never ends: a fallback gets all of it.
func TestT20_MessageWithoutEnd(t *testing.T) {
	sent := slices.Concat([]byte{22, 3, 1, 0x40, 0, 1, 0xff, 0xff, 0xff}, make([]byte, 16380),
		bytes.Repeat(append([]byte{22, 3, 1, 1, 0}, make([]byte, 256)...), 100))
	synctest.Test(t, func(t *testing.T) {
		s := sending{reason: preread.TooLarge, bytes: sent}
		o := serve(t, testRouter(`,"fallback":[{"reasons":["too_large"],"handle":[{"handler":"probe","name":"fallback"}]}]`), s, nil)
		checkPath(t, o.cx, "fallback")
		o.check(t, s, counts{"fallback_total too_large": 1})
		if got := noteOf(o.cx).stream; got != string(sent) {
			t.Errorf("got a stream of %d bytes, want the %d sent", len(got), len(sent))
		}
	})
}
