package preread

import (
	"runtime"
	"slices"
	"testing"

	"github.com/caddy-sluice/sluice/internal/testkit/hellos"
)

// TestAllocations counts what a whole connection allocates, the core itself aside: the name, and the copy of a hello
// that spans records.
func TestAllocations(t *testing.T) {
	cfg := testConfig(t)
	message := hellos.Message(hellos.Options{ServerName: "exact.example.com", ALPN: []string{"h2"}, Pad: 2000})
	withProxy := *cfg
	withProxy.Proxy = true
	for _, tc := range []struct {
		name   string
		cfg    *Config
		window []byte
		want   float64
	}{
		{"one_record", cfg, hellos.Wrap(message), 1},
		{"two_records", cfg, hellos.Wrap(message, 1000), 2},
		{"record_per_byte", cfg, hellos.Wrap(message, 1), 2},
		{"proxy_line", &withProxy, append(slices.Clip(proxyLine), hellos.Wrap(message)...), 1},
		{"not_tls", cfg, []byte("GET / HTTP/1.1\r\n"), 0},
		{"incomplete", cfg, hellos.Wrap(message)[:1500], 0},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got := testing.AllocsPerRun(10, func() {
				var c Core
				for n := 0; n <= len(tc.window); n++ {
					c.Bytes(tc.cfg, tc.window[:n], t0)
				}
			})
			if got > tc.want {
				t.Errorf("got %v allocations, want at most %v", got, tc.want)
			}
		})
	}
}

// TestMemory bounds the bytes allocated by the worst framing, a record per byte, by the window.
func TestMemory(t *testing.T) {
	cfg := testConfig(t)
	cfg.MaxBytes = MaxMaxBytes
	window := hellos.Wrap(hellos.Message(hellos.Options{ServerName: "exact.example.com", Pad: 60000}), 1)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	var c Core
	for n := 0; n < len(window); n += 1000 {
		c.Bytes(cfg, window[:n], t0)
	}
	v := c.Bytes(cfg, window, t0)
	runtime.ReadMemStats(&after)
	if v.Kind != Routed {
		t.Fatalf("got %+v, want a route", v)
	}
	if got := after.TotalAlloc - before.TotalAlloc; got > uint64(len(window)) {
		t.Errorf("got %d bytes allocated for a window of %d", got, len(window))
	}
}

func BenchmarkBytes(b *testing.B) {
	cfg := testConfig(b)
	for _, bc := range []struct {
		name   string
		window []byte
		chunk  int
	}{
		{"small", hello("host1.wild.example.com", "h2", "http/1.1"), 1 << 20},
		{"post_quantum", hellos.Find("go-1.26-pq").Bytes, 1 << 20},
		{"post_quantum_drip", hellos.Find("go-1.26-pq").Bytes, 1},
		{"sixteen_records", hellos.Wrap(hellos.Message(hellos.Options{ServerName: "exact.example.com", Pad: 1600}), 100), 1 << 20},
	} {
		b.Run(bc.name, func(b *testing.B) {
			b.SetBytes(int64(len(bc.window)))
			b.ReportAllocs()
			for b.Loop() {
				var c Core
				for n := 0; c.Bytes(cfg, bc.window[:n], t0).Kind == NeedMore; n = min(n+bc.chunk, len(bc.window)) {
				}
			}
		})
	}
}
