package clienthello

import (
	"fmt"
	"testing"

	"github.com/caddy-sluice/sluice/internal/testkit/hellos"
)

func BenchmarkParse(b *testing.B) {
	for _, r := range hellos.Recorded() {
		b.Run(r.Name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				var p Parser
				if p.Parse(r.Bytes) != Complete {
					b.Fatal("not complete")
				}
			}
		})
	}
}

// BenchmarkDrip feeds a hello one byte at a time. The metric ns/byte must stay about the same as hellos grow.
func BenchmarkDrip(b *testing.B) {
	for _, recordSize := range []int{hellos.MaxRecord, 1} {
		for _, size := range []int{2 << 10, 4 << 10, 16 << 10} {
			wire := hellos.Wrap(hellos.Message(hellos.Options{ServerName: "a.test", Pad: size}), recordSize)
			b.Run(fmt.Sprintf("record=%d/hello=%d", recordSize, size), func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					drip(b, wire)
				}
				b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(len(wire)), "ns/byte")
			})
		}
	}
}

func drip(tb testing.TB, wire []byte) {
	tb.Helper()
	var p Parser
	for n := range wire {
		if p.Parse(wire[:n]) != NeedMore {
			tb.Fatalf("decided at byte %d of %d", n, len(wire))
		}
	}
	if p.Parse(wire) != Complete {
		tb.Fatal("not complete")
	}
}
