package guarddial

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/caddy-sluice/sluice/internal/netguard"
	"github.com/caddy-sluice/sluice/internal/sockopt"
	"github.com/caddy-sluice/sluice/internal/testkit/ports"
)

// TestNextAddress has nobody at the first address and a listener at the second.
func TestNextAddress(t *testing.T) {
	_, port := listen(t)
	d := Dialer{Resolver: resolverOf(t, "127.0.0.2", "127.0.0.1"), Mode: netguard.Off}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	conn, err := d.Dial(ctx, name, port, true)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if got := conn.RemoteAddr().(*net.TCPAddr).IP.String(); got != "127.0.0.1" {
		t.Errorf("got %s, want 127.0.0.1", got)
	}
}

func TestConnectFailure(t *testing.T) {
	port := netip.MustParseAddrPort(ports.Dead(t)).Port()
	d := Dialer{Resolver: resolverOf(t, "127.0.0.1"), Mode: netguard.Off}
	_, err := d.Dial(t.Context(), name, port, true)
	if _, ok := errors.AsType[*net.OpError](err); !ok || !strings.Contains(err.Error(), name) {
		t.Errorf("got %v, want the socket's error and the name", err)
	}
	if _, ok := errors.AsType[*ResolveError](err); ok {
		t.Errorf("got a resolve error: %v", err)
	}
	if _, ok := errors.AsType[*netguard.Refused](err); ok {
		t.Errorf("got a refusal: %v", err)
	}
}

// TestAttempts has addresses that fail at once.
func TestAttempts(t *testing.T) {
	last := errors.New("the last one")
	var got dialled
	addrs := make([]string, 0, maxAttempts+1)
	for i := range byte(maxAttempts + 1) {
		addrs = append(addrs, netip.AddrFrom4([4]byte{192, 0, 2, i + 1}).String())
	}
	d := Dialer{Resolver: resolverOf(t, addrs...)}
	d.dial = func(_ context.Context, _ *net.Dialer, address string) (net.Conn, error) {
		if got = append(got, address); len(got) == maxAttempts {
			return nil, last
		}
		return nil, errors.New("not the last one")
	}
	if _, err := d.Dial(t.Context(), name, 80, true); !errors.Is(err, last) {
		t.Errorf("got %v, want %v", err, last)
	}
	if len(got) != maxAttempts || got[0] != "192.0.2.1:80" || got[maxAttempts-1] != "192.0.2.16:80" {
		t.Errorf("got %v", got)
	}
}

// TestZ119_Blackholes has addresses that never answer. Each gets its share, and all together no more than there is.
func TestZ119_Blackholes(t *testing.T) {
	list := slices.Repeat([]string{"192.0.2.1"}, 8)
	for _, tc := range []struct {
		name   string
		budget time.Duration
		// after are the times at which an attempt ends.
		after []time.Duration
	}{
		{"Z119_equal_shares", 40 * time.Second, []time.Duration{5, 10, 15, 20, 25, 30, 35, 40}},
		{"Z119_two_seconds_at_least", 7 * time.Second, []time.Duration{2, 4, 6, 7}},
		{"Z119_less_than_two_seconds", time.Second, []time.Duration{1}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ends, err := blackholes(t, list, tc.budget)
				if !errors.Is(err, context.DeadlineExceeded) || len(ends) != len(tc.after) {
					t.Fatalf("got %v, %v, want %v", err, ends, tc.after)
				}
				for i, end := range ends {
					if end != tc.after[i]*time.Second {
						t.Errorf("attempt %d: got its end after %v, want %vs", i, end, int64(tc.after[i]))
					}
				}
			})
		})
	}
}

// blackholes dials addresses of which none answers, and returns when each attempt ended. It leaves the resolver out,
// since that can't live in a bubble.
func blackholes(t *testing.T, list []string, budget time.Duration) (ends []time.Duration, err error) {
	t.Helper()
	start := time.Now()
	ctx, cancel := context.WithTimeout(t.Context(), budget)
	defer cancel()
	var d Dialer
	d.dial = func(ctx context.Context, _ *net.Dialer, _ string) (net.Conn, error) {
		<-ctx.Done()
		ends = append(ends, time.Since(start))
		return nil, ctx.Err()
	}
	addrs := make([]netip.Addr, 0, len(list))
	for _, s := range list {
		addrs = append(addrs, netip.MustParseAddr(s))
	}
	_, err = d.first(ctx, &net.Dialer{}, addrs, 80)
	return ends, err
}

// unaware is a context that doesn't know yet that its time is over.
type unaware struct{ context.Context }

func (unaware) Deadline() (time.Time, bool) { return time.Now().Add(-time.Nanosecond), true }

func TestOver(t *testing.T) {
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	later, cancel := context.WithTimeout(t.Context(), time.Hour)
	defer cancel()
	for _, tc := range []struct {
		name string
		ctx  context.Context
		want bool
	}{
		{"without_a_limit", t.Context(), false},
		{"ended", ended, true},
		{"with_time_left", later, false},
		{"unaware", unaware{t.Context()}, true},
	} {
		if got := Over(tc.ctx); got != tc.want {
			t.Errorf("%s: got %v, want %v", tc.name, got, tc.want)
		}
	}
}

// TestNothingAfterTheTime checks that no address is tried when a socket has noticed first that the time is over.
func TestNothingAfterTheTime(t *testing.T) {
	attempts, late := 0, errors.New("too late")
	addrs := slices.Repeat([]netip.Addr{netip.MustParseAddr("192.0.2.1")}, 2)
	_, err := Try(unaware{t.Context()}, addrs, func(context.Context, netip.Addr) (net.Conn, error) {
		attempts++
		return nil, late
	})
	if attempts != 1 || !errors.Is(err, late) {
		t.Errorf("got %d attempts, %v, want 1", attempts, err)
	}
}

// probedPipe is a connection on which keepalive can't be set.
type probedPipe struct {
	net.Conn
	closed bool
}

var errNoProbes = errors.New("no probes")

func (*probedPipe) SetKeepAliveConfig(net.KeepAliveConfig) error { return errNoProbes }

func (p *probedPipe) Close() error {
	p.closed = true
	return nil
}

func TestKeepAlive(t *testing.T) {
	var pipe probedPipe
	d := Dialer{KeepAlive: sockopt.KeepAlive{Interval: time.Second}}
	d.dial = func(context.Context, *net.Dialer, string) (net.Conn, error) { return &pipe, nil }
	if _, err := d.Dial(t.Context(), "192.0.2.1", 80, true); !errors.Is(err, errNoProbes) || !pipe.closed {
		t.Errorf("got %v, closed %v", err, pipe.closed)
	}
}
