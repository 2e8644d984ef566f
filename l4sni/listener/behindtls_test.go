package listener

import (
	"crypto/tls"
	"encoding/json"
	"testing"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"github.com/caddyserver/caddy/v2/modules/caddytls"
	"go.uber.org/zap"

	"github.com/caddy-sluice/sluice/internal/testkit/conns"
)

// TestBehindTLS checks that a wrapper which gets connections without their TLS says so, once, and others don't.
func TestBehindTLS(t *testing.T) {
	for _, behind := range []bool{true, false} {
		base, want := conns.Listen(t, "127.0.0.1:0"), 0
		if behind {
			base, want = tls.NewListener(base, &tls.Config{}), 1 // no handshake comes
		}
		l, logs := open(t, base, handOver)
		for range 2 {
			dial(t, l, "x")
			conn, err := l.Accept()
			if err != nil {
				t.Fatal(err)
			}
			_ = conn.Close()
		}
		entries := logs.FilterMessage(behindTLS).All()
		if len(entries) != want || want > 0 && (entries[0].Level != zap.WarnLevel || entries[0].ContextMap()["address"] != l.Addr().String()) {
			t.Errorf("behind TLS %v: got %v, want %d warnings with the address", behind, entries, want)
		}
	}
}

// TestEndsTLS checks in which order of wrappers TLS is ended first.
func TestEndsTLS(t *testing.T) {
	for _, tc := range []struct {
		wrappers []string
		want     bool
	}{
		{[]string{"sluice"}, true},
		{[]string{"sluice", "tls"}, false},
		{[]string{"proxy_protocol", "sluice"}, true},
		{[]string{"proxy_protocol", "tls", "sluice"}, true},
		{[]string{"sluice", "other", "tls", "another"}, false},
		{[]string{"other"}, false},
		{nil, false},
	} {
		server := &caddyhttp.Server{TLSConnPolicies: caddytls.ConnectionPolicies{new(caddytls.ConnectionPolicy)}}
		for _, name := range tc.wrappers {
			server.ListenerWrappersRaw = append(server.ListenerWrappersRaw, json.RawMessage(`{"wrapper":"`+name+`"}`))
		}
		if got := endsTLS(server); got != tc.want {
			t.Errorf("%v: got %v, want %v", tc.wrappers, got, tc.want)
		}
		server.TLSConnPolicies = nil
		if endsTLS(server) {
			t.Errorf("%v without TLS: got true", tc.wrappers)
		}
	}
}
