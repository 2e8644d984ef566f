package integration

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig"
)

// to is a handler that ends a route.
const to = `{"handler":"forward","upstream":"127.0.0.1:9"}`

// sniRouter returns a router with this content.
func sniRouter(content string) string { return `{"handler":"sni_router",` + content + `}` }

// oneRoute returns a router with one route that has these settings besides its handler.
func oneRoute(settings string) string {
	return sniRouter(`"routes":[{` + settings + `,"handle":[` + to + `]}]`)
}

// twoRoutes returns a router with two.
func twoRoutes(a, b string) string {
	return sniRouter(fmt.Sprintf(`"routes":[{%s,"handle":[%s]},{%s,"handle":[%s]}]`, a, to, b, to))
}

func withFallback(reasons string) string {
	return `{"reasons":[` + reasons + `],"handle":[` + to + `]}`
}

// validate checks a config in which these are the handlers of a layer-4 route.
func validate(t testing.TB, handlers string) error {
	t.Helper()
	return validateApps(t, `"layer4":{"servers":{"l4":{"listen":["127.0.0.1:8443"],"routes":[{"handle":[`+handlers+`]}]}}}`)
}

func validateApps(t testing.TB, apps string) error {
	t.Helper()
	var config caddy.Config
	text := strings.Replace(offConfig, "{", `{"apps":{`+apps+`},`, 1)
	if err := json.Unmarshal([]byte(text), &config); err != nil {
		t.Fatalf("%v in %s", err, text)
	}
	return caddy.Validate(&config)
}

// checkError checks that an error has all of the words, separated by " … ", in this order.
func checkError(t *testing.T, err error, want string) {
	t.Helper()
	if err == nil {
		t.Errorf("got no error, want %q", want)
		return
	}
	rest := err.Error()
	for word := range strings.SplitSeq(want, " … ") {
		_, after, ok := strings.Cut(rest, word)
		if !ok {
			t.Errorf("got %q, want %q in it", err, want)
			return
		}
		rest = after
	}
}

