package addrcheck

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/mholt/caddy-l4/layer4"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"
)

// The handlers of these tests.
const (
	proxied    = `{"handler":"preread","proxy_protocol":{"from":["10.0.0.0/8"]}}`
	headerOnly = `{"handler":"preread","proxy_protocol":{"from":["10.0.0.0/8"]},"hello":"off"}`
	plain      = `{"handler":"preread"}`
	stock      = `{"handler":"proxy_protocol"}`
	relay      = `{"handler":"forward","upstream":"a:1","proxy_protocol":"relay"}`
	forward    = `{"handler":"forward","upstream":"a:1","proxy_protocol":"v2"}`
	acl        = `{"handler":"ip_acl","allow":["10.0.0.0/8"]}`
	perIP      = `{"handler":"admission","max_connections":5,"max_connections_per_ip":5}`
	perPort    = `{"handler":"admission","max_connections":5}`
	log        = `{"handler":"access_log"}`
	next       = `{"handler":"next"}`
	stranger   = `{"handler":"stranger"}`
)

// inRoute is a route with these handlers; matched one that does not take every connection.
func inRoute(handlers ...string) string {
	return `{"handle":[` + strings.Join(handlers, ",") + `]}`
}

func matched(handlers ...string) string {
	return `{"match":[{"remote_ip":{"ranges":["10.0.0.0/8"]}}],"handle":[` + strings.Join(handlers, ",") + `]}`
}

// router is an sni_router with these routes and fallbacks; subroute a subroute.
func router(routes, fallbacks string) string {
	return fmt.Sprintf(`{"handler":"sni_router","routes":[%s],"fallback":[%s]}`, routes, fallbacks)
}

func subroute(routes ...string) string {
	return `{"handler":"subroute","routes":[` + strings.Join(routes, ",") + `]}`
}

// parseRoutes reads a list of routes.
func parseRoutes(t *testing.T, routes ...string) layer4.RouteList {
	t.Helper()
	var list layer4.RouteList
	if err := json.Unmarshal([]byte("["+strings.Join(routes, ",")+"]"), &list); err != nil {
		t.Fatal(err)
	}
	return list
}

