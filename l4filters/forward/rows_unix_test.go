//go:build unix

package forward

import (
	"context"
	"net"
	"runtime"
	"syscall"
	"testing"
	"time"

	"github.com/mholt/caddy-l4/layer4"
	"go.uber.org/zap"

	"github.com/caddy-sluice/sluice/internal/replay"
	"github.com/caddy-sluice/sluice/modules/session"
)

// TestS18_PendingConnectIsIdle checks that a connection whose client has sent more than was read of it costs nothing
// while the upstream is being connected.
func TestS18_PendingConnectIsIdle(t *testing.T) {
	const pending = time.Second
	h, _, err := load(t, `{"upstream":"nonexistent.invalid:443","connect_timeout":"1s"}`)
	if err != nil {
		t.Fatal(err)
	}
	h.dialer.Resolver = &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
		<-ctx.Done()
		return nil, ctx.Err()
	}}
	client, server := newPair(t)
	if _, err := client.Write(make([]byte, 32<<10)); err != nil {
		t.Fatal(err)
	}
	cx := layer4.WrapConnection(replay.New(server, []byte("hello")), nil, zap.NewNop())
	runtime.GC() // what earlier tests have left is not on this one's account
	cpu, start := cpuTime(t), time.Now()
	if err := h.Handle(cx, behind(t)); err != nil {
		t.Fatal(err)
	}
	// A loop would have taken all of the time, or as much of it as a busy machine gives.
	if cpu = cpuTime(t) - cpu; cpu > pending/4 {
		t.Errorf("got %v of CPU time in %v, want next to none", cpu, time.Since(start))
	}
	if took := session.Of(cx).ConnectTime; took < pending {
		t.Errorf("got a connect time of %v, want at least %v", took, pending)
	}
}

// cpuTime returns what this process has used.
func cpuTime(t *testing.T) time.Duration {
	t.Helper()
	var r syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &r); err != nil {
		t.Fatal(err)
	}
	return time.Duration(r.Utime.Nano() + r.Stime.Nano())
}