func TestRefusedRouters(t *testing.T) {
	newLab(t)
	for _, tc := range []struct{ name, handler, want string }{
		{"T25_no_routes", sniRouter(`"routes":[]`), "routes: there is neither a route nor a fallback"},
		{"T25_no_names", oneRoute(`"names":[]`), "routes[0].names: needs at least one name"},
		{"alpn_without_names", oneRoute(`"alpn":["h2"]`), "routes[0].names: needs at least one name"},
		{"empty_name", oneRoute(`"names":[""]`), `routes[0].names: "": invalid pattern: it is empty`},
		{"T25_star", oneRoute(`"names":["*"]`), `routes[0].names: "*": invalid pattern: a wildcard needs a name behind it`},
		{"T25_star_without_dot", oneRoute(`"names":["*foo.test"]`), `names: "*foo.test": invalid pattern: a * is only allowed`},
		{"star_inside", oneRoute(`"names":["a.*.test"]`), `names: "a.*.test": invalid pattern: a * is only allowed`},
		{"two_dots", oneRoute(`"names":["a..test"]`), `names: "a..test": invalid pattern: empty label`},
		{"trailing_dot", oneRoute(`"names":["a.test."]`), `names: "a.test.": invalid pattern: empty label`},
		{"slash", oneRoute(`"names":["a.test/x"]`), `names: "a.test/x": invalid pattern: character '/'`},
		{"T25_ip", oneRoute(`"names":["192.0.2.1"]`), `names: "192.0.2.1": an IP address is not a server name`},
		{"ipv6", oneRoute(`"names":["[2001:db8::1]"]`), `names: "[2001:db8::1]": an IP address is not a server name`},
		{"long_label", oneRoute(`"names":["` + strings.Repeat("a", 64) + `.test"]`), "too long: label of 64 bytes"},
		{"long_name", oneRoute(`"names":["` + strings.Repeat("a.", 130) + `test"]`), "too long"},
		{"unknown_placeholder", oneRoute(`"names":["{nothing}.test"]`), `routes[0].names: "{nothing}.test": `},
		{"twice_in_a_route", oneRoute(`"names":["a.test","A.Test"]`), `routes[0].names: "A.Test": is listed twice in this route`},
		{"second_route", twoRoutes(`"names":["a.test"]`, `"names":["*"]`), `routes[1].names: "*"`},
		{"T25_duplicate", twoRoutes(`"names":["a.test"]`, `"names":["A.TEST"]`), `routes[1].names: "A.TEST": has another catch-all: route 0 takes "a.test" without alpn, too`},
		{"E25_duplicate_wildcard", twoRoutes(`"names":["*.a.test"]`, `"names":["*.a.test"]`), `routes[1].names … another catch-all: route 0`},
		{
			"alpn_overlap", twoRoutes(`"names":["a.test"],"alpn":["h2","h3"]`, `"names":["a.test"],"alpn":["h3"]`),
			`routes[1].names: "a.test": has another route for a protocol: route 0 takes "a.test" with "h3", too`,
		},
		{"empty_alpn", oneRoute(`"names":["a.test"],"alpn":[""]`), `routes[0].alpn: "": invalid protocol: 0 bytes, must be 1 to 255`},
		{"long_alpn", oneRoute(`"names":["a.test"],"alpn":["` + strings.Repeat("a", 256) + `"]`), "invalid protocol: 256 bytes"},
		{"alpn_twice", oneRoute(`"names":["a.test"],"alpn":["h2","h2"]`), `routes[0].alpn: "h2": is listed twice in this route`},
		{"route_without_handler", sniRouter(`"routes":[{"names":["a.test"]}]`), "routes[0].handle: needs at least one handler"},
		{"unknown_handler", sniRouter(`"routes":[{"names":["a.test"],"handle":[{"handler":"nothing"}]}]`), "routes[0].handle: … layer4.handlers.nothing"},
		{"alert", sniRouter(`"alert":"loud","fallback":[` + withFallback(``) + `]`), `alert: "loud" is neither "on" nor "off"`},
		{"unknown_reason", sniRouter(`"fallback":[` + withFallback(`"no_tls"`) + `]`), `fallback[0].reasons: "no_tls" is not a reason`},
		{"none_is_no_reason", sniRouter(`"fallback":[` + withFallback(`"none"`) + `]`), `fallback[0].reasons: "none" is not a reason`},
		{"front_closed", sniRouter(`"fallback":[` + withFallback(`"front_closed"`) + `]`), `fallback[0].reasons: "front_closed" can't have a fallback`},
		{"proxy_header_invalid", sniRouter(`"fallback":[` + withFallback(`"proxy_header_invalid"`) + `]`), `"proxy_header_invalid" can't have a fallback`},
		{
			"reason_twice", sniRouter(`"fallback":[` + withFallback(`"no_sni"`) + `,` + withFallback(`"not_tls","no_sni"`) + `]`),
			`fallback[1].reasons: "no_sni" is in fallback 0 already`,
		},
		{"reason_twice_in_one", sniRouter(`"fallback":[` + withFallback(`"no_sni","no_sni"`) + `]`), `fallback[0].reasons: "no_sni" is in fallback 0 already`},
		{"catch_all_and_reason", sniRouter(`"fallback":[` + withFallback(``) + `,` + withFallback(`"no_sni"`) + `]`), `fallback[1].reasons: "no_sni"`},
		{"fallback_without_handler", sniRouter(`"fallback":[{}]`), "fallback[0].handle: needs at least one handler"},
		{"unknown_field", sniRouter(`"fall":[]`), `unknown field "fall"`},
	} {
		t.Run(tc.name, func(t *testing.T) { checkError(t, validate(t, tc.handler), tc.want) })
	}
}

