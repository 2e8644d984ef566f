package integration

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"testing"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddytls"
	"github.com/mholt/caddy-l4/layer4"
	"github.com/mholt/caddy-l4/modules/l4tls"
	"go.uber.org/zap"

	"github.com/caddy-sluice/sluice/internal/clienthello"
	"github.com/caddy-sluice/sluice/internal/testkit/hellos"
)

func init() {
	caddy.RegisterModule(&overhear{})
}

// overheard is what the last `overhear` matcher was asked about.
var overheard *tls.ClientHelloInfo

// overhear is a matcher of TLS handshakes that notes what caddy-l4's parser has read.
type overhear struct{}

func (*overhear) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: "tls.handshake_match.overhear", New: func() caddy.Module { return new(overhear) }}
}

func (*overhear) Match(info *tls.ClientHelloInfo) bool {
	overheard = info
	return true
}

var _ caddytls.ConnectionMatcher = (*overhear)(nil)

// stockReads returns the name and the protocols that caddy-l4's own TLS matcher reads from a hello.
func stockReads(t *testing.T, wire []byte) string {
	t.Helper()
	ctx, cancel := caddy.NewContext(caddy.Context{Context: context.Background()})
	defer cancel()
	mod, err := ctx.LoadModuleByID("layer4.matchers.tls", []byte(`{"overhear":{}}`))
	if err != nil {
		t.Fatal(err)
	}
	client, server := net.Pipe()
	defer client.Close()
	defer server.Close()
	if ok, err := mod.(*l4tls.MatchTLS).Match(layer4.WrapConnection(server, wire, zap.NewNop())); !ok || err != nil {
		t.Fatalf("caddy-l4 says %v, %v", ok, err)
	}
	return fmt.Sprintf("%q %q", overheard.ServerName, overheard.SupportedProtos)
}

// TestSameAsStockTLS compares what we read from hellos with what caddy-l4's own parser reads.
func TestSameAsStockTLS(t *testing.T) {
	flights := map[string][]byte{
		"no_block":        hellos.New(hellos.Options{}),
		"name":            named("a.test"),
		"upper_case":      named("A.Test"),
		"protocols":       named("a.test", "http/1.1", "h2"),
		"binary_protocol": named("a.test", "\x0a\x0a", "h2"),
		"protocols_only":  named("", "h2"),
		"ech":             hellos.New(hellos.Options{ServerName: "a.test", ECH: true, ALPN: []string{"h2"}}),
		"other_name_type": hellos.New(hellos.Options{Extensions: []hellos.Extension{hellos.ServerName(
			hellos.Name{Type: 1, Name: "a"}, hellos.Name{Name: "b.test"})}}),
	}
	for _, rec := range hellos.Recorded() {
		flights[rec.Name] = rec.Bytes
	}
	for name, flight := range flights {
		t.Run(name, func(t *testing.T) {
			var p clienthello.Parser
			if got := p.Parse(flight); got != clienthello.Complete {
				t.Fatalf("got %v, want %v", got, clienthello.Complete)
			}
			got := fmt.Sprintf("%q %q", p.Hello().ServerName, p.Hello().ALPN.Strings())
			if want := stockReads(t, flight); got != want {
				t.Errorf("got %s, caddy-l4 %s", got, want)
			}
		})
	}
}

// TestStricterThanStockTLS lists what we refuse although caddy-l4's parser reads a name or protocols from it: two readers
// of one such hello could see two names.
func TestStricterThanStockTLS(t *testing.T) {
	a, b := hellos.ServerName(hellos.Name{Name: "a.test"}), hellos.ServerName(hellos.Name{Name: "b.test"})
	two := hellos.ServerName(hellos.Name{Name: "a.test"}, hellos.Name{Name: "b.test"})
	for _, tc := range []struct {
		name       string
		extensions []hellos.Extension
		stock      string
	}{
		{"server_name_twice", []hellos.Extension{a, b}, `"a.test" []`},
		{"two_names_in_one", []hellos.Extension{two}, `"a.test" []`},
		{"alpn_twice", []hellos.Extension{a, hellos.ALPN("h2"), hellos.ALPN("h3")}, `"a.test" ["h2" "h3"]`},
		{"empty_protocol", []hellos.Extension{a, hellos.ALPN("h2", "")}, `"a.test" ["h2"]`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			wire := hellos.New(hellos.Options{Extensions: tc.extensions})
			var p clienthello.Parser
			if got := p.Parse(wire); got != clienthello.MalformedHandshake {
				t.Errorf("got %v, want %v", got, clienthello.MalformedHandshake)
			}
			if got := stockReads(t, wire); got != tc.stock {
				t.Errorf("caddy-l4: got %s, want %s", got, tc.stock)
			}
		})
	}
}
