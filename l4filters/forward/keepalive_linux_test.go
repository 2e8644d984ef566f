package forward

import (
	"context"
	"net"
	"syscall"
	"testing"

	"github.com/mholt/caddy-l4/layer4"
	"go.uber.org/zap"

	"github.com/caddy-sluice/sluice/internal/replay"
	"github.com/caddy-sluice/sluice/modules/session"
)

// option reads an option of a socket.
func option(t *testing.T, conn net.Conn, level, name int) (value int) {
	t.Helper()
	raw, err := conn.(*net.TCPConn).SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	if err := raw.Control(func(fd uintptr) { value, err = syscall.GetsockoptInt(int(fd), level, name) }); err != nil {
		t.Fatal(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	return value
}

// TestKeepAlive checks the options of both sockets.
func TestKeepAlive(t *testing.T) {
	const userTimeout = 18 // TCP_USER_TIMEOUT, which package syscall lacks
	address, _ := echo(t)
	for _, tc := range []struct {
		name, settings           string
		probes, idle, unanswered int
	}{
		{"default", ``, 1, 15, 0},
		{"set", `,"keepalive":"42s","user_timeout":"20s"`, 1, 42, 20000},
		{"off", `,"keepalive":-1`, 0, 15, 0},
	} {
		t.Run(tc.name, func(t *testing.T) {
			h, _, err := load(t, `{"upstream":"`+address+`"`+tc.settings+`}`)
			if err != nil {
				t.Fatal(err)
			}
			_, server := newPair(t)
			cx := layer4.WrapConnection(replay.New(server, nil), nil, zap.NewNop())
			upstream, err := h.open(cx, session.Of(cx), func(ctx context.Context) (net.Conn, error) { return h.reach(ctx, cx, h.target) })
			if err != nil {
				t.Fatal(err)
			}
			defer upstream.Close()
			for name, conn := range map[string]net.Conn{"client": server, "upstream": upstream} {
				probes := option(t, conn, syscall.SOL_SOCKET, syscall.SO_KEEPALIVE)
				idle := option(t, conn, syscall.IPPROTO_TCP, syscall.TCP_KEEPIDLE)
				unanswered := option(t, conn, syscall.IPPROTO_TCP, userTimeout)
				if probes != tc.probes || idle != tc.idle || unanswered != tc.unanswered {
					t.Errorf("%s: got probes %d after %ds, user timeout %dms, want %d, %d, %d",
						name, probes, idle, unanswered, tc.probes, tc.idle, tc.unanswered)
				}
			}
		})
	}
}