func TestRefusedHandlers(t *testing.T) {
	newLab(t)
	for _, tc := range []struct{ name, handler, want string }{
		{"max_bytes_4", `{"handler":"preread","max_bytes":4}`, "max_bytes: 4 is out of range, 5 to 1048576"},
		{"max_bytes_negative", `{"handler":"preread","max_bytes":-1}`, "max_bytes: -1 is out of range"},
		{"max_bytes_too_many", `{"handler":"preread","max_bytes":1048577}`, "max_bytes: 1048577 is out of range"},
		{"timeout_short", `{"handler":"preread","timeout":"9ms"}`, "timeout: 9ms is out of range, 10ms to 5m0s"},
		{"timeout_long", `{"handler":"preread","timeout":"301s"}`, "timeout: 5m1s is out of range"},
		{"timeout_negative", `{"handler":"preread","timeout":-1}`, "timeout: -1ns is out of range"},
		{"proxy_from_nobody", `{"handler":"preread","proxy_protocol":{}}`, "proxy_protocol.from: must name the peers"},
		{"proxy_from_name", `{"handler":"preread","proxy_protocol":{"from":["localhost"]}}`, `proxy_protocol.from: "localhost": `},
		{"proxy_from_range", `{"handler":"preread","proxy_protocol":{"from":["10.0.0.0/33"]}}`, `proxy_protocol.from: "10.0.0.0/33": `},
		{"proxy_from_placeholder", `{"handler":"preread","proxy_protocol":{"from":["{nothing}"]}}`, `proxy_protocol.from: "{nothing}": `},
		{"no_upstream", `{"handler":"forward"}`, "upstream: is required"},
		{"upstream_without_port", `{"handler":"forward","upstream":"a.test"}`, `upstream: "a.test": must be an address`},
		{"upstream_without_host", `{"handler":"forward","upstream":":443"}`, `upstream: ":443": must be an address`},
		{"upstream_port_0", `{"handler":"forward","upstream":"a.test:0"}`, `upstream: "a.test:0": must be an address`},
		{"upstream_ports", `{"handler":"forward","upstream":"a.test:1-3"}`, `upstream: "a.test:1-3": must have one port`},
		{"upstream_udp", `{"handler":"forward","upstream":"udp/a.test:53"}`, `upstream: "udp/a.test:53": must be host:port or unix/path, not udp`},
		{"upstream_port_too_large", `{"handler":"forward","upstream":"a.test:65536"}`, `upstream: "a.test:65536": `},
		{"upstream_placeholder", `{"handler":"forward","upstream":"{l4.sluice.sni}:443"}`, `upstream: "{l4.sluice.sni}:443" has a placeholder about the connection: allow must say`},
		{"connect_timeout_short", `{"handler":"forward","upstream":"a.test:1","connect_timeout":"1ms"}`, "connect_timeout: 1ms is out of range, 10ms to 5m0s"},
		{"connect_timeout_long", `{"handler":"forward","upstream":"a.test:1","connect_timeout":"6m"}`, "connect_timeout: 6m0s is out of range"},
	} {
		t.Run(tc.name, func(t *testing.T) { checkError(t, validate(t, tc.handler), tc.want) })
	}
}

func TestRefusedMatchers(t *testing.T) {
	newLab(t)
	for _, tc := range []struct{ name, matcher, want string }{
		{"name", `{"names":["*"]}`, `names: "*": invalid pattern`},
		{"name_twice", `{"names":["a.test","a.test"]}`, "listed twice"},
		{"alpn", `{"alpn":[""]}`, `alpn: "": invalid protocol`},
		{"alpn_with_name", `{"names":["a.test"],"alpn":["h2","h2"]}`, `alpn: "h2": is listed twice`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			err := validateApps(t, `"layer4":{"servers":{"l4":{"listen":["127.0.0.1:8443"],"routes":[{"match":[{"preread":`+
				tc.matcher+`}],"handle":[`+to+`]}]}}}`)
			checkError(t, err, tc.want)
		})
	}
}

