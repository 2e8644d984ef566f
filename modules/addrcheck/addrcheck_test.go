package addrcheck

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"github.com/mholt/caddy-l4/layer4"
)

// TestShareAddress checks pairs of addresses, both ways round.
func TestShareAddress(t *testing.T) {
	t.Setenv("SLUICE_TEST_PORT", "443")
	for _, tc := range []struct {
		a, b string
		want bool
	}{
		{":443", ":443", true},
		{":443", ":8443", false},
		{":443", "10.0.0.1:443", true},
		{":443", "[2001:db8::1]:443", true},
		{"0.0.0.0:443", "10.0.0.1:443", true},
		{"[::]:443", "10.0.0.1:443", true},
		{"[::]:443", "0.0.0.0:443", true},
		{"10.0.0.1:443", "10.0.0.1:443", true},
		{"10.0.0.1:443", "10.0.0.2:443", false},
		{"[2001:db8::1]:443", "[2001:db8::1]:443", true},
		{"[2001:db8::1]:443", "10.0.0.1:443", false},
		{"localhost:443", "localhost:443", true},
		{"localhost:443", "127.0.0.1:443", true},
		{"localhost:443", "[::1]:443", true},
		{"localhost:443", "127.0.0.2:443", true},
		{"localhost:443", "10.0.0.1:443", false},
		{"localhost:443", ":443", true},
		{"127.0.0.1:443", "127.0.0.2:443", false},
		{":8000-8010", ":8010", true},
		{":8000-8010", ":8011", false},
		{":8000-8010", ":7999", false},
		{":8000-8010", ":8010-8020", true},
		{":8000-8010", ":8011-8020", false},
		{":8000-8010", ":8004-8005", true},
		{"10.0.0.1:8000-8010", "10.0.0.2:8005", false},
		{"tcp/:443", ":443", true},
		{"tcp4/:443", "tcp6/:443", false},
		{"udp/:443", ":443", false},
		{"udp/:443", "udp/:443", false},
		{"unix//run/a.sock", "unix//run/a.sock", true},
		{"unix//run/a.sock", "unix//run/b.sock", false},
		{"unix//run/a.sock", ":443", false},
		{":{env.SLUICE_TEST_PORT}", ":443", true},
		{":{env.SLUICE_TEST_PORT}", ":444", false},
	} {
		for _, pair := range [][2]string{{tc.a, tc.b}, {tc.b, tc.a}} {
			got, err := shareAddress(pair[0], pair[1])
			if got != tc.want || err != nil {
				t.Errorf("%s and %s: got %v, %v, want %v", pair[0], pair[1], got, err, tc.want)
			}
		}
	}
}

// TestShareAddressErrors checks that an address which is none is an error on either side.
func TestShareAddressErrors(t *testing.T) {
	for _, bad := range []string{":70000", ":x", ":9-1"} {
		for _, pair := range [][2]string{{bad, ":443"}, {":443", bad}} {
			if _, err := shareAddress(pair[0], pair[1]); err == nil || !strings.HasPrefix(err.Error(), "listen: ") {
				t.Errorf("%s and %s: got error %v, want one about listen", pair[0], pair[1], err)
			}
		}
	}
}

// TestOverlap checks that the pair found is the one that overlaps.
func TestOverlap(t *testing.T) {
	a, b, err := overlap([]string{":1", "10.0.0.1:443"}, []string{":2", ":443"})
	if a != "10.0.0.1:443" || b != ":443" || err != nil {
		t.Errorf("got %q, %q, %v, want 10.0.0.1:443 and :443", a, b, err)
	}
	if a, b, err = overlap([]string{":1"}, []string{":2", ":3"}); a != "" || b != "" || err != nil {
		t.Errorf("got %q, %q, %v, want nothing", a, b, err)
	}
	if a, _, _ = overlap(nil, []string{":2"}); a != "" {
		t.Errorf("got %q, want nothing", a)
	}
}

func init() {
	caddy.RegisterModule(&asking{})
}

// asking is a layer4 handler that asks for its address alone, as those of ours do.
type asking struct{}

func (*asking) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: "layer4.handlers.asking", New: func() caddy.Module { return new(asking) }}
}

func (*asking) Provision(ctx caddy.Context) error { return Handler(ctx) }

func (*asking) Handle(cx *layer4.Connection, next layer4.Handler) error { return next.Handle(cx) }

// TestHandler checks whole configs: which are refused, and that the error tells what to do.
func TestHandler(t *testing.T) {
	const l4 = `"layer4":{"servers":{"pass":{"listen":[%q],"routes":[{"handle":[{"handler":"asking"}]}]}}}`
	http := func(listen string) string {
		return fmt.Sprintf(`,"http":{"servers":{"sites":{"listen":[%q],"automatic_https":{"disable":true}}}}`, listen)
	}
	for _, tc := range []struct{ name, l4, http, want string }{
		{"alone", ":1443", "", ""},
		{"apart", ":1443", http(":2443"), ""},
		{
			"together", "127.0.0.1:1443", http(":1443"),
			`layer4 server "pass" (127.0.0.1:1443) and HTTP server "sites" (:1443) share an address; to share a port with Caddy's own sites, use the sluice listener wrapper`,
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var cfg caddy.Config
			config := `{"admin":{"disabled":true},"apps":{` + fmt.Sprintf(l4, tc.l4) + tc.http + `}}`
			if err := json.Unmarshal([]byte(config), &cfg); err != nil {
				t.Fatal(err)
			}
			err := caddy.Validate(&cfg)
			if tc.want == "" && err != nil || tc.want != "" && (err == nil || !strings.Contains(err.Error(), tc.want)) {
				t.Errorf("got error %v, want %q", err, tc.want)
			}
		})
	}
}

// TestHandlerElsewhere checks that there is nothing to refuse outside the layer4 app.
func TestHandlerElsewhere(t *testing.T) {
	ctx, cancel := caddy.NewContext(caddy.Context{Context: context.Background()})
	defer cancel()
	if err := Handler(ctx); err != nil {
		t.Errorf("got error %v, want none", err)
	}
	if _, err := ctx.LoadModuleByID("layer4.handlers.asking", nil); err != nil {
		t.Errorf("got error %v, want none", err)
	}
}

// TestSites checks that the names of all matchers are found, in both forms that a matcher can have.
func TestSites(t *testing.T) {
	server := &caddyhttp.Server{Routes: caddyhttp.RouteList{
		{MatcherSets: caddyhttp.MatcherSets{
			{&caddyhttp.MatchHost{"a.example.com", "*.example.net"}, &caddyhttp.MatchPath{"/x"}},
			{caddyhttp.MatchHost{"b.example.com"}},
		}},
		{}, // a route for every host
		{MatcherSets: caddyhttp.MatcherSets{{&caddyhttp.MatchHost{"c.example.com"}}}},
	}}
	ctx := caddy.Context{Context: context.WithValue(context.Background(), caddyhttp.ServerCtxKey, server)}
	want := []string{"a.example.com", "*.example.net", "b.example.com", "c.example.com"}
	if got := Sites(ctx); !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	if got := Sites(caddy.Context{Context: context.Background()}); got != nil {
		t.Errorf("got %q outside of an HTTP server, want none", got)
	}
}
