//go:build unix

package forward

import (
	"io"
	"net"
	"syscall"
	"testing"

	"github.com/mholt/caddy-l4/layer4"
	"go.uber.org/zap"

	"github.com/caddy-sluice/sluice/internal/testkit/modules"
)

// BenchmarkConnection is a short connection, from accept to close: connect, one message, one answer. It reports the CPU
// time of all who take part, client and upstream included.
func BenchmarkConnection(b *testing.B) {
	b.Run("address", func(b *testing.B) {
		mod, err := modules.Load(b, "layer4.handlers.forward", `{"upstream":"`+answering(b)+`"}`)
		if err != nil {
			b.Fatal(err)
		}
		benchmark(b, mod.(*Handler))
	})
	b.Run("cluster", func(b *testing.B) {
		s := start(b, endpoints(answering(b), answering(b), answering(b)), ``)
		s.logger = zap.NewNop()
		benchmark(b, s.Handler)
	})
}

// answering is an upstream that sends back what it gets, to one client at a time.
func answering(b *testing.B) (address string) {
	b.Helper()
	ln := listen(b)
	go func() {
		for {
			conn, err := ln.Accept()
			if err != nil {
				return
			}
			_, _ = io.Copy(conn, conn)
			_ = conn.Close()
		}
	}()
	return ln.Addr().String()
}

// benchmark handles one connection after the other.
func benchmark(b *testing.B, h *Handler) {
	b.Helper()
	front := listen(b)
	var before, after syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &before)
	b.ReportAllocs()
	for b.Loop() {
		client, err := net.Dial("tcp", front.Addr().String())
		if err != nil {
			b.Fatal(err)
		}
		server, err := front.Accept()
		if err != nil {
			b.Fatal(err)
		}
		_, _ = client.Write([]byte("message"))
		_ = client.(*net.TCPConn).CloseWrite()
		_ = h.Handle(layer4.WrapConnection(server, nil, zap.NewNop()), nil)
		_, _ = client.Close(), server.Close()
	}
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &after)
	used := after.Utime.Nano() + after.Stime.Nano() - before.Utime.Nano() - before.Stime.Nano()
	b.ReportMetric(float64(used)/float64(b.N)/1000, "cpu-µs/op")
}