// TestAcceptedConfigs has the values at the borders, and what looks like a conflict but is none.
func TestAcceptedConfigs(t *testing.T) {
	newLab(t)
	t.Setenv("SLUICE_TEST_NAME", "a.test")
	for _, tc := range []struct{ name, handler string }{
		{"limits_low", `{"handler":"preread","max_bytes":5,"timeout":"10ms"}`},
		{"limits_high", `{"handler":"preread","max_bytes":1048576,"timeout":"5m"}`},
		{"E25_exact_and_wildcard", twoRoutes(`"names":["a.b.test"],"alpn":["h2"]`, `"names":["*.b.test"],"alpn":["h2"]`)},
		{"alpn_and_catch_all", twoRoutes(`"names":["a.test"],"alpn":["h2"]`, `"names":["a.test"]`)},
		{"all_forms", oneRoute(`"names":["a.test","*.a.test","**.a.test",".a.test","b\u00fccher.test","_dmarc.a.test"]`)},
		{"long_alpn", oneRoute(`"names":["a.test"],"alpn":["` + strings.Repeat("a", 255) + `"]`)},
		{"placeholder", oneRoute(`"names":["{env.SLUICE_TEST_NAME}"]`)},
		{"only_a_fallback", sniRouter(`"fallback":[` + withFallback(``) + `]`)},
		{"alert_off", sniRouter(`"alert":"off","fallback":[` + withFallback(``) + `]`)},
		{"proxy", `{"handler":"preread","proxy_protocol":{"from":["private_ranges","2001:db8::/32","192.0.2.1"]}}`},
		{"unix_upstream", `{"handler":"forward","upstream":"unix//run/a.sock","connect_timeout":"10ms"}`},
		{"ipv6_upstream", `{"handler":"forward","upstream":"[2001:db8::1]:443","connect_timeout":"5m"}`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if err := validate(t, tc.handler); err != nil {
				t.Errorf("got %v, want no error", err)
			}
		})
	}
}

// TestSharedAddresses has the layer4 app and the HTTP app on addresses that may be the same.
func TestSharedAddresses(t *testing.T) {
	newLab(t)
	for _, tc := range []struct {
		name, layer4, http string
		refused            bool
	}{
		{"same", "127.0.0.1:8443", "127.0.0.1:8443", true},
		{"any_and_one", ":443", "10.0.0.1:443", true},
		{"one_and_any", "10.0.0.1:443", ":443", true},
		{"any_ipv6", "[::]:443", "192.0.2.1:443", true},
		{"any_ipv4", "0.0.0.0:443", ":443", true},
		{"localhost", "localhost:8443", "127.0.0.1:8443", true},
		{"ranges", "127.0.0.1:8000-8010", "127.0.0.1:8010-8020", true},
		{"networks", "tcp4/127.0.0.1:8443", "tcp/127.0.0.1:8443", true},
		{"sockets", "unix//tmp/a", "unix//tmp/a", true},
		{"other_ports", ":8443", ":8444", false},
		{"other_hosts", "127.0.0.1:8443", "127.0.0.2:8443", false},
		{"other_ranges", "127.0.0.1:8000-8009", "127.0.0.1:8010-8020", false},
		{"other_sockets", "unix//tmp/a", "unix//tmp/b", false},
		{"socket_and_port", "unix//tmp/a", ":443", false},
	} {
		for _, handler := range []string{to, `{"handler":"preread"}`, oneRoute(`"names":["a.test"]`)} {
			t.Run(tc.name, func(t *testing.T) {
				err := validateApps(t, fmt.Sprintf(`"layer4":{"servers":{"edge":{"listen":[%q],"routes":[{"handle":[%s]}]}}},`+
					`"http":{"servers":{"web":{"listen":[%q],"automatic_https":{"disable":true}}}}`, tc.layer4, handler, tc.http))
				if tc.refused {
					checkError(t, err, fmt.Sprintf(`listen: layer4 server "edge" (%s) and HTTP server "web" (%s) share an address … listener wrapper`,
						tc.layer4, tc.http))
				} else if err != nil {
					t.Errorf("got %v, want no error", err)
				}
			})
		}
	}
}

