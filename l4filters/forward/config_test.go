package forward

import (
	"strings"
	"testing"
	"time"

	"github.com/caddy-sluice/sluice/internal/lifetime"
	"github.com/caddy-sluice/sluice/internal/netguard"
	"github.com/caddy-sluice/sluice/internal/sockopt"
	"github.com/caddy-sluice/sluice/internal/testkit/modules"
	"github.com/caddy-sluice/sluice/modules/sluiceapp"
)

// with returns the JSON of a handler with a public upstream and these settings.
func with(settings string) string {
	if settings != "" {
		settings = "," + settings
	}
	return `{"upstream":"192.0.2.1:443"` + settings + `}`
}

// TestDurations checks the defaults, what each duration may be, and what is off.
func TestDurations(t *testing.T) {
	type durations struct {
		connect   time.Duration
		limits    lifetime.Limits
		keepAlive sockopt.KeepAlive
	}
	defaults := durations{connect: 10 * time.Second, limits: lifetime.Limits{Idle: 10 * time.Minute, HalfClose: time.Minute}}
	for _, tc := range []struct {
		settings string
		change   func(*durations)
	}{
		{``, func(*durations) {}},
		{`"connect_timeout":"10ms"`, func(d *durations) { d.connect = 10 * time.Millisecond }},
		{`"connect_timeout":"5m"`, func(d *durations) { d.connect = 5 * time.Minute }},
		{`"idle_timeout":"1s"`, func(d *durations) { d.limits.Idle = time.Second }},
		{`"idle_timeout":"30d"`, func(d *durations) { d.limits.Idle = 30 * 24 * time.Hour }},
		{`"idle_timeout":-1`, func(d *durations) { d.limits.Idle = -1 }},
		{`"session_timeout":"1s"`, func(d *durations) { d.limits.Session = time.Second }},
		{`"session_timeout":"30d"`, func(d *durations) { d.limits.Session = 30 * 24 * time.Hour }},
		{`"max_duration":"1s"`, func(d *durations) { d.limits.Max = time.Second }},
		{`"max_duration":"30d"`, func(d *durations) { d.limits.Max = 30 * 24 * time.Hour }},
		{`"half_close_timeout":"1s"`, func(d *durations) { d.limits.HalfClose = time.Second }},
		{`"half_close_timeout":-1`, func(d *durations) { d.limits.HalfClose = -1 }},
		{`"keepalive":"30s"`, func(d *durations) { d.keepAlive.Interval = 30 * time.Second }},
		{`"keepalive":-1`, func(d *durations) { d.keepAlive.Interval = -1 }},
		{`"user_timeout":"20s"`, func(d *durations) { d.keepAlive.UserTimeout = 20 * time.Second }},
	} {
		t.Run(tc.settings, func(t *testing.T) {
			h, _, err := load(t, with(tc.settings))
			if err != nil {
				t.Fatal(err)
			}
			want := defaults
			tc.change(&want)
			if got := (durations{h.connectTimeout, h.limits, h.dialer.KeepAlive}); got != want {
				t.Errorf("got %+v, want %+v", got, want)
			}
		})
	}
}

