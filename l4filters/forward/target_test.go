package forward

import (
	"io"
	"net"
	"net/netip"
	"strings"
	"testing"

	"github.com/mholt/caddy-l4/layer4"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"golang.org/x/net/dns/dnsmessage"

	"github.com/caddy-sluice/sluice/internal/testkit/dns"
	"github.com/caddy-sluice/sluice/modules/session"
)

func TestAllowList(t *testing.T) {
	list := allowList{}
	for _, entry := range []string{
		"a.example.com:443", "*.one.example:8000-8100", "**.many.example:443", ".tree.example:443", "bücher.example:443",
		"192.0.2.1:443", "[2001:db8::1]:443-444", "PORTS.example:1-65535",
	} {
		a, err := parseAllowed(entry)
		if err != nil {
			t.Fatalf("%s: %v", entry, err)
		}
		list = append(list, a)
	}
	for _, tc := range []struct{ address, want string }{
		{"a.example.com:443", "a.example.com:443"},
		{"A.Example.COM:443", "a.example.com:443"},
		{"a.example.com.:443", "a.example.com:443"},
		{"a.example.com:444", ""},
		{"b.example.com:443", ""},
		{"x.a.example.com:443", ""},
		{"x.one.example:8000", "x.one.example:8000"},
		{"x.one.example:8100", "x.one.example:8100"},
		{"x.one.example:7999", ""},
		{"x.one.example:8101", ""},
		{"one.example:8000", ""},
		{"x.y.one.example:8000", ""},
		{"x.y.many.example:443", "x.y.many.example:443"},
		{"many.example:443", ""},
		{"tree.example:443", "tree.example:443"},
		{"x.y.tree.example:443", "x.y.tree.example:443"},
		{"*.one.example:8000", ""},
		{".tree.example:443", ""},
		{"**.many.example:443", ""},
		{"bücher.example:443", "xn--bcher-kva.example:443"},
		{"192.0.2.1:443", "192.0.2.1:443"},
		{"[::ffff:192.0.2.1]:443", "192.0.2.1:443"},
		{"192.0.2.2:443", ""},
		{"[2001:db8::1]:444", "[2001:db8::1]:444"},
		{"[2001:db8:0::1]:443", "[2001:db8::1]:443"},
		{"[2001:db8::1%eth0]:443", ""},
		{"[2001:db8::2]:443", ""},
		{"ports.example:65535", "ports.example:65535"},
		{"ports.example:0443", "ports.example:443"},
		{"ports.example:0", ""},
		{"ports.example:65536", ""},
		{"ports.example:+443", ""},
		{"ports.example:https", ""},
		{"ports.example", ""},
		{":443", ""},
		{"", ""},
		{"a.example.com:443:443", ""},
		{"a.example.com/x:443", ""},
		{"tcp/a.example.com:443", ""},
		{"a.example.com\n:443", ""},
		{"a..example.com:443", ""},
		{strings.Repeat("a", 64) + ".tree.example:443", ""},
		{strings.Repeat("a.", 127) + "tree.example:443", ""},
	} {
		to, err := list.parse(tc.address)
		switch {
		case tc.want == "" && err == nil:
			t.Errorf("%q: got %s, want none", tc.address, to.text)
		case tc.want != "" && (err != nil || to.text != tc.want || to.trusted):
			t.Errorf("%q: got %+v, %v, want %s, not trusted", tc.address, to, err, tc.want)
		}
	}
}

func TestAllowRefused(t *testing.T) {
	for entry, want := range map[string]string{
		"":                      "with a port",
		"a.example.com":         "with a port",
		"a.example.com:":        `port "" must be a number`,
		"a.example.com:0":       `port "0" must be a number from 1 to 65535`,
		"a.example.com:65536":   `port "65536"`,
		"a.example.com:80-":     `port ""`,
		"a.example.com:443-80":  "ends before it begins",
		"a.example.com:https":   `port "https"`,
		"*:443":                 "a wildcard needs a name",
		"a.*.com:443":           "a * is only allowed",
		":443":                  "it is empty",
		"[fe80::1%eth0]:443":    "zone",
		"{l4.sluice.sni}:443":   "invalid pattern",
		"2001:db8::1:443":       "with a port",
		"a example.com:443":     "invalid pattern",
		"unix//run/x.sock:443":  "invalid pattern",
		"10.0.0.0/8:443":        "invalid pattern",
		"a.example.com:80,8080": "port",
	} {
		if _, err := parseAllowed(entry); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: got error %v, want one with %q", entry, err, want)
		}
	}
}

