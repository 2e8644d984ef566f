package ipacl

import (
	"slices"
	"strings"
	"testing"

	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
	"github.com/mholt/caddy-l4/layer4"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/caddy-sluice/sluice/internal/testkit/conns"
	"github.com/caddy-sluice/sluice/internal/testkit/counts"
	"github.com/caddy-sluice/sluice/internal/testkit/modules"
	"github.com/caddy-sluice/sluice/modules/session"
)

const local = "10.0.0.1:443"

// load provisions a handler, with a logger whose entries can be looked at.
func load(t testing.TB, config string) (*Handler, *observer.ObservedLogs) {
	t.Helper()
	mod, err := modules.Load(t, "layer4.handlers.ip_acl", config)
	if err != nil {
		t.Fatal(err)
	}
	core, logs := observer.New(zap.DebugLevel)
	h := mod.(*Handler)
	h.logger = zap.New(core)
	return h, logs
}

func TestProvision(t *testing.T) {
	t.Setenv("SLUICE_TEST_RANGE", "10.0.0.0/8")
	for _, tc := range []struct{ config, err string }{
		{`{"allow":["10.0.0.1","10.0.0.0/8","2001:db8::/32","private_ranges","{env.SLUICE_TEST_RANGE}"]}`, ""},
		{`{"deny":["10.0.0.1"],"failure_mode":"closed"}`, ""},
		{`{}`, "allow, deny: at least one"},
		{`{"allow":[],"deny":[]}`, "allow, deny: at least one"},
		{`{"allow":["x"]}`, `allow: "x"`},
		{`{"deny":["10.0.0.0/33"]}`, `deny: "10.0.0.0/33"`},
		{`{"deny":["{l4.sluice.sni}"]}`, `deny: "{l4.sluice.sni}"`},
		{`{"deny":["10.0.0.1"],"failure_mode":"open"}`, `failure_mode: "open" is refused`},
		{`{"deny":["10.0.0.1"],"failure_mode":"ajar"}`, `failure_mode: "ajar" is not known; must be closed`},
	} {
		_, err := modules.Load(t, "layer4.handlers.ip_acl", tc.config)
		if (err == nil) != (tc.err == "") || err != nil && !strings.Contains(err.Error(), tc.err) {
			t.Errorf("%s: got error %v, want one with %q", tc.config, err, tc.err)
		}
	}
}

func TestHandle(t *testing.T) {
	for _, tc := range []struct {
		name, config, client string
		want                 bool
	}{
		{"allowed", `{"allow":["192.0.2.0/24"]}`, "192.0.2.1:1", true},
		{"not_allowed", `{"allow":["192.0.2.0/24"]}`, "198.51.100.1:1", false},
		{"denied", `{"deny":["192.0.2.0/24"]}`, "192.0.2.1:1", false},
		{"not_denied", `{"deny":["192.0.2.0/24"]}`, "198.51.100.1:1", true},
		{"both_deny_wins", `{"allow":["192.0.2.0/24"],"deny":["192.0.2.1"]}`, "192.0.2.1:1", false},
		{"both_allowed", `{"allow":["192.0.2.0/24"],"deny":["192.0.2.1"]}`, "192.0.2.2:1", true},
		{"both_on_neither", `{"allow":["192.0.2.0/24"],"deny":["192.0.2.1"]}`, "198.51.100.1:1", false},
		{"deny_wins_over_a_smaller_range", `{"allow":["192.0.2.1"],"deny":["192.0.2.0/24"]}`, "192.0.2.1:1", false},
		{"ipv4_as_ipv6_allowed", `{"allow":["192.0.2.0/24"]}`, "[::ffff:192.0.2.1]:1", true},
		{"ipv4_as_ipv6_denied", `{"deny":["192.0.2.0/24"]}`, "[::ffff:192.0.2.1]:1", false},
		{"range_as_ipv6", `{"allow":["::ffff:192.0.2.0/120"]}`, "192.0.2.1:1", true},
		{"ipv6", `{"allow":["2001:db8::/32"]}`, "[2001:db8::1]:1", true},
		{"ipv6_zone", `{"deny":["fe80::/10"]}`, "[fe80::1%lo]:1", false},
		{"all_of_ipv4_is_not_ipv6", `{"allow":["0.0.0.0/0"]}`, "[2001:db8::1]:1", false},
		{"private", `{"allow":["private_ranges"]}`, "192.168.1.1:1", true},
		{"no_address_allow", `{"allow":["0.0.0.0/0","::/0"]}`, "", false},
		{"no_address_deny", `{"deny":["0.0.0.0/0","::/0"]}`, "", true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			h, logs := load(t, tc.config)
			before := counts.Of(t, metrics.register)
			cx := conns.New(t, tc.client, local)
			called := false
			err := h.Handle(cx, layer4.HandlerFunc(func(*layer4.Connection) error {
				called = true
				return nil
			}))
			refused := session.Of(cx).CloseReason() == session.FilterRejection
			rejected := counts.Of(t, metrics.register).Since(before)["caddy_sluice_ip_acl_rejected_total"]
			if err != nil || called != tc.want || refused == tc.want || (rejected == 1) == tc.want || (logs.Len() == 1) == tc.want {
				t.Errorf("got %v, passed on %v, refused %v, counted %v, %d log lines, want passed on %v",
					err, called, refused, rejected, logs.Len(), tc.want)
			}
		})
	}
}

