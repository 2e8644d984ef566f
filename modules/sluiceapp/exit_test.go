package sluiceapp

import (
	"net"
	"net/netip"
	"testing"
	"testing/synctest"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/mholt/caddy-l4/layer4"
	"go.uber.org/zap"
)

// TestAwaitQuiet checks how long an exit waits for sessions.
func TestAwaitQuiet(t *testing.T) {
	for _, tc := range []struct {
		name        string
		grace, busy time.Duration
		quiet       bool
		took        time.Duration
	}{
		{"nothing", time.Second, 0, true, quietTime},
		{"ends_within", 4 * time.Second, time.Second, true, time.Second + quietTime},
		{"does_not_end", time.Second, time.Hour, false, time.Second},
		{"no_grace", 0, time.Hour, false, 0},
		{"no_grace_nothing", 0, 0, true, quietTime},
		{"ends_at_the_last_moment", time.Second, time.Second, true, time.Second + quietTime},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				start := time.Now()
				got := awaitQuiet(start.Add(tc.grace), func() int {
					if time.Since(start) < tc.busy {
						return 1
					}
					return 0
				})
				took := time.Since(start)
				if got != tc.quiet || took < tc.took-exitPoll || took > tc.took+exitPoll {
					t.Errorf("got %v after %v, want %v after %v", got, took, tc.quiet, tc.took)
				}
			})
		})
	}
}

// TestAwaitQuietAgain checks that a session which begins in the quiet makes it start anew.
func TestAwaitQuietAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		late := quietTime / 2
		if !awaitQuiet(start.Add(time.Second), func() int {
			if since := time.Since(start); since >= late && since < late+exitPoll {
				return 1
			}
			return 0
		}) {
			t.Error("got no quiet")
		}
		if took := time.Since(start); took < late+quietTime {
			t.Errorf("got quiet after %v, want it after %v", took, late+quietTime)
		}
	})
}

// TestListenersOf checks that the listeners of the layer4 app are where this version of it has them.
func TestListenersOf(t *testing.T) {
	app := new(layer4.App)
	listeners := listenersOf(app)
	if listeners == nil || *listeners != nil {
		t.Fatalf("got %v, want an empty list", listeners)
	}
}

// TestListensAt checks which address belongs to which setting.
func TestListensAt(t *testing.T) {
	for _, tc := range []struct {
		listen, at string
		want       answer
	}{
		{":443", "[::]:443", yes},
		{":443", "0.0.0.0:443", yes},
		{":443", "10.0.0.1:443", no},
		{":443", "[::]:444", no},
		{":443-445", "[::]:444", yes},
		{"tcp4/:443", "0.0.0.0:443", yes},
		{"udp/:443", "[::]:443", no},
		{"unix//run/a", "[::]:443", no},
		{"10.0.0.1:443", "10.0.0.1:443", yes},
		{"10.0.0.1:443", "[::ffff:10.0.0.1]:443", yes},
		{"10.0.0.1:443", "10.0.0.2:443", no},
		{"10.0.0.1:443", "0.0.0.0:443", no},
		{"[::1]:443", "[::1]:443", yes},
		{"localhost:443", "127.0.0.1:443", perhaps},
		{"localhost:443", "[::]:443", no},
	} {
		na, err := caddy.ParseNetworkAddress(tc.listen)
		if err != nil {
			t.Fatal(err)
		}
		if got := listensAt(na, netip.MustParseAddrPort(tc.at)); got != tc.want {
			t.Errorf("%s, %s: got %v, want %v", tc.listen, tc.at, got, tc.want)
		}
	}
}

// TestServerAt checks that the connections left in a queue get the routes of the server that they came to, whatever the
// order in which a map gives the servers.
func TestServerAt(t *testing.T) {
	for _, tc := range []struct {
		name    string
		servers map[string]string
		at      string
		want    string
	}{
		{"address_before_name", map[string]string{"name": "localhost:443", "ip": "127.0.0.1:443"}, "127.0.0.1:443", "ip"},
		{"name_else", map[string]string{"name": "localhost:443", "ip": "10.0.0.1:443"}, "127.0.0.1:443", "name"},
		{"datagrams_too", map[string]string{"udp": "udp/:53", "tcp": ":53"}, "[::]:53", "tcp"},
		{"two_names", map[string]string{"a": "a.test:443", "b": "b.test:443"}, "10.0.0.1:443", ""},
		{"nobody", map[string]string{"a": ":443"}, "[::]:444", ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			app := &layer4.App{Servers: make(map[string]*layer4.Server)}
			for name, listen := range tc.servers {
				app.Servers[name] = &layer4.Server{Listen: []string{listen}}
			}
			addr := net.TCPAddrFromAddrPort(netip.MustParseAddrPort(tc.at))
			for range 20 {
				if got := serverAt(app, addr); got != app.Servers[tc.want] {
					t.Fatalf("got %v, want that of %q", got, tc.want)
				}
			}
		})
	}
}

// TestCloseListeners checks that listeners whose sockets can't be had don't stay open at an exit: the app may come to them
// only after the sessions were waited for.
func TestCloseListeners(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	app := new(layer4.App)
	*listenersOf(app) = []net.Listener{ln}
	closeListeners(app, zap.NewNop())
	if ln.Close() == nil || len(*listenersOf(app)) != 0 {
		t.Errorf("got %d listeners left to the app, want this one closed", len(*listenersOf(app)))
	}
}
