package l4sni

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"go.uber.org/zap"

	"github.com/caddy-sluice/sluice/internal/preread"
	"github.com/caddy-sluice/sluice/internal/testkit/modules"
)

// TestProvision checks the settings that are refused: the error names the field and says what is wrong.
func TestProvision(t *testing.T) {
	const (
		probeA = `"handle":[{"handler":"probe"}]`
		routeA = `{"names":["a.example.com"],` + probeA + `}`
	)
	for _, tc := range []struct{ name, module, config, want string }{
		{"timeout_short", "handlers.preread", `{"timeout":"9ms"}`, "timeout: 9ms is out of range, 10ms to 5m0s"},
		{"timeout_long", "handlers.preread", `{"timeout":"5m1s"}`, "timeout: 5m1s is out of range"},
		{"timeout_negative", "handlers.preread", `{"timeout":-1}`, "timeout: -1ns is out of range"},
		{"max_bytes_small", "handlers.preread", `{"max_bytes":4}`, "max_bytes: 4 is out of range, 5 to 1048576"},
		{"max_bytes_large", "handlers.preread", `{"max_bytes":1048577}`, "max_bytes: 1048577 is out of range"},
		{"max_bytes_negative", "handlers.preread", `{"max_bytes":-1}`, "max_bytes: -1 is out of range"},
		{"proxy_from_nobody", "handlers.preread", `{"proxy_protocol":{}}`, "proxy_protocol.from: must name"},
		{"proxy_from_rubbish", "handlers.preread", `{"proxy_protocol":{"from":["10.0.0.0/8","10.0.0.0/33"]}}`, `proxy_protocol.from: "10.0.0.0/33"`},
		{"router_empty", "handlers.sni_router", `{}`, "routes: there is neither a route nor a fallback"},
		{"alert", "handlers.sni_router", `{"alert":"yes","routes":[` + routeA + `]}`, `alert: "yes" is neither "on" nor "off"`},
		{"no_names", "handlers.sni_router", `{"routes":[` + routeA + `,{` + probeA + `}]}`, "route"},
		{"bad_name", "handlers.sni_router", `{"routes":[{"names":["a*.example.com"],` + probeA + `}]}`, `"a*.example.com"`},
		{"name_twice", "handlers.sni_router", `{"routes":[` + routeA + `,{"names":["A.example.com."],` + probeA + `}]}`, "example.com"},
		{"placeholder_unknown", "handlers.sni_router", `{"routes":[{"names":["{no.such}.example.com"],` + probeA + `}]}`, "routes[0].names"},
		{"no_handler", "handlers.sni_router", `{"routes":[` + routeA + `,{"names":["b.example.com"]}]}`, "routes[1].handle: needs at least one handler"},
		{"unknown_handler", "handlers.sni_router", `{"routes":[{"names":["b.example.com"],"handle":[{"handler":"nonesuch"}]}]}`, "routes[0].handle"},
		{"fallback_no_handler", "handlers.sni_router", `{"fallback":[{}]}`, "fallback[0].handle: needs at least one handler"},
		{"fallback_unknown", "handlers.sni_router", `{"fallback":[{"reasons":["nonesuch"],` + probeA + `}]}`, `fallback[0].reasons: "nonesuch" is not a reason`},
		{"fallback_none", "handlers.sni_router", `{"fallback":[{"reasons":["none"],` + probeA + `}]}`, `"none" is not a reason`},
		{"fallback_front_closed", "handlers.sni_router", `{"fallback":[{"reasons":["front_closed"],` + probeA + `}]}`, `"front_closed" can't have a fallback`},
		{"fallback_proxy", "handlers.sni_router", `{"fallback":[{"reasons":["proxy_header_invalid"],` + probeA + `}]}`, `"proxy_header_invalid" can't have a fallback`},
		{
			"fallback_twice", "handlers.sni_router", `{"fallback":[{"reasons":["no_sni","not_tls"],` + probeA + `},{"reasons":["not_tls"],` + probeA + `}]}`,
			`fallback[1].reasons: "not_tls" is in fallback 0 already`,
		},
		{"fallback_twice_in_one", "handlers.sni_router", `{"fallback":[{"reasons":["not_tls","not_tls"],` + probeA + `}]}`, `"not_tls" is in fallback 0 already`},
		{
			"fallback_after_all", "handlers.sni_router", `{"fallback":[{` + probeA + `},{"reasons":["fragmented"],` + probeA + `}]}`,
			`fallback[1].reasons: "fragmented" is in fallback 0 already`,
		},
		{"matcher_bad_name", "matchers.preread", `{"names":["a b"]}`, `"a b"`},
		{"matcher_bad_alpn", "matchers.preread", `{"alpn":[""]}`, "alpn"},
		{"matcher_bad_alpn_with_names", "matchers.preread", `{"names":["a.example.com"],"alpn":[""]}`, "alpn"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			_, err := modules.Load(t, "layer4."+tc.module, tc.config)
			if err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("got error %v, want one with %q", err, tc.want)
			}
		})
	}
}

