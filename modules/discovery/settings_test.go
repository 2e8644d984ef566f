package discovery

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"

	"github.com/caddy-sluice/sluice/internal/testkit/modules"
)

func TestRefused(t *testing.T) {
	long := strings.Repeat("a", 64)
	for _, tc := range []struct {
		name     string
		settings string
		want     string
	}{
		{"nothing", `{}`, "exactly one of srv, a and upstreams"},
		{"two", `{"srv":{"name":"a.test"},"a":{"name":"a.test","port":1}}`, "exactly one of srv, a and upstreams"},
		{"refresh_too_short", `{"refresh":"999ms","srv":{"name":"a.test"}}`, "refresh 999ms"},
		{"refresh_too_long", `{"refresh":"25h","srv":{"name":"a.test"}}`, "refresh 25h"},
		{"refresh_negative", `{"refresh":"-1s","srv":{"name":"a.test"}}`, "refresh -1s"},
		{"srv_without_name", `{"srv":{}}`, "srv: name: it is required"},
		{"srv_label_too_long", `{"srv":{"name":"` + long + `.test"}}`, "srv: name: "},
		{"name_too_long", `{"srv":{"name":"` + strings.Repeat("abc.", 64) + `test"}}`, "srv: name: "},
		{"empty_label", `{"srv":{"name":"a..test"}}`, `srv: name: "a..test" is not a name`},
		{"dot", `{"srv":{"name":"."}}`, "srv: name: "},
		{"port_in_name", `{"a":{"name":"a.test:80","port":80}}`, `a: name: "a.test:80" is not a name`},
		{"address", `{"a":{"name":"192.0.2.1","port":80}}`, "write it as an endpoint"},
		{"unknown_placeholder", `{"srv":{"name":"{no.such}.test"}}`, "srv: name: "},
		{"without_port", `{"a":{"name":"a.test"}}`, "a: port 0"},
		{"port_too_large", `{"a":{"name":"a.test","port":65536}}`, "a: port 65536"},
		{"port_negative", `{"a":{"name":"a.test","port":-1}}`, "a: port -1"},
		{"resolver_empty", `{"a":{"name":"a.test","port":1,"resolvers":[""]}}`, `a: resolvers: "" is neither`},
		{"resolver_port", `{"srv":{"name":"a.test","resolvers":["192.0.2.53","192.0.2.53:0"]}}`, `srv: resolvers: "192.0.2.53:0" has no port`},
		{"resolver_port_name", `{"srv":{"name":"a.test","resolvers":["192.0.2.53:domain"]}}`, `srv: resolvers: "192.0.2.53:domain" has no port`},
		{"resolver_url", `{"srv":{"name":"a.test","resolvers":["https://dns.test/"]}}`, "srv: resolvers: "},
		{"resolver_placeholder", `{"srv":{"name":"a.test","resolvers":["{no.such}"]}}`, "srv: resolvers: "},
		{"resolvers_too_many", `{"srv":{"name":"a.test","resolvers":["a","a","a","a","a","a","a","a","a"]}}`, "srv: resolvers: 9 are given, at most 8"},
		{"cluster", `{"upstreams":{"source":"cluster"}}`, "upstreams: source: a cluster can't be found by a cluster"},
		{"cluster_in_multi", `{"upstreams":{"source":"multi","sources":[{"source":"a"},{"source":"multi","sources":[{"source":"cluster"}]}]}}`, "a cluster can't be found by a cluster"},
		{"unknown_module", `{"upstreams":{"source":"no_such"}}`, "upstreams: "},
		{"without_module", `{"upstreams":{}}`, "upstreams: "},
		{"not_an_object", `{"upstreams":3}`, "upstreams: "},
		{"finds_nothing", `{"upstreams":{"source":"discovery_other"}}`, "upstreams: source: *discovery.other does not find upstreams"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var d Discover
			if err := json.Unmarshal([]byte(tc.settings), &d); err != nil {
				t.Fatal(err)
			}
			if _, err := d.Provision(modules.Context(t)); err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("got %v, want %q in it", err, tc.want)
			}
		})
	}
}

func TestIdentity(t *testing.T) {
	t.Setenv("SLUICE_TEST_NAME", "A.test")
	for _, tc := range []struct {
		name     string
		settings string
		want     string
	}{
		{"srv", `{"refresh":"5s","srv":{"name":"{env.SLUICE_TEST_NAME}"}}`, `{"srv":{"name":"a.test"}}`},
		{
			"a", `{"a":{"name":"a.test","port":80,"resolvers":["192.0.2.53","[::1]:5353","::1","{env.SLUICE_TEST_NAME}:54"]}}`,
			`{"a":{"name":"a.test","port":80,"resolvers":["192.0.2.53:53","[::1]:5353","[::1]:53","a.test:54"]}}`,
		},
		{"upstreams", `{"refresh":"5s","upstreams": {"source":"discovery_listed", "dial":["b:1"]}}`, `{"upstreams":{"dial":["b:1"],"source":"discovery_listed"}}`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var d Discover
			if err := json.Unmarshal([]byte(tc.settings), &d); err != nil {
				t.Fatal(err)
			}
			if got := provision(t, &d).Identity(); got != tc.want {
				t.Errorf("got %s, want %s", got, tc.want)
			}
		})
	}
}

