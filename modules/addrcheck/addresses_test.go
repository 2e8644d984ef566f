package addrcheck

import (
	"context"
	"net"
	"strings"
	"testing"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
)

// tcpAddr returns a socket address, or one of a unix socket.
func tcpAddr(t testing.TB, text string) net.Addr {
	t.Helper()
	if path, ok := strings.CutPrefix(text, "unix/"); ok {
		return &net.UnixAddr{Name: path, Net: "unix"}
	}
	addr, err := net.ResolveTCPAddr("tcp", text)
	if err != nil {
		t.Fatal(err)
	}
	return addr
}

func TestKey(t *testing.T) {
	t.Setenv("SLUICE_TEST_PORT", "443")
	for _, tc := range []struct{ listen, local, want string }{
		{":443", "10.0.0.1:443", ":443"},
		{":443", "[2001:db8::1]:443", ":443"},
		{":443", "10.0.0.1:444", "10.0.0.1:444"},
		{"", "10.0.0.1:444", "10.0.0.1:444"},
		{":{env.SLUICE_TEST_PORT}", "10.0.0.1:443", ":443"},
		{":443 10.0.0.1:443", "10.0.0.1:443", "10.0.0.1:443"},
		{"10.0.0.1:443 :443", "10.0.0.1:443", "10.0.0.1:443"},
		{"10.0.0.1:443 :443", "10.0.0.2:443", ":443"},
		{"10.0.0.1:443 :443", "[::ffff:10.0.0.1]:443", "10.0.0.1:443"},
		{"10.0.0.1:443", "10.0.0.2:443", "10.0.0.2:443"},
		{"[fe80::1%lo]:443 :443", "[fe80::1%lo]:443", "[fe80::1%lo]:443"},
		{"tcp/10.0.0.1:443", "10.0.0.1:443", "10.0.0.1:443"},
		{"0.0.0.0:443", "10.0.0.1:443", "0.0.0.0:443"},
		{"0.0.0.0:443", "[2001:db8::1]:443", "[2001:db8::1]:443"},
		{"[::]:443 0.0.0.0:443", "10.0.0.1:443", "0.0.0.0:443"},
		{"[::]:443 0.0.0.0:443", "[2001:db8::1]:443", "[::]:443"},
		{"[::]:443", "10.0.0.1:443", "[::]:443"},
		{"tcp6/:443", "10.0.0.1:443", "10.0.0.1:443"},
		{"tcp4/:443 tcp6/:443", "[2001:db8::1]:443", "tcp6/:443"},
		{"tcp4/:443 tcp6/:443", "10.0.0.1:443", "tcp4/:443"},
		{"localhost:443 :443", "127.0.0.1:443", "localhost:443"},
		{"localhost:443 :443", "[::1]:443", "localhost:443"},
		{"localhost:443 :443", "10.0.0.1:443", ":443"},
		{"edge.example.com:443", "10.0.0.1:443", "edge.example.com:443"},
		{"edge.example.com:443 10.0.0.1:443", "10.0.0.1:443", "10.0.0.1:443"},
		{":8000-8010", "10.0.0.1:8000", ":8000-8010"},
		{":8000-8010", "10.0.0.1:8010", ":8000-8010"},
		{":8000-8010", "10.0.0.1:7999", "10.0.0.1:7999"},
		{":8000-8010", "10.0.0.1:8011", "10.0.0.1:8011"},
		{":8000-8010 :8005", "10.0.0.1:8005", ":8005"},
		{":8000-8010 10.0.0.1:8000-8020", "10.0.0.1:8005", "10.0.0.1:8000-8020"},
		{"udp/:443 unix//run/a.sock :443", "10.0.0.1:443", ":443"},
		{"udp/:443", "10.0.0.1:443", "10.0.0.1:443"},
		{"unix//run/a.sock|0222", "unix//run/a.sock", "unix//run/a.sock"},
		{"unix//run/b.sock", "unix//run/a.sock", "/run/a.sock"},
		{"fd/3", "10.0.0.1:443", "10.0.0.1:443"},
	} {
		t.Run(tc.listen+" "+tc.local, func(t *testing.T) {
			l, err := newListeners(strings.Fields(tc.listen))
			if err != nil {
				t.Fatal(err)
			}
			if got := l.Key(tcpAddr(t, tc.local)); got != tc.want {
				t.Errorf("got %q, want %q", got, tc.want)
			}
		})
	}
}

func TestListenersErrors(t *testing.T) {
	if _, err := newListeners([]string{":443", ":x"}); err == nil || !strings.Contains(err.Error(), "listen: ") {
		t.Errorf("got error %v, want one with listen", err)
	}
}

// TestAddresses checks where the addresses come from under the HTTP app, and that there may be none.
func TestAddresses(t *testing.T) {
	ctx, cancel := caddy.NewContext(caddy.Context{Context: context.Background()})
	defer cancel()
	local := tcpAddr(t, "10.0.0.1:443")
	l, err := Addresses(ctx)
	if err != nil || l.Key(local) != "10.0.0.1:443" {
		t.Errorf("no server: got %v, %v, want the local address", l, err)
	}
	l, err = Addresses(ctx.WithValue(caddyhttp.ServerCtxKey, &caddyhttp.Server{Listen: []string{":443"}}))
	if err != nil || l.Key(local) != ":443" {
		t.Errorf("HTTP server: got %v, %v, want :443", l, err)
	}
}

func TestKeyAllocatesNothing(t *testing.T) {
	l, err := newListeners([]string{"10.0.0.1:443", ":443", "unix//run/a.sock"})
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{"10.0.0.1:443", "[2001:db8::1%lo]:443", "unix//run/a.sock"} {
		local := tcpAddr(t, text)
		if got := testing.AllocsPerRun(100, func() { l.Key(local) }); got != 0 {
			t.Errorf("%s: got %v allocations, want none", text, got)
		}
	}
}
