package load

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"testing"
	"time"

	"github.com/caddy-sluice/sluice/internal/testkit/ports"
)

// startBackend returns a target that is the backend itself.
func startBackend(t *testing.T) Target {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- Serve(listener) }()
	t.Cleanup(func() {
		listener.Close()
		if err := <-served; err != nil {
			t.Errorf("Serve: got %v, want nil", err)
		}
	})
	return Target{Name: "backend", Addr: listener.Addr().String(), ServerName: "a.example.test"}
}

func TestRun(t *testing.T) {
	tests := []struct {
		name string
		o    Options
		want int64
	}{
		{"rate", Options{Kind: Rate, Conns: 3, Count: 20, Reply: 64}, 20},
		{"down", Options{Kind: Down, Conns: 2, Bytes: 3 << 20}, 3 << 20},
		{"up", Options{Kind: Up, Conns: 2, Bytes: 3 << 20}, 3 << 20},
		{"up, nothing", Options{Kind: Up, Conns: 1}, 0},
		{"ping-pong", Options{Kind: PingPong, Conns: 3, Count: 50, Message: 512}, 50},
	}
	target := startBackend(t)
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			tt.o.Limit = 30 * time.Second
			got, err := Run(t.Context(), target, tt.o)
			if err != nil || got.Err != nil || got.Failed != 0 {
				t.Fatalf("got %v, %d failed with %v, want no error", err, got.Failed, got.Err)
			}
			if got.Units != tt.want {
				t.Errorf("got %d units, want %d", got.Units, tt.want)
			}
			if timed := tt.o.Count > 0; (got.P50 > 0) != timed || got.P99 < got.P50 {
				t.Errorf("got p50 %v and p99 %v, want them set: %v", got.P50, got.P99, timed)
			}
		})
	}
}

func TestRunReportsFailures(t *testing.T) {
	refused := Target{Addr: ports.Dead(t)}
	for _, kind := range []Kind{Rate, Down, Up, PingPong} {
		got, err := Run(t.Context(), refused, Options{Kind: kind, Conns: 2, Count: 2, Bytes: 10, Limit: 10 * time.Second})
		if err != nil || got.Failed != 2 || got.Err == nil || got.Units != 0 {
			t.Errorf("%s, nobody listens: got %+v, %v, want 2 failures", kind, got, err)
		}
	}
	if _, err := Run(t.Context(), refused, Options{Kind: "x", Conns: 1}); err == nil {
		t.Error("unknown kind: got no error")
	}
	if _, err := Run(t.Context(), refused, Options{Kind: Rate}); err == nil {
		t.Error("no connections: got no error")
	}
}

func TestRunEndsAtTheLimit(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0") // accepts into the backlog, never answers
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	silent := Target{Addr: listener.Addr().String()}
	for _, kind := range []Kind{Rate, Down, PingPong} {
		o := Options{Kind: kind, Conns: 1, Count: 5, Bytes: 5, Reply: 5, Message: 5, Limit: 20 * time.Millisecond}
		if got, err := Run(t.Context(), silent, o); err != nil || got.Failed == 0 {
			t.Errorf("%s: got %+v, %v, want a failure", kind, got, err)
		}
	}
}

func TestHold(t *testing.T) {
	target := startBackend(t)
	const count = 2*openers + 1
	held, err := Hold(t.Context(), target, count, 64)
	if err != nil {
		t.Fatal(err)
	}
	if got := len(held.conns); got != count {
		t.Errorf("got %d connections, want %d", got, count)
	}
	if err := held.Close(); err != nil {
		t.Errorf("Close: got %v, want nil", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Hold(ctx, target, count, 64); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: got %v, want %v", err, context.Canceled)
	}
}

func TestReadCommand(t *testing.T) {
	for name, o := range map[string]HelloOptions{"post-quantum": {ALPN: DefaultALPN}, "classic": {Classic: true}} {
		hello := ClientHello("a.example.test", o)
		if !bytes.Contains(hello, []byte("a.example.test")) || (len(hello) < 600) != o.Classic {
			t.Errorf("%s: got a hello of %d bytes, want the name in it and the right size", name, len(hello))
		}
		message := command(hello, cmdDown, 1<<40+7)
		cmd, n, err := readCommand(bufio.NewReader(bytes.NewReader(message)))
		if cmd != cmdDown || n != 1<<40+7 || err != nil {
			t.Errorf("%s: got %c %d, %v, want D %d", name, cmd, n, err, int64(1<<40+7))
		}
		for cut := range message {
			_, _, err := readCommand(bufio.NewReader(bytes.NewReader(message[:cut])))
			if !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
				t.Fatalf("%s: cut at %d: got %v, want an early end", name, cut, err)
			}
		}
	}
	if _, _, err := readCommand(bufio.NewReader(bytes.NewReader([]byte("GET / HTTP/1.1")))); err == nil {
		t.Error("not TLS: got no error")
	}
}