// TestCheckRoutes checks what is refused and what is not, and that the error says where the fault is.
func TestCheckRoutes(t *testing.T) {
	const (
		noHeader = "forward: proxy_protocol relay: no PROXY header is read on the way here"
		twice    = "preread: proxy_protocol: the header would be read twice"
		before   = "preread: proxy_protocol: %s stands before it"
	)
	wrapper := place{handsOver: true}
	behind := place{handsOver: true, proxied: true, byWrapper: true}
	for _, tc := range []struct {
		name   string
		start  place
		routes []string
		want   string
	}{
		{"relay", place{}, []string{inRoute(relay)}, "routes[0]: " + noHeader},
		{"relay_behind_preread", place{}, []string{inRoute(proxied, relay)}, ""},
		{"relay_behind_plain_preread", place{}, []string{inRoute(plain, relay)}, noHeader},
		{"relay_behind_null", place{}, []string{inRoute(`{"handler":"preread","proxy_protocol":null}`, relay)}, noHeader},
		{"relay_in_router", place{}, []string{inRoute(proxied, router(inRoute(forward)+","+inRoute(relay), inRoute(relay)))}, ""},
		{"relay_in_router_without", place{}, []string{inRoute(plain), inRoute(router(inRoute(forward)+","+inRoute(relay), ""))}, "routes[1]: sni_router: routes[1]: " + noHeader},
		{"relay_in_fallback_without", place{}, []string{inRoute(router("", inRoute(forward)+","+inRoute(relay)))}, "routes[0]: sni_router: fallback[1]: " + noHeader},
		{"relay_behind_router", place{}, []string{inRoute(proxied, router(inRoute(next), ""), relay)}, ""},
		{"relay_behind_late_preread", place{}, []string{inRoute(router(inRoute(proxied, relay), ""))}, noHeader},
		{"relay_behind_second_preread", place{}, []string{inRoute(plain, proxied, relay)}, noHeader},
		{"relay_in_another_route", place{}, []string{inRoute(proxied), inRoute(relay)}, ""},
		{"relay_where_only_some_have_a_header", place{}, []string{matched(proxied), inRoute(relay)}, "routes[1]: " + noHeader},
		{"relay_behind_subroute", place{}, []string{inRoute(subroute(matched(proxied)), relay)}, noHeader},
		{"relay_in_subroute", place{}, []string{inRoute(proxied, subroute(matched(forward), inRoute(relay)))}, ""},
		{"relay_in_subroute_without", place{}, []string{inRoute(subroute(matched(forward), inRoute(relay)))}, "routes[0]: subroute: routes[1]: " + noHeader},
		{"tee_of_ours", place{}, []string{inRoute(`{"handler":"tee","branch":[` + subroute(inRoute(forward)) + `]}`)}, "routes[0]: tee: branch: forward can't run beside"},
		{"tee_of_others", place{}, []string{inRoute(`{"handler":"tee","branch":[`+stranger+`]}`, proxied, relay)}, ""},
		{"relay_of_wrapper", behind, []string{inRoute(router(inRoute(relay), ""))}, ""},
		{"relay_under_wrapper_without", wrapper, []string{inRoute(router(inRoute(relay), ""))}, noHeader},
		{"relay_behind_stock_only", place{}, []string{inRoute(stock, relay)}, noHeader},
		{"relay_where_nobody_comes", place{}, []string{inRoute(forward), inRoute(relay)}, ""},

		{"stock_then_preread", place{}, []string{inRoute(stock, proxied, forward)}, "routes[0]: " + twice},
		{"header_only_then_preread", place{}, []string{inRoute(headerOnly, proxied, forward)}, "routes[0]: " + twice},
		{"header_only_then_hello", place{}, []string{inRoute(headerOnly, acl, `{"handler":"preread"}`, relay)}, ""},
		{"stock_in_another_route", place{}, []string{matched(stock), inRoute(proxied, forward)}, "routes[1]: " + twice},
		{"stock_then_plain_preread", place{}, []string{inRoute(stock, plain, forward)}, ""},
		{"wrapper_then_preread", behind, []string{inRoute(proxied, forward)}, twice},
		{"wrapper_then_plain_preread", behind, []string{inRoute(plain, forward)}, ""},
		{"preread_under_wrapper", wrapper, []string{inRoute(proxied, relay)}, ""},
		{"wrapper_then_preread_in_subroute", behind, []string{inRoute(subroute(inRoute(proxied, forward)))}, "routes[0]: subroute: routes[0]: " + twice},

		{"acl_first", place{}, []string{inRoute(acl, proxied, forward)}, "routes[0]: " + fmt.Sprintf(before, "ip_acl")},
		{"rate_limit_first", place{}, []string{inRoute(`{"handler":"rate_limit"}`, proxied, forward)}, fmt.Sprintf(before, "rate_limit")},
		{"per_ip_first", place{}, []string{inRoute(log, perIP, proxied, forward)}, fmt.Sprintf(before, "admission with max_connections_per_ip")},
		{"per_port_first", place{}, []string{inRoute(log, perPort, proxied, forward)}, ""},
		{"acl_behind", place{}, []string{inRoute(proxied, acl, perIP, forward)}, ""},
		{"acl_without_headers", place{}, []string{inRoute(acl, perIP, plain, forward)}, ""},
		{"acl_in_another_route", place{}, []string{inRoute(acl), inRoute(proxied, forward)}, "routes[1]: "},
		{"acl_in_a_route_that_ends", place{}, []string{matched(acl, forward), inRoute(proxied, forward)}, ""},
		{"acl_in_a_branch_that_ends", place{}, []string{inRoute(subroute(matched(acl, stranger)), proxied, forward)}, ""},
		{"acl_behind_wrapper", behind, []string{inRoute(acl, perIP, forward)}, ""},

		{"unknown_handler", place{}, []string{inRoute(stranger, relay)}, ""},
		{"rubbish", place{}, []string{inRoute(`{"handler":1}`, relay)}, ""},
		{"nothing", place{}, nil, ""},
		{"all", place{}, []string{inRoute(log, perPort, proxied, acl, perIP, router(inRoute(relay), inRoute(forward)))}, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			err := checkRoutes(parseRoutes(t, tc.routes...), tc.start, zap.NewNop())
			if tc.want == "" && err != nil || tc.want != "" && (err == nil || !strings.Contains(err.Error(), tc.want)) {
				t.Errorf("got error %v, want %q", err, tc.want)
			}
		})
	}
}