// TestEffectiveClient checks that the address in a PROXY header counts, not the load balancer's.
func TestEffectiveClient(t *testing.T) {
	h, _ := load(t, `{"allow":["203.0.113.9"]}`)
	for client, want := range map[string]bool{"203.0.113.9:1": true, "203.0.113.8:1": false} {
		cx := conns.New(t, "10.9.9.9:1", local)
		sess := session.Of(cx)
		sess.Set(func() { sess.Client = conns.Addr(client) })
		called := false
		_ = h.Handle(cx, layer4.HandlerFunc(func(*layer4.Connection) error {
			called = true
			return nil
		}))
		if called != want {
			t.Errorf("client %s: got passed on %v, want %v", client, called, want)
		}
	}
}

// TestEndedSession checks that a session which was stopped goes no further.
func TestEndedSession(t *testing.T) {
	h, _ := load(t, `{"deny":["192.0.2.1"]}`)
	before := counts.Of(t, metrics.register)
	cx := conns.New(t, "192.0.2.1:1", local)
	session.Of(cx).End(session.Killed)
	_ = h.Handle(cx, layer4.HandlerFunc(func(*layer4.Connection) error {
		t.Error("got a call of next")
		return nil
	}))
	if got := counts.Of(t, metrics.register).Since(before); len(got) > 0 {
		t.Errorf("got %v counted, want nothing", got)
	}
}

func TestUnmarshalCaddyfile(t *testing.T) {
	for _, tc := range []struct {
		text        string
		allow, deny []string
		err         string
	}{
		{"ip_acl {\nallow a b\ndeny c\nallow d\nfailure_mode closed\n}", []string{"a", "b", "d"}, []string{"c"}, ""},
		{"ip_acl", nil, nil, ""}, // refused when it is loaded
		{"ip_acl a", nil, nil, `ip_acl takes no argument, got "a"`},
		{"ip_acl {\nallow\n}", nil, nil, "allow needs at least one argument"},
		{"ip_acl {\nfailure_mode\n}", nil, nil, "failure_mode needs an argument"},
		{"ip_acl {\npermit a\n}", nil, nil, `unrecognized option "permit": expected allow, deny or failure_mode`},
	} {
		var h Handler
		err := h.UnmarshalCaddyfile(caddyfile.NewTestDispenser(tc.text))
		if (err == nil) != (tc.err == "") || err != nil && !strings.Contains(err.Error(), tc.err) {
			t.Errorf("%q: got error %v, want one with %q", tc.text, err, tc.err)
		}
		if err == nil && (!slices.Equal(h.Allow, tc.allow) || !slices.Equal(h.Deny, tc.deny)) {
			t.Errorf("%q: got %v, %v, want %v, %v", tc.text, h.Allow, h.Deny, tc.allow, tc.deny)
		}
	}
}

func BenchmarkHandle(b *testing.B) {
	h, _ := load(b, `{"allow":["192.0.2.0/24","10.0.0.0/8","2001:db8::/32"],"deny":["192.0.2.128/25"]}`)
	cx := conns.New(b, "192.0.2.1:1", local)
	next := layer4.HandlerFunc(func(*layer4.Connection) error { return nil })
	b.ReportAllocs()
	for b.Loop() {
		_ = h.Handle(cx, next)
	}
}
