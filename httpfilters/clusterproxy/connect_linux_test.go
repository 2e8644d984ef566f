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

// TestD107_ConnectTimeout has an endpoint that never answers a connection. It is asked more than once, since either the
// socket or the context may be the first to notice that the time is over.
func TestD107_ConnectTimeout(t *testing.T) {
	const asked = 20
	settings := object{"retry": object{"max": 1}, "passive": object{"fall": 2*asked + 1}}
	hole := conns.Blackhole(t)
	s := newSite(t, web([]string{hole}, settings), object{"transport": object{"protocol": "http", "dial_timeout": tick / 3}})
	for range asked {
		s.get(t).want(t, http.StatusGatewayTimeout)
	}
	if got := s.placeholder("failure"); got != "connect" {
		t.Errorf("got failure %s, want connect", got)
	}
	if got := failuresOf(t, hole); got != 2*asked {
		t.Errorf("got a streak of %d failures, want %d: each was tried twice", got, 2*asked)
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
