package main

import (
	"bytes"
	"encoding/json"
	"net"
	"os"
	"strings"
	"testing"
)

func TestCaddyConfig(t *testing.T) {
	tests := []struct {
		name   string
		routes []layer4Route
		want   string
	}{
		{
			"sluice", sluiceRoutes([]string{"a.test", "b.test"}, "127.0.0.1:7001"),
			`[{"handle":[{"handler":"sni_router","routes":[` +
				`{"handle":[{"handler":"forward","upstream":"127.0.0.1:7001"}],"names":["a.test"]},` +
				`{"handle":[{"handler":"forward","upstream":"127.0.0.1:7001"}],"names":["b.test"]}]}]}]`,
		},
		{
			"caddy-l4", stockRoutes([]string{"a.test", "b.test"}, "127.0.0.1:7001"),
			`[{"match":[{"tls":{"sni":["a.test"]}}],"handle":[{"handler":"proxy","upstreams":[{"dial":["127.0.0.1:7001"]}]}]},` +
				`{"match":[{"tls":{"sni":["b.test"]}}],"handle":[{"handler":"proxy","upstreams":[{"dial":["127.0.0.1:7001"]}]}]}]`,
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			config, err := caddyConfig("127.0.0.1:1", "127.0.0.1:2", tt.routes)
			if err != nil || !json.Valid(config) {
				t.Fatalf("got %s, %v, want JSON", config, err)
			}
			for _, part := range []string{`"routes":` + tt.want, `"listen":["127.0.0.1:1"]`, `"admin":{"config":{"persist":false},"listen":"127.0.0.1:2"}`} {
				if !bytes.Contains(config, []byte(part)) {
					t.Errorf("got %s, want %s in it", config, part)
				}
			}
		})
	}
}

func TestHAProxyConfig(t *testing.T) {
	got := string(haproxyConfig("127.0.0.1:1", "127.0.0.1:2", "/tmp/x.map"))
	for _, line := range []string{"bind 127.0.0.1:1\n", "server s1 127.0.0.1:2\n", "use_backend %[req.ssl_sni,lower,map(/tmp/x.map)]\n"} {
		if !strings.Contains(got, line) {
			t.Errorf("got\n%swant %q in it", got, line)
		}
	}
	if got, want := string(haproxyMap(names(2))), "h00000.example.test upstream\nh00001.example.test upstream\n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestPorts(t *testing.T) {
	p := &ports{next: firstPort}
	first, err := p.take()
	if err != nil {
		t.Fatal(err)
	}
	busy, err := net.Listen("tcp", first)
	if err != nil {
		t.Fatal(err)
	}
	defer busy.Close()
	p.next = firstPort
	if again, err := p.take(); err != nil || again == first {
		t.Errorf("got %s, %v, want another than the busy %s", again, err, first)
	}
	p.next = 1 << 15
	if got, err := p.take(); err == nil {
		t.Errorf("past the last port: got %s, want an error", got)
	}
}

func TestUnprivileged(t *testing.T) {
	got := unprivileged([]string{"proxy", "-x"})
	if root := os.Geteuid() == 0; (got[0] == "setpriv") != root || got[len(got)-1] != "-x" {
		t.Errorf("got %q as root %v, want setpriv in front for root only", got, root)
	}
	if got := wrapper(nil).wrap([]string{"proxy"}); len(got) != 1 {
		t.Errorf("got %q, want the command as it was", got)
	}
}