// TestLimits checks that the limits themselves are allowed, and the defaults.
func TestLimits(t *testing.T) {
	for _, tc := range []struct {
		config  string
		max     int
		timeout time.Duration
	}{
		{`{}`, 32768, 5 * time.Second},
		{`{"max_bytes":5,"timeout":"10ms"}`, 5, 10 * time.Millisecond},
		{`{"max_bytes":1048576,"timeout":"5m"}`, 1048576, 5 * time.Minute},
	} {
		h, _ := newPreread(t, tc.config)
		if cfg := h.reader.cfg; cfg.MaxBytes != tc.max || cfg.Timeout != tc.timeout {
			t.Errorf("%s: got %d bytes, %v, want %d, %v", tc.config, cfg.MaxBytes, cfg.Timeout, tc.max, tc.timeout)
		}
	}
	router, _ := newRouter(t, testRouter(""))
	if cfg := router.reader.cfg; cfg.MaxBytes != 32768 || cfg.Timeout != 5*time.Second {
		t.Errorf("router: got %d bytes, %v, want 32768, 5s", cfg.MaxBytes, cfg.Timeout)
	}
}

// TestFallbackReasons checks which reasons a fallback without reasons is for: all but the two that always close.
func TestFallbackReasons(t *testing.T) {
	h := Router{Fallback: []*Fallback{{Reasons: []string{}}}}
	owner, err := h.fallbackReasons()
	if err != nil {
		t.Fatal(err)
	}
	for reason := range preread.Reasons() {
		_, got := owner[reason]
		if want := reason != preread.FrontClosed && reason != preread.ProxyHeaderInvalid; got != want {
			t.Errorf("%v: got %v, want %v", reason, got, want)
		}
	}
}

// TestNamePlaceholders checks that placeholders in names are replaced at load.
func TestNamePlaceholders(t *testing.T) {
	t.Setenv("SLUICE_TEST_ZONE", "zone.example.com")
	router, _ := newRouter(t, `{"routes":[{"names":["*.{env.SLUICE_TEST_ZONE}"],"handle":[{"handler":"probe","name":"zone"}]}]}`)
	if got := seenOf(t, &script{data: hello("a.zone.example.com")}, chain{router}); !strings.HasPrefix(got, `path ["zone"]`) {
		t.Errorf("got %s, want the route", got)
	}
	m := newMatcher(t, `{"names":["*.{env.SLUICE_TEST_ZONE}"]}`)
	checkMatch(t, m, round(nil, new(script), hello("a.zone.example.com")), true, nil)
}

// TestProvisionTwice checks that several modules and configs share one set of metrics.
func TestProvisionTwice(t *testing.T) {
	ctx := modules.Context(t)
	for range 2 {
		for id, config := range map[string]string{"preread": "{}", "sni_router": testRouter("")} {
			if _, err := ctx.LoadModuleByID("layer4.handlers."+id, []byte(config)); err != nil {
				t.Errorf("%s: %v", id, err)
			}
		}
	}
	newPreread(t, "{}") // in another registry
	families, err := ctx.GetMetricsRegistry().Gather()
	if err != nil {
		t.Fatal(err)
	}
	found := false
	for _, family := range families {
		found = found || family.GetName() == "caddy_sluice_preread_active"
	}
	if !found {
		t.Error("got no caddy_sluice_preread_active in the config's registry")
	}
}

// TestMetricNames checks that each reason has its series from the start, so that a rate of it can be taken.
func TestMetricNames(t *testing.T) {
	have := count(t)
	for reason := range preread.Reasons() {
		if _, ok := have["rejected_total "+reason.String()]; !ok {
			t.Errorf("got no rejected_total for %v", reason)
		}
	}
}

// TestWarnOverlap checks which names are warned about under an HTTP server with sites of its own.
func TestWarnOverlap(t *testing.T) {
	server := &caddyhttp.Server{Routes: caddyhttp.RouteList{{
		MatcherSets: caddyhttp.MatcherSets{{&caddyhttp.MatchHost{"www.example.com", "site.example.net"}}},
	}}}
	ctx := caddy.Context{Context: context.WithValue(context.Background(), caddyhttp.ServerCtxKey, server)}
	for name, want := range map[string][]string{
		"www.example.com":   {"www.example.com"},
		"*.example.com":     {"www.example.com"},
		".example.net":      {"site.example.net"},
		"other.example.com": nil,
		"*.www.example.com": nil,
	} {
		logger, logs := observed()
		h := Router{Routes: []*Route{{Names: []string{name}, HandlersRaw: []json.RawMessage{}}}, logger: logger}
		if err := h.warnOverlap(ctx); err != nil {
			t.Fatal(err)
		}
		var got []any
		for _, entry := range logs.FilterLevelExact(zap.WarnLevel).All() {
			got = append(got, entry.ContextMap()["site"])
		}
		if len(got) != len(want) || len(want) > 0 && got[0] != want[0] {
			t.Errorf("%s: got warnings about %v, want %v", name, got, want)
		}
	}
}