// resolve makes a handler's names resolve to these addresses.
func (h *Handler) resolve(t *testing.T, names map[string]string) {
	t.Helper()
	h.dialer.Resolver = dns.Serve(t, func(name string, _ dnsmessage.Type) []netip.Addr {
		var addrs []netip.Addr
		for text := range strings.FieldsSeq(names[name]) {
			addrs = append(addrs, netip.MustParseAddr(text))
		}
		return addrs
	})
}

// TestDynamicUpstream checks where the name in a hello leads.
func TestDynamicUpstream(t *testing.T) {
	address, done := backend(t, func(conn *net.TCPConn) { _, _ = io.Copy(io.Discard, conn) })
	_, port, _ := net.SplitHostPort(address)
	names := map[string]string{"a.apps.test": "127.0.0.1", "bad.apps.test": "", "two.labels.apps.test": "127.0.0.1"}
	for _, tc := range []struct {
		name, sni, settings, upstream string
		want                          session.CloseReason
	}{
		{"guarded", "a.apps.test", ``, "a.apps.test:" + port, session.Guard},
		{"unknown", "bad.apps.test", ``, "bad.apps.test:" + port, session.ResolveFailure},
		{"not_allowed", "two.labels.apps.test", ``, "", session.Guard},
		{"address", "127.0.0.1", ``, "", session.Guard},
		{"allowed_address_is_guarded", "127.0.0.2", ``, "127.0.0.2:" + port, session.Guard},
		{"wildcard_itself", "*.apps.test", ``, "", session.Guard},
		{"empty", "", ``, "", session.Guard},
		{"allow_private", "a.apps.test", `,"allow_private":true`, "a.apps.test:" + port, session.Completed},
	} {
		t.Run(tc.name, func(t *testing.T) {
			h, logs, err := load(t, `{"upstream":"{l4.sluice.sni}:`+port+`","allow":["*.apps.test:`+port+`","127.0.0.2:`+port+`"]`+tc.settings+`}`)
			if err != nil {
				t.Fatal(err)
			}
			h.resolve(t, names)
			client, server := newPair(t)
			_ = client.CloseWrite()
			cx := layer4.WrapConnection(server, nil, zap.NewNop())
			sess := session.Of(cx)
			sess.Hello = &session.Hello{ServerName: tc.sni}
			if err := h.Handle(cx, behind(t)); err != nil {
				t.Fatal(err)
			}
			if sess.CloseReason() != tc.want || sess.Upstream != tc.upstream {
				t.Errorf("got %v, upstream %q, want %v, %q", sess.CloseReason(), sess.Upstream, tc.want, tc.upstream)
			}
			if logs.Len() != 1 || logs.All()[0].Level != zapcore.DebugLevel {
				t.Errorf("got %v, want one line at debug", logs.All())
			}
		})
	}
	<-done // one connection, of the last case
}

// TestUnknownPlaceholder checks that a name that no placeholder has closes the connection.
func TestUnknownPlaceholder(t *testing.T) {
	h, _, err := load(t, `{"upstream":"{l4.none}:443","allow":[".test:443"]}`)
	if err != nil {
		t.Fatal(err)
	}
	cx := layer4.WrapConnection(pipe(t), nil, zap.NewNop())
	if err := h.Handle(cx, behind(t)); err != nil {
		t.Fatal(err)
	}
	if got := session.Of(cx).CloseReason(); got != session.Guard {
		t.Errorf("got %v, want %v", got, session.Guard)
	}
}

// FuzzAllowList holds that whatever a client makes of an address, what is dialled is covered by the list, and is the
// same when it is read again.
func FuzzAllowList(f *testing.F) {
	for _, seed := range []string{"a.apps.test:443", "[::ffff:192.0.2.1]:443", "A.APPS.TEST.:8000", "*.apps.test:443", "bücher.apps.test:443"} {
		f.Add(seed)
	}
	var list allowList
	for _, entry := range []string{"*.apps.test:443", "192.0.2.1:443", "[2001:db8::1]:1-65535"} {
		a, err := parseAllowed(entry)
		if err != nil {
			f.Fatal(err)
		}
		list = append(list, a)
	}
	f.Fuzz(func(t *testing.T, address string) {
		to, err := list.parse(address)
		if err != nil {
			return
		}
		label, isName := strings.CutSuffix(to.host, ".apps.test")
		ok := isName && label != "" && !strings.ContainsAny(label, ".*:/%{ ") && to.port == 443 ||
			to.host == "192.0.2.1" && to.port == 443 || to.host == "2001:db8::1"
		if !ok {
			t.Errorf("%q: got %s, which is not on the list", address, to.text)
		}
		again, err := list.parse(net.JoinHostPort(to.host, address[strings.LastIndexByte(address, ':')+1:]))
		if err != nil || *again != *to {
			t.Errorf("%q: got %+v, and then %+v, %v", address, to, again, err)
		}
	})
}