// TestCaddyfileErrors checks that each fault in a Caddyfile is reported with its file and line.
func TestCaddyfileErrors(t *testing.T) {
	newLab(t)
	for _, tc := range []struct{ name, lines, want string }{
		{"preread_argument", "preread x", "takes no argument … x … Caddyfile:5"},
		{"preread_option", "preread {\n nothing 1 \n}", `unrecognized option "nothing" … Caddyfile:6`},
		{"timeout", "preread {\n timeout soon \n}", "timeout: … soon … Caddyfile:6"},
		{"timeout_0", "preread {\n timeout 0s \n}", `timeout: "0s" is not a positive duration … Caddyfile:6`},
		{"timeout_missing", "preread {\n timeout \n}", "timeout needs an argument … Caddyfile:6"},
		{"timeout_two", "preread {\n timeout 1s 2s \n}", `timeout takes one argument, got also "2s" … Caddyfile:6`},
		{"timeout_twice", "preread {\n timeout 1s \n timeout 2s \n}", "timeout is given twice … Caddyfile:7"},
		{"max_bytes", "preread {\n max_bytes many \n}", "max_bytes: … Caddyfile:6"},
		{"max_bytes_0", "preread {\n max_bytes 0 \n}", "max_bytes: … out of range … Caddyfile:6"},
		{"proxy_protocol", "preread {\n proxy_protocol 10.0.0.0/8 \n}", `proxy_protocol: expected "from" … Caddyfile:6`},
		{"proxy_protocol_from_nobody", "preread {\n proxy_protocol from \n}", `proxy_protocol: expected "from" … Caddyfile:6`},
		{"router_argument", "sni_router x", "takes no argument … x … Caddyfile:5"},
		{"router_option", "sni_router {\n alpn h2 \n}", `unrecognized option "alpn": expected route, fallback or alert … Caddyfile:6`},
		{"alert_twice", "sni_router {\n alert on \n alert on \n}", "alert is given twice … Caddyfile:7"},
		{"route_without_names", "sni_router {\n route {\n next \n}\n}", "route needs at least one argument … Caddyfile:6"},
		{"route_unknown_handler", "sni_router {\n route a.test {\n nothing \n}\n}", "layer4.handlers.nothing … Caddyfile:7"},
		{"alpn_twice", "sni_router {\n route a.test {\n alpn h2 \n alpn h3 \n}\n}", "alpn is given twice … Caddyfile:8"},
		{"alpn_empty", "sni_router {\n route a.test {\n alpn \n}\n}", "alpn needs at least one argument … Caddyfile:7"},
		{"tags_odd", "sni_router {\n route a.test {\n tags team \n}\n}", "tags: expected pairs of a key and a value … Caddyfile:7"},
		{"tags_twice", "sni_router {\n route a.test {\n tags a b \n tags a c \n}\n}", `tags: "a" is given twice … Caddyfile:8`},
		{"fallback_unknown_handler", "sni_router {\n fallback {\n nothing \n}\n}", "layer4.handlers.nothing … Caddyfile:7"},
		{"forward_missing", "forward", "forward needs an argument … Caddyfile:5"},
		{"forward_two", "forward a:1 b:2", `forward takes one argument, got also "b:2" … Caddyfile:5`},
		{"forward_no_port", "forward a.test", `"a.test": must be an address … Caddyfile:5`},
		{"forward_option", "forward a:1 {\n nothing \n}", `unrecognized option "nothing": expected one of allow, connect_timeout … Caddyfile:6`},
		{"connect_timeout_twice", "forward a:1 {\n connect_timeout 1s \n connect_timeout 1s \n}", "connect_timeout is given twice … Caddyfile:7"},
		{"next_argument", "next x", `next takes no argument, got "x" … Caddyfile:5`},
		{"next_block", "next {\n x \n}", "next takes no block … Caddyfile:"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			text := "{\nlayer4 {\n127.0.0.1:8443 {\nroute {\n" + tc.lines + "\n}\n}\n}\n}\n"
			_, _, err := caddyconfig.GetAdapter("caddyfile").Adapt([]byte(text), map[string]any{"filename": "Caddyfile"})
			checkError(t, err, tc.want)
		})
	}
	for _, tc := range []struct{ name, matcher, want string }{
		{"option", "preread {\n nothing \n}", `unrecognized option "nothing": expected names, alpn or ech … Caddyfile:5`},
		{"names_twice", "preread a.test {\n names b.test \n}", "names are given behind the matcher's name and in its block … Caddyfile:5"},
		{"alpn_twice", "preread {\n alpn h2 \n alpn h3 \n}", "alpn is given twice … Caddyfile:6"},
		{"ech", "preread {\n ech maybe \n}", "ech: expected yes or no … Caddyfile:5"},
	} {
		t.Run("matcher_"+tc.name, func(t *testing.T) {
			text := "{\nlayer4 {\n127.0.0.1:8443 {\n@m " + tc.matcher + "\nroute @m {\nnext\n}\n}\n}\n}\n"
			_, _, err := caddyconfig.GetAdapter("caddyfile").Adapt([]byte(text), map[string]any{"filename": "Caddyfile"})
			checkError(t, err, tc.want)
		})
	}
}