// TestWarnFilter checks which configs are warned about: those in which connections come out of a route with a filter and
// go on in another.
func TestWarnFilter(t *testing.T) {
	for _, tc := range []struct {
		name   string
		start  place
		routes []string
		want   string // the handlers warned about
	}{
		{"together", place{}, []string{inRoute(log, forward)}, ""},
		{"apart", place{}, []string{inRoute(log), inRoute(forward)}, "0 access_log"},
		{"first_of_several", place{}, []string{inRoute(log, perPort, plain), inRoute(forward)}, "0 access_log"},
		{"matched_and_apart", place{}, []string{matched(acl), matched(perIP), inRoute(forward)}, "0 ip_acl,1 admission"},
		{"last_route", place{}, []string{matched(forward), inRoute(log)}, ""},
		{"ends", place{}, []string{matched(log, `{"handler":"echo"}`), inRoute(forward)}, ""},
		{"unknown_end", place{}, []string{matched(log, stranger), inRoute(forward)}, ""},
		{"stock_passes", place{}, []string{inRoute(log, `{"handler":"tls"}`, `{"handler":"throttle"}`), inRoute(forward)}, "0 access_log"},
		{"no_filter", place{}, []string{inRoute(next), inRoute(forward)}, ""},
		{"routed", place{}, []string{inRoute(plain, router(inRoute(forward), inRoute(forward))), inRoute(forward)}, ""},
		{"router_alone", place{}, []string{inRoute(router(inRoute(forward), inRoute(next))), inRoute(forward)}, ""},
		{"fallback_falls_through", place{}, []string{inRoute(plain, router(inRoute(forward), inRoute(next))), inRoute(forward)}, "0 preread"},
		{"only_the_fallback_has_one", place{}, []string{inRoute(router(inRoute(forward), inRoute(log, next))), inRoute(forward)}, "0 access_log"},
		{"another_branch_has_one", place{}, []string{inRoute(router(inRoute(log, forward), inRoute(next))), inRoute(forward)}, ""},
		{"closes_without_fallback", place{}, []string{inRoute(plain, router(inRoute(forward), "")), inRoute(forward)}, ""},
		{"hands_over_without_fallback", place{handsOver: true}, []string{inRoute(plain, router(inRoute(forward), "")), inRoute(forward)}, "0 preread"},
		{"wrapper_alone", place{handsOver: true}, []string{inRoute(log, plain, router(inRoute(forward), ""))}, ""},
		{"subroute_takes_all", place{}, []string{inRoute(log, subroute(matched(forward), inRoute(forward))), inRoute(forward)}, ""},
		{"subroute_takes_some", place{}, []string{inRoute(log, subroute(matched(forward))), inRoute(forward)}, "0 access_log"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			core, logs := observer.New(zap.WarnLevel)
			if err := checkRoutes(parseRoutes(t, tc.routes...), tc.start, zap.New(core)); err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, entry := range logs.All() {
				got = append(got, fmt.Sprint(entry.ContextMap()["route"], " ", entry.ContextMap()["handler"]))
			}
			if strings.Join(got, ",") != tc.want {
				t.Errorf("got warnings about %q, want %q", got, tc.want)
			}
		})
	}
}

// TestCheckRoutesIsQuick has a config of a size at which a check for each handler, or for each path, would not end.
func TestCheckRoutesIsQuick(t *testing.T) {
	var routes []string
	for range 30 {
		var branches []string
		for range 300 {
			branches = append(branches, inRoute(next))
		}
		routes = append(routes, inRoute(router(strings.Join(branches, ","), inRoute(next)), router(strings.Join(branches, ","), "")))
	}
	list := parseRoutes(t, append(routes, inRoute(proxied, relay))...)
	start := time.Now()
	if err := checkRoutes(list, place{handsOver: true}, zap.NewNop()); err == nil {
		t.Error("got no error, want one about relay")
	}
	if got := time.Since(start); got > 5*time.Second {
		t.Errorf("got %v, want less than 5s", got)
	}
}

// TestDatagrams checks that no handler of ours is in a server for datagrams, wherever it stands.
func TestDatagrams(t *testing.T) {
	for _, name := range streamHandlers {
		for _, handlers := range []string{`{"handler":"` + name + `"}`, subroute(inRoute(`{"handler": "` + name + `"}`))} {
			server := &layer4.Server{Listen: []string{"tcp/:1", "udp/:1"}, Routes: parseRoutes(t, inRoute(next), inRoute(handlers))}
			want := fmt.Sprintf(`listen: %s is for streams; layer4 server "s" listens on udp/:1`, name)
			if err := streams("s", server); err == nil || err.Error() != want {
				t.Errorf("got error %v, want %q", err, want)
			}
			server.Listen = server.Listen[:1]
			if err := streams("s", server); err != nil {
				t.Errorf("got error %v for streams, want none", err)
			}
		}
	}
}

func init() {
	caddy.RegisterModule(&forwarding{})
}

// forwarding stands for the handler forward.
type forwarding struct {
	asking
	Upstream      string `json:"upstream"`
	ProxyProtocol string `json:"proxy_protocol"`
}

func (*forwarding) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: "layer4.handlers.forward", New: func() caddy.Module { return new(forwarding) }}
}

// TestHandlerNamesServer checks that an error of a whole config says in which server the fault is.
func TestHandlerNamesServer(t *testing.T) {
	var cfg caddy.Config
	config := `{"admin":{"disabled":true},"apps":{"layer4":{"servers":{
		"good":{"listen":[":1443"],"routes":[` + inRoute(`{"handler":"asking"}`) + `]},
		"bad":{"listen":[":1444"],"routes":[` + inRoute(relay) + `]}}}}}`
	if err := json.Unmarshal([]byte(config), &cfg); err != nil {
		t.Fatal(err)
	}
	const want = `layer4 server "bad": routes[0]: forward: proxy_protocol relay`
	for range 5 { // Caddy takes the servers in any order
		if err := caddy.Validate(&cfg); err == nil || !strings.Contains(err.Error(), want) {
			t.Fatalf("got error %v, want %q", err, want)
		}
		_ = json.Unmarshal([]byte(config), &cfg)
	}
}
