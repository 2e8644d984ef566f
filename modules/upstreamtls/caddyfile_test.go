package upstreamtls

import (
	"encoding/json"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp/reverseproxy"
	_ "github.com/caddyserver/caddy/v2/modules/caddytls" // the pools of certificate authorities
)

// pool returns settings of Caddy's with the certificate authorities in a file.
func pool(file string) reverseproxy.TLSConfig {
	return reverseproxy.TLSConfig{
		CARaw: caddyconfig.JSONModuleObject(map[string]any{"pem_files": []string{file}}, "provider", "file", nil),
	}
}

func duration(d time.Duration) caddy.Duration { return caddy.Duration(d) }

// TestCaddyfile reads every option, and every error that a block may have.
func TestCaddyfile(t *testing.T) {
	for _, tc := range []struct{ name, block, want string }{
		{"bare", "", `{}`},
		{"empty", "{\n}", `{}`},
		{"server_name", "{\n server_name a.test\n}", `{"server_name":"a.test"}`},
		{"alpn", "{\n alpn h2 mqtt\n}", `{"alpn":["h2","mqtt"]}`},
		{"ca_file", "{\n ca_file a.pem b.pem\n}", `{"ca":{"pem_files":["a.pem","b.pem"],"provider":"file"}}`},
		{"trust_pool", "{\n trust_pool file a.pem\n}", `{"ca":{"pem_files":["a.pem"],"provider":"file"}}`},
		{"certificate", "{\n client_certificate a.pem b.pem\n}", `{"client_certificate_file":"a.pem","client_certificate_key_file":"b.pem"}`},
		{"managed_certificate", "{\n client_certificate a.test\n}", `{"client_certificate_automate":"a.test"}`},
		{"unverified", "{\n insecure_skip_verify\n}", `{"insecure_skip_verify":true}`},
		{"timeout", "{\n handshake_timeout 5s\n}", `{"handshake_timeout":5000000000}`},
		{"curves", "{\n curves x25519 secp256r1\n}", `{"curves":["x25519","secp256r1"]}`},
		{"renegotiation", "{\n renegotiation once\n}", `{"renegotiation":"once"}`},
		{"argument", "a.test", `tls takes no argument, got "a.test", at Testfile:1`},
		{"unknown", "{\n alpn h2\n sni a.test\n}", `unrecognized option "sni": expected one of server_name`},
		{"twice", "{\n alpn h2\n alpn mqtt\n}", "alpn is given twice, at Testfile:3"},
		{"pools", "{\n ca_file a.pem\n trust_pool file b.pem\n}", "ca_file and trust_pool exclude each other"},
		{"pool_missing", "{\n trust_pool\n}", "trust_pool needs the name of a module"},
		{"pool_unknown", "{\n trust_pool none\n}", "getting module named 'tls.ca_pool.source.none'"},
		{"certificates", "{\n client_certificate a b c\n}", "client_certificate needs a certificate file and a key file, or a managed name, got 3 arguments"},
		{"certificate_missing", "{\n client_certificate\n}", "got 0 arguments"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			d := caddyfile.NewTestDispenser("tls " + tc.block)
			d.Next()
			var settings TLS
			if err := settings.UnmarshalBlock(d); err != nil {
				if !strings.Contains(err.Error(), tc.want) {
					t.Errorf("got error %v, want %q", err, tc.want)
				}
				return
			}
			got, err := json.Marshal(settings)
			if err != nil || string(got) != tc.want {
				t.Errorf("got %s, %v, want %s", got, err, tc.want)
			}
		})
	}
}

// TestPoolWritten checks that a pool which can't be written down is an error: without it, the system's would be trusted.
func TestPoolWritten(t *testing.T) {
	d := caddyfile.NewTestDispenser("trust_pool odd")
	d.Next()
	var settings TLS
	if err := settings.setPool(d, "odd", math.NaN()); err == nil || !strings.Contains(err.Error(), `provider "odd": json: `) {
		t.Errorf("got error %v and %s, want one about the provider", err, settings.CARaw)
	}
}
