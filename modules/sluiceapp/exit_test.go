package sluiceapp

import (
	"net/netip"
	"testing"
	"testing/synctest"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/mholt/caddy-l4/layer4"
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
		want       bool
	}{
		{":443", "[::]:443", true},
		{":443", "0.0.0.0:443", true},
		{":443", "10.0.0.1:443", false},
		{":443", "[::]:444", false},
		{":443-445", "[::]:444", true},
		{"10.0.0.1:443", "10.0.0.1:443", true},
		{"10.0.0.1:443", "[::ffff:10.0.0.1]:443", true},
		{"10.0.0.1:443", "10.0.0.2:443", false},
		{"10.0.0.1:443", "0.0.0.0:443", false},
		{"[::1]:443", "[::1]:443", true},
		{"localhost:443", "127.0.0.1:443", true},
		{"localhost:443", "[::]:443", false},
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
