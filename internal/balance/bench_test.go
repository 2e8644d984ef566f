package balance

import (
	"fmt"
	"math/rand/v2"
	"testing"
)

// BenchmarkPick picks and settles. The seed is drawn as a caller would.
func BenchmarkPick(b *testing.B) {
	for p := range Policy(len(policyNames)) {
		for _, n := range []int{3, 1000} {
			b.Run(fmt.Sprintf("%s/%d", p, n), func(b *testing.B) { benchPick(b, newStand(b, Config{Policy: p}, equal(n))) })
		}
	}
}

// BenchmarkPickHalfDown has every second endpoint down, and as many as retries can try are tried.
func BenchmarkPickHalfDown(b *testing.B) {
	for p := range Policy(len(policyNames)) {
		for _, n := range []int{3, 1000} {
			b.Run(fmt.Sprintf("%s/%d", p, n), func(b *testing.B) {
				s := newStand(b, Config{Policy: p}, equal(n))
				for i := 0; i < n; i += 2 {
					s.lives[i].Bar(Down)
				}
				benchPick(b, s, s.lives[0:min(n, 5)]...)
			})
		}
	}
}

func benchPick(b *testing.B, s *stand, tried ...*Live) {
	b.Helper()
	b.ReportAllocs()
	for b.Loop() {
		seed := rand.Uint64()
		if i, ok := s.Pick(Query{Seed: seed, Key: seed, HasKey: true, Tried: tried}); ok {
			s.lives[i].Release()
		}
	}
}

// BenchmarkPickWeighted has weights from 1 to 100, one endpoint in a slow start.
func BenchmarkPickWeighted(b *testing.B) {
	for p := range Policy(len(policyNames)) {
		b.Run(fmt.Sprintf("%s/1000", p), func(b *testing.B) {
			endpoints := equal(1000)
			for i := range endpoints {
				endpoints[i].Weight = 1 + i*37%100
			}
			s := newStand(b, Config{Policy: p}, endpoints)
			s.lives[7].SetShare(100)
			benchPick(b, s)
		})
	}
}

// BenchmarkPickParallel is for -cpu 1,2: what a second processor adds. With "bare" the processors do nothing but take
// counters from each other, which costs more than the rest of a pick. With "busy" each pick has work of its own, about
// 1 µs, still far less than what a connection or a request has.
func BenchmarkPickParallel(b *testing.B) {
	for _, p := range []Policy{P2C, LeastConnections, Random, Maglev, RoundRobin} {
		for _, n := range []int{3, 100, 1000} {
			s := newStand(b, Config{Policy: p}, equal(n))
			b.Run(fmt.Sprintf("%s/%d/bare", p, n), func(b *testing.B) { benchParallel(b, s, 0) })
			b.Run(fmt.Sprintf("%s/%d/busy", p, n), func(b *testing.B) { benchParallel(b, s, 160) })
		}
	}
}

func benchParallel(b *testing.B, s *stand, work int) {
	b.Helper()
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			seed := rand.Uint64()
			i, _ := s.Pick(Query{Seed: seed, Key: seed, HasKey: true})
			for range work {
				seed ^= rand.Uint64()
			}
			s.lives[i].Release()
		}
	})
}

// BenchmarkNew builds sets.
func BenchmarkNew(b *testing.B) {
	for p := range Policy(len(policyNames)) {
		for _, n := range []int{100, 1000} {
			b.Run(fmt.Sprintf("%s/%d", p, n), func(b *testing.B) {
				endpoints := equal(n)
				b.ReportAllocs()
				for b.Loop() {
					mustNew(b, Config{Policy: p}, endpoints, nil)
				}
			})
		}
	}
}