// TestSubject checks what is in logs, and which sources look for the same thing.
func TestSubject(t *testing.T) {
	for _, tc := range []struct{ settings, label, subject string }{
		{`{"srv":{"name":"_api._tcp.A.test","resolvers":["192.0.2.53"]}}`, "srv _api._tcp.a.test", "srv _api._tcp.a.test"},
		{`{"refresh":"5s","a":{"name":"a.test","port":80}}`, "a a.test 80", "a a.test 80"},
		{
			`{"upstreams":{"source":"discovery_listed","dial":["secret:1"]}}`, "discovery_listed",
			`{"upstreams":{"dial":["secret:1"],"source":"discovery_listed"}}`,
		},
	} {
		var d Discover
		if err := json.Unmarshal([]byte(tc.settings), &d); err != nil {
			t.Fatal(err)
		}
		if s := provision(t, &d); s.String() != tc.label || s.Subject() != tc.subject {
			t.Errorf("got %q and %q, want %q and %q", s.String(), s.Subject(), tc.label, tc.subject)
		}
	}
}

func TestUnmarshalCaddyfile(t *testing.T) {
	for _, tc := range []struct {
		name  string
		input string
		want  string
	}{
		{"srv", "discover srv _api._tcp.test", `{"srv":{"name":"_api._tcp.test"}}`},
		{
			"srv_with_block", "discover srv _api._tcp.test {\nrefresh 10s\nresolvers 10.0.0.53 10.0.0.54:5353\nresolvers ::1\n}",
			`{"refresh":10000000000,"srv":{"name":"_api._tcp.test","resolvers":["10.0.0.53","10.0.0.54:5353","::1"]}}`,
		},
		{"a", "discover a api.test 8080", `{"a":{"name":"api.test","port":8080}}`},
		{"a_with_block", "discover a api.test 8080 {\nrefresh 1m\n}", `{"refresh":60000000000,"a":{"name":"api.test","port":8080}}`},
		{"module", "discover discovery_listed a:1 b:2", `{"upstreams":{"dial":["a:1","b:2"],"source":"discovery_listed"}}`},
		{"refresh_only", "discover discovery_listed a:1 {\nrefresh 5s\n}", `{"refresh":5000000000,"upstreams":{"dial":["a:1"],"source":"discovery_listed"}}`},
		{
			"module_with_block", "discover discovery_listed {\ndial a:1\nrefresh 5s\ndial b:2 {\nrefresh\nc:3\n}\n}",
			`{"refresh":5000000000,"upstreams":{"dial":["a:1","b:2","refresh","c:3"],"source":"discovery_listed"}}`,
		},
		{
			"multi", "discover multi {\nrefresh 5s\na {\nname a.test\nrefresh 9s\n}\n}",
			`{"refresh":5000000000,"upstreams":{"source":"multi","sources":[{"name":"a.test","refresh":9000000000,"source":"a"}]}}`,
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			disp := caddyfile.NewTestDispenser(tc.input + "\nafter")
			disp.Next()
			var d Discover
			if err := d.UnmarshalCaddyfile(disp); err != nil {
				t.Fatal(err)
			}
			got, err := json.Marshal(d)
			if err != nil || string(got) != tc.want {
				t.Errorf("got %s, %v, want %s", got, err, tc.want)
			}
			if !disp.Next() || disp.Val() != "after" && disp.Val() != "}" {
				t.Errorf("got %q as what follows", disp.Val())
			}
		})
	}
}

func TestCaddyfileErrors(t *testing.T) {
	for _, tc := range []struct {
		name  string
		input string
		want  string
	}{
		{"nothing", "discover", "discover needs a kind"},
		{"srv_without_name", "discover srv", "srv needs an argument"},
		{"srv_two_names", "discover srv a b", `also "b"`},
		{"a_without_port", "discover a a.test", "a name and a port"},
		{"a_bad_port", "discover a a.test http", `"http" is not a port`},
		{"a_port_too_large", "discover a a.test 65536", `"65536" is not a port`},
		{"unknown_option", "discover a a.test 80 {\nttl 5s\n}", `unrecognized option "ttl"`},
		{"refresh_twice", "discover a a.test 80 {\nrefresh 5s\nrefresh 6s\n}", "refresh is given twice"},
		{"bad_refresh", "discover srv a.test {\nrefresh soon\n}", "refresh: "},
		{"resolvers_without_any", "discover srv a.test {\nresolvers\n}", "resolvers needs at least one"},
		{"cluster", "discover cluster web", "a cluster can't be found by a cluster"},
		{"unknown_module", "discover no_such", `no kind "no_such"`},
		{"module_option", "discover discovery_listed {\nsize 3\n}", `unrecognized option "size"`},
		{"module_refresh_twice", "discover discovery_listed {\nrefresh 5s\nrefresh 6s\n}", "refresh is given twice"},
		{"module_bad_refresh", "discover discovery_listed {\nrefresh 0\n}", "refresh: "},
		{"finds_nothing", "discover discovery_other", "does not find upstreams"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			disp := caddyfile.NewTestDispenser(tc.input)
			disp.Next()
			err := new(Discover).UnmarshalCaddyfile(disp)
			if err == nil || !strings.Contains(err.Error(), tc.want) || !strings.Contains(err.Error(), "Testfile:") {
				t.Errorf("got %v, want %q and the place", err, tc.want)
			}
		})
	}
}
