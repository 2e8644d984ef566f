package permit

import (
	"math"
	"net/netip"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
)

func TestGauge(t *testing.T) {
	var g Gauge
	for i, step := range []struct {
		n, limit int64
		want     bool
		held     int64
	}{
		{1, 2, true, 1},
		{2, 2, false, 1},
		{1, 2, true, 2},
		{1, 2, false, 2},
		{0, 2, true, 2},
		{1, 0, true, 3},
		{1, -1, true, 4},
		{1, 4, false, 4},
		{0, 2, false, 4}, // the limit was lowered
		{math.MaxInt64, 5, false, 4},
		{math.MaxInt64 - 4, math.MaxInt64, true, math.MaxInt64},
		{1, math.MaxInt64, false, math.MaxInt64},
	} {
		if got := g.TryAcquire(step.n, step.limit); got != step.want || g.Load() != step.held {
			t.Fatalf("step %d: got %v and %d held, want %v and %d", i, got, g.Load(), step.want, step.held)
		}
	}
	g.Release(math.MaxInt64)
	if got := g.Load(); got != 0 {
		t.Errorf("got %d held, want 0", got)
	}
}

// TestReleaseIsExact has permits given back that nobody took. The count shows it, for ever: it would be worse if the
// fault were hidden by a count that is too high later.
func TestReleaseIsExact(t *testing.T) {
	var g Gauge
	g.Release(2)
	g.TryAcquire(1, 1)
	if got := g.Load(); got != -1 {
		t.Errorf("gauge: got %d, want -1", got)
	}
	var k Keyed[string]
	k.Release("a")
	k.Release("a")
	k.TryAcquire("a", 1)
	if got := k.Load("a"); got != -1 || k.Len() != 1 {
		t.Errorf("keyed: got %d and %d keys, want -1 and 1", got, k.Len())
	}
	k.TryAcquire("a", 1)
	if got := k.Load("a"); got != 0 || k.Len() != 0 {
		t.Errorf("keyed: got %d and %d keys, want 0 and 0", got, k.Len())
	}
}

// crowd has workers take and give back, and checks that no more than limit are ever held. At first all of them try
// before any of them gives back.
func crowd(t *testing.T, limit int64, try func() bool, release func()) {
	t.Helper()
	const workers = 8
	var held, granted atomic.Int64
	var tried, done sync.WaitGroup
	tried.Add(workers)
	for range workers {
		done.Go(func() {
			first := try()
			tried.Done()
			tried.Wait()
			if first {
				granted.Add(1)
				release()
			}
			churn(t, limit, &held, try, release)
		})
	}
	done.Wait()
	if got := granted.Load(); got != limit {
		t.Errorf("got %d permits at first, want %d", got, limit)
	}
}

// churn takes and gives back many times. held is what all workers hold.
func churn(t *testing.T, limit int64, held *atomic.Int64, try func() bool, release func()) {
	t.Helper()
	for range 2000 {
		if !try() {
			continue
		}
		if got := held.Add(1); got > limit {
			t.Errorf("got %d held, want %d at most", got, limit)
		}
		runtime.Gosched()
		held.Add(-1)
		release()
	}
}

func TestGaugeInACrowd(t *testing.T) {
	var g Gauge
	crowd(t, 3, func() bool { return g.TryAcquire(1, 3) }, func() { g.Release(1) })
	if got := g.Load(); got != 0 {
		t.Errorf("got %d held, want 0", got)
	}
}

func TestKeyedInACrowd(t *testing.T) {
	var k Keyed[int]
	crowd(t, 3, func() bool { return k.TryAcquire(7, 3) }, func() { k.Release(7) })
	if k.Load(7) != 0 || k.Len() != 0 {
		t.Errorf("got %d held and %d keys, want 0 and 0", k.Load(7), k.Len())
	}
}