// TestRefused checks that each error names its field and says what would be right.
func TestRefused(t *testing.T) {
	for _, tc := range []struct{ name, config, err string }{
		{"T85_no_upstream", `{}`, "upstream: is required"},
		{"upstream_without_port", `{"upstream":"x"}`, `upstream: "x"`},
		{"Z126_udp", `{"upstream":"udp/192.0.2.1:53"}`, "upstream: "},
		{"connect_timeout_short", with(`"connect_timeout":"9ms"`), "connect_timeout: 9ms is out of range, 10ms to 5m0s"},
		{"connect_timeout_long", with(`"connect_timeout":"301s"`), "connect_timeout: 5m1s is out of range"},
		{"connect_timeout_off", with(`"connect_timeout":-1`), "connect_timeout: -1ns is out of range"},
		{"idle_timeout_short", with(`"idle_timeout":"999ms"`), "idle_timeout: 999ms is out of range, 1s to 30d"},
		{"idle_timeout_long", with(`"idle_timeout":"31d"`), "idle_timeout: 744h0m0s is out of range"},
		{"idle_timeout_negative", with(`"idle_timeout":-2`), "idle_timeout: -2ns is out of range"},
		{"T86_session_timeout_short", with(`"session_timeout":"1ms"`), "session_timeout: 1ms is out of range"},
		{"T86_session_timeout_long", with(`"session_timeout":"721h"`), "session_timeout: 721h0m0s is out of range"},
		{"T86_max_duration_short", with(`"max_duration":1`), "max_duration: 1ns is out of range, 1s to 30d"},
		{"T86_max_duration_long", with(`"max_duration":"720h1s"`), "max_duration: 720h0m1s is out of range"},
		{"T86_max_duration_off", with(`"max_duration":-1`), "max_duration: -1ns is out of range"},
		{"half_close_timeout_short", with(`"half_close_timeout":"10ms"`), "half_close_timeout: 10ms is out of range"},
		{"keepalive_long", with(`"keepalive":"3h"`), "keepalive: 3h0m0s is out of range, 1s to 2h0m0s"},
		{"user_timeout_short", with(`"user_timeout":"1ms"`), "user_timeout: 1ms is out of range, 1s to 1d"},
		{"header_unknown", with(`"proxy_protocol":"v3"`), `proxy_protocol: "v3" is not known; must be one of v1, v2, relay`},
		{"guard_unknown", with(`"guard":"some"`), `guard mode "some" is not known`},
		{"guard_and_allow_private", with(`"guard":"strict","allow_private":true`), "allow_private: contradicts guard strict"},
		{"guard_dns_and_allow_private", with(`"guard":"dns","allow_private":true`), "allow_private: contradicts guard dns"},
		{
			"T81_strict_private_literal", `{"upstream":"10.0.0.1:443","guard":"strict"}`,
			"upstream: guard strict: refusing 10.0.0.1: the address is private (guard dns would permit it)",
		},
		{"T81_strict_loopback_literal", `{"upstream":"[::1]:443","guard":"strict"}`, "the address is loopback"},
		{"limit_negative", with(`"max_connections_per_ip":-1`), "max_connections_per_ip: -1 is out of range, 1 to 10000000"},
		{"limit_large", with(`"max_connections_per_ip":10000001`), "max_connections_per_ip: 10000001 is out of range"},
		{"prefix_alone", with(`"ipv6_prefix":64`), "ipv6_prefix: has no meaning without max_connections_per_ip"},
		{"prefix_large", with(`"max_connections_per_ip":1,"ipv6_prefix":129`), "ipv6_prefix: 129 is out of range, 1 to 128"},
		{"placeholder_without_allow", `{"upstream":"{l4.sluice.sni}:443"}`, "allow must say where it may lead"},
		{"allow_without_placeholder", with(`"allow":["a.example.com:443"]`), `allow: upstream "192.0.2.1:443" has no placeholder`},
		{"dynamic_unix", `{"upstream":"unix//run/{l4.sluice.sni}","allow":["a.example.com:443"]}`, "must be host:port"},
		{"tls_ports", with(`"tls":{"except_ports":["80"]}`), "tls: except_ports: is not supported"},
		{"tls_timeout", with(`"tls":{"handshake_timeout":"1ms"}`), "tls: handshake_timeout: 1ms is out of range"},
		{"tls_alpn_empty", with(`"tls":{"alpn":["h2",""]}`), `tls: alpn 1: "" must have 1 to 255 bytes`},
		{"tls_curve", with(`"tls":{"curves":["none"]}`), "tls: unsupported curve: none"},
		{"tls_name", with(`"tls":{"server_name":"{l4.sluice.sni}"}`), `tls: server_name: "{l4.sluice.sni}"`},
		{"tls_unix", `{"upstream":"unix//run/x","tls":{}}`, "tls: server_name: is required for a unix socket"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if _, _, err := load(t, tc.config); err == nil || !strings.Contains(err.Error(), tc.err) {
				t.Errorf("got error %v, want one with %q", err, tc.err)
			}
		})
	}
}

// TestGuardMode checks which guard holds: the handler's, else that of the app.
func TestGuardMode(t *testing.T) {
	for _, tc := range []struct {
		app      netguard.Mode
		settings string
		want     netguard.Mode
	}{
		{netguard.DNS, ``, netguard.DNS},
		{netguard.Strict, ``, netguard.Strict},
		{netguard.Strict, `"guard":"dns"`, netguard.DNS},
		{netguard.Off, `"guard":"strict"`, netguard.Strict},
		{netguard.Strict, `"allow_private":true`, netguard.Off},
		{netguard.DNS, `"allow_private":true,"guard":"off"`, netguard.Off},
	} {
		t.Run(tc.app.String()+" "+tc.settings, func(t *testing.T) {
			ctx := modules.Context(t)
			app, err := sluiceapp.Of(ctx)
			if err != nil {
				t.Fatal(err)
			}
			app.Guard = tc.app
			mod, err := ctx.LoadModuleByID("layer4.handlers.forward", []byte(with(tc.settings)))
			if err != nil {
				t.Fatal(err)
			}
			if got := mod.(*Handler).dialer.Mode; got != tc.want {
				t.Errorf("got %v, want %v", got, tc.want)
			}
		})
	}
}

// TestPrivateLiterals checks that the operator's own addresses pass where the guard looks at DNS only, and everywhere
// with allow_private.
func TestPrivateLiterals(t *testing.T) {
	for _, config := range []string{
		`{"upstream":"127.0.0.1:443"}`,
		`{"upstream":"10.0.0.1:443","guard":"dns"}`,
		`{"upstream":"10.0.0.1:443","allow_private":true}`,
		`{"upstream":"unix//run/backend.sock","guard":"strict"}`,
		`{"upstream":"backend.internal:443","guard":"strict"}`,
		`{"upstream":"192.0.2.1:443","guard":"strict"}`,
	} {
		if _, _, err := load(t, config); err != nil {
			t.Errorf("%s: got %v, want no error", config, err)
		}
	}
}
