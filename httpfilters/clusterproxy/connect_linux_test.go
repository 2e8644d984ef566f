package clusterproxy

import (
	"context"
	"errors"
	"net"
	"net/http"
	"os"
	"syscall"
	"testing"
	"time"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp/reverseproxy"

	"github.com/caddy-sluice/sluice/internal/testkit/conns"
)

// TestD107_ConnectTimeout has an endpoint that never answers a connection, and no other: it is tried once for a request. It
// is asked more than once, since either the socket or the context may be the first to notice that the time is over.
func TestD107_ConnectTimeout(t *testing.T) {
	const asked = 20
	settings := object{"retry": object{"max": 3}, "passive": object{"fall": 2*asked + 1}}
	hole := conns.Blackhole(t)
	s := newSite(t, web([]string{hole}, settings), object{"transport": object{"protocol": "http", "dial_timeout": tick / 3}})
	for range asked {
		s.get(t).want(t, http.StatusGatewayTimeout)
	}
	if got := s.placeholder("failure"); got != "connect" {
		t.Errorf("got failure %s, want connect", got)
	}
	if got := s.placeholder("retries"); got != "0" {
		t.Errorf("got %s retries, want 0", got)
	}
	if got := failuresOf(t, hole); got != asked {
		t.Errorf("got a streak of %d failures, want %d: nothing is tried twice", got, asked)
	}
	s.idle(t)
}

// TestConnectTimeoutElsewhere has endpoints that never answer, and one that does: each is tried once.
func TestConnectTimeoutElsewhere(t *testing.T) {
	live := newBackend(t, echo)
	holes := []string{conns.Blackhole(t), conns.Blackhole(t)}
	settings := object{"retry": object{"max": 3}, "passive": object{"fall": 9}}
	options := object{"transport": object{"protocol": "http", "dial_timeout": ample / 2}}
	s := newSite(t, web(append(holes, live.address), settings), options)
	s.get(t).want(t, http.StatusOK)
	if got := s.placeholder("attempts"); got != "3" {
		t.Errorf("got %s attempts, want 3", got)
	}
	order(t, live.address, "drain")
	s.get(t).want(t, http.StatusGatewayTimeout)
	if got := s.placeholder("attempts"); got != "2" {
		t.Errorf("without the one that answers: got %s attempts, want 2", got)
	}
	s.idle(t)
}

// TestShortOfSomething has a machine that can't connect, here for the want of an address to connect from: that says nothing
// about the endpoint, and trying again would be in vain.
func TestShortOfSomething(t *testing.T) {
	live := newBackend(t, echo)
	settings := object{"retry": object{"max": 3}, "passive": object{"fall": 1}, "outlier": object{"consecutive_failures": 1}}
	options := object{"transport": object{"protocol": "http", "local_address": "192.0.2.1"}}
	s := newSite(t, web([]string{live.address, "127.0.0.1:1"}, settings), options)
	r := s.get(t)
	r.want(t, http.StatusServiceUnavailable)
	if r.header.Get("Retry-After") == "" {
		t.Error("got no Retry-After")
	}
	if got := s.placeholder("attempts") + " " + s.placeholder("failure"); got != "1 aborted" {
		t.Errorf("got %s, want 1 attempt that was aborted", got)
	}
	if got := statusOf(t, "web").Endpoints[0]; got.Failures != 0 || got.State != "healthy" {
		t.Errorf("got %+v, want nothing against the endpoint", got)
	}
	s.idle(t)
}

// unaware is a context that doesn't know yet that its time is over.
type unaware struct{ context.Context }

func (unaware) Deadline() (time.Time, bool) { return time.Now().Add(-time.Nanosecond), true }

// TestD107_ConnectError checks what is made of the errors of Caddy's dial function, which hide what they wrap.
func TestD107_ConnectError(t *testing.T) {
	for _, tc := range []struct {
		name string
		ctx  context.Context
		err  error
		want bool
	}{
		{"D107_time_is_over", unaware{t.Context()}, os.ErrDeadlineExceeded, true},
		{"D107_refused", t.Context(), syscall.ECONNREFUSED, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			d := dialing{connect: func(context.Context, string, string) (net.Conn, error) {
				return nil, reverseproxy.NewDialError(tc.err)
			}}
			_, err := d.one(tc.ctx, new(try), reverseproxy.DialInfo{})
			failed, ok := errors.AsType[*connectError](err)
			if !ok || failed.timeout != tc.want {
				t.Errorf("got %#v, want timeout %v", err, tc.want)
			}
		})
	}
}