func TestKeyed(t *testing.T) {
	var k Keyed[string]
	for i, step := range []struct {
		key       string
		limit     int64
		want      bool
		held, len int64
	}{
		{"a", 1, true, 1, 1},
		{"a", 1, false, 1, 1},
		{"b", 1, true, 1, 2},
		{"a", 0, true, 2, 2},
		{"a", -1, true, 3, 2},
		{"a", 2, false, 3, 2}, // the limit was lowered
	} {
		if got := k.TryAcquire(step.key, step.limit); got != step.want || k.Load(step.key) != step.held || int64(k.Len()) != step.len {
			t.Fatalf("step %d: got %v, %d held, %d keys, want %+v", i, got, k.Load(step.key), k.Len(), step)
		}
	}
	for range 3 {
		k.Release("a")
	}
	if k.Load("a") != 0 || k.Len() != 1 {
		t.Errorf("got %d held and %d keys, want 0 and 1", k.Load("a"), k.Len())
	}
}

func TestTenThousandCycles(t *testing.T) {
	var g Gauge
	var k Keyed[int]
	for i := range 10_000 {
		if !g.TryAcquire(1, 1) || !k.TryAcquire(i%97, 1) {
			t.Fatalf("cycle %d: got no permit", i)
		}
		g.Release(1)
		k.Release(i % 97)
	}
	if g.Load() != 0 || k.Len() != 0 {
		t.Errorf("got %d held and %d keys, want 0 and 0", g.Load(), k.Len())
	}
}

func TestSourcePrefix(t *testing.T) {
	for _, tc := range []struct {
		addr string
		bits int
		want string
	}{
		{"192.0.2.1", 64, "192.0.2.1"},
		{"::ffff:192.0.2.1", 64, "192.0.2.1"},
		{"2001:db8:1:2:3:4:5:6", 64, "2001:db8:1:2::"},
		{"2001:db8:1:2:ffff::", 64, "2001:db8:1:2::"},
		{"2001:db8:1:3::", 64, "2001:db8:1:3::"},
		{"2001:db8:1:2:3:4:5:6", 56, "2001:db8:1::"},
		{"2001:db8:1:2:3:4:5:6", 128, "2001:db8:1:2:3:4:5:6"},
		{"2001:db8:1:2:3:4:5:6", 0, "::"},
		{"2001:db8:1:2:3:4:5:6", 129, "2001:db8:1:2:3:4:5:6"},
		{"2001:db8:1:2:3:4:5:6", -1, "2001:db8:1:2:3:4:5:6"},
		{"fe80::1%eth0", 64, "fe80::"},
		{"fe80::1%eth0", 129, "fe80::1"},
	} {
		if got := SourcePrefix(netip.MustParseAddr(tc.addr), tc.bits); got != netip.MustParseAddr(tc.want) {
			t.Errorf("%s/%d: got %v, want %s", tc.addr, tc.bits, got, tc.want)
		}
	}
	if got := SourcePrefix(netip.Addr{}, 64); got.IsValid() {
		t.Errorf("got %v for no address", got)
	}
}

func TestSteadyStateAllocatesNothing(t *testing.T) {
	var k Keyed[netip.Addr]
	addr := netip.MustParseAddr("2001:db8::1")
	got := testing.AllocsPerRun(1000, func() {
		k.TryAcquire(SourcePrefix(addr, 64), 1)
		k.Release(SourcePrefix(addr, 64))
	})
	if got != 0 {
		t.Errorf("got %v allocations, want 0", got)
	}
}

func BenchmarkGauge(b *testing.B) {
	b.ReportAllocs()
	var g Gauge
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			if g.TryAcquire(1, 1<<40) {
				g.Release(1)
			}
		}
	})
}

// BenchmarkKeyed opens and closes connections of many sources while 10,000 others stay.
func BenchmarkKeyed(b *testing.B) {
	b.ReportAllocs()
	var k Keyed[netip.Addr]
	for i := range 10_000 {
		k.TryAcquire(netip.AddrFrom4([4]byte{10, 0, byte(i >> 8), byte(i)}), 0)
	}
	var worker atomic.Int64
	b.RunParallel(func(pb *testing.PB) {
		own := byte(worker.Add(1))
		for i := 0; pb.Next(); i++ {
			addr := netip.AddrFrom4([4]byte{11, own, byte(i >> 8), byte(i)})
			if k.TryAcquire(addr, 8) {
				k.Release(addr)
			}
		}
	})
}
