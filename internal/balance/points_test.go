package balance

import (
	"cmp"
	"slices"
	"testing"
)

// TestPointsAtOnePlace checks that points are in ascending order and that of those at one place that of the lower owner comes
// first, so that all machines agree on who has the keys there.
func TestPointsAtOnePlace(t *testing.T) {
	const top, low = ^uint64(0), uint64(3)
	hashes := []uint64{top, low, 7, low, top, 1 << 63, low, 0, top, low}
	p, owners := newPoints(hashes, []int64{2, 1, 3, 4})
	if want := []uint64{0, low, low, low, low, 7, 1 << 63, top, top, top}; !slices.Equal(p.hashes, want) {
		t.Errorf("got points at %v, want %v", p.hashes, want)
	}
	if want := []uint16{3, 0, 2, 3, 3, 1, 2, 0, 2, 3}; !slices.Equal(owners, want) {
		t.Errorf("got owners %v, want %v", owners, want)
	}
}

// TestPointsInOrder checks it against a sort, with hashes of which many are the same and most begin with the same bits.
func TestPointsInOrder(t *testing.T) {
	type point struct {
		hash  uint64
		owner uint16
	}
	seeds := draws(1)
	for range 300 {
		var want []point
		var hashes []uint64
		counts := make([]int64, 1+seeds.below(5))
		for owner := range counts {
			counts[owner] = int64(1 + seeds.below(40))
			for range counts[owner] {
				hash := seeds.below(20) << (seeds.below(2) * 58)
				hashes, want = append(hashes, hash), append(want, point{hash, uint16(owner)})
			}
		}
		slices.SortFunc(want, func(a, b point) int {
			return cmp.Or(cmp.Compare(a.hash, b.hash), cmp.Compare(a.owner, b.owner))
		})
		p, owners := newPoints(hashes, counts)
		for i, w := range want {
			if p.hashes[i] != w.hash || owners[i] != w.owner {
				t.Fatalf("point %d: got %d of %d, want %d of %d", i, p.hashes[i], owners[i], w.hash, w.owner)
			}
		}
		for key := range uint64(25) {
			i, _ := slices.BinarySearch(p.hashes, key)
			if got := p.from(key); got != i%len(want) {
				t.Fatalf("key %d: got point %d, want %d", key, got, i%len(want))
			}
		}
	}
}

// TestLargestWeights checks that the largest weights that can be found give each its share, by every policy that has weights.
func TestLargestWeights(t *testing.T) {
	allPolicies(t, func(t *testing.T, p Policy) {
		s := newStand(t, Config{Policy: p}, weighted(maxFoundWeight, maxFoundWeight/2, 1, maxFoundWeight/2))
		switch {
		case p == First:
			return
		case p.Keyed():
			owned := make([]float64, 4)
			for key := range uint64(100_000) {
				owned[s.visit(t, Query{Key: key * 0x9e3779b97f4a7c15, HasKey: true})]++
			}
			for i, want := range []float64{50_000, 25_000, 0, 25_000} {
				within(t, s.name(i), owned[i], want, 500)
			}
			return
		}
		got := s.counts(t, 10_000, Query{})
		for i, want := range []float64{5000, 2500, 0, 2500} {
			within(t, s.name(i), float64(got[i]), want, 250)
		}
		s.setLoads(1<<32, 1<<31-1, 1<<13, 1<<31)
		if i := s.visit(t, Query{}); p == LeastConnections && i != 1 {
			t.Errorf("got %s of many loads, want the lightest", s.name(i))
		}
	})
}

// TestRoundRobinOtherWeights checks that credits which were saved up beside large weights don't make bursts beside small ones,
// nor the other way round.
func TestRoundRobinOtherWeights(t *testing.T) {
	longest := func(names string) (longest int) {
		run := 0
		for i := range names {
			if run++; i == 0 || names[i] != names[i-1] {
				run = 1
			}
			longest = max(longest, run)
		}
		return longest
	}
	for _, tc := range []struct {
		name          string
		before, after []int
		want          int
	}{
		{"less", []int{100, 1}, []int{1, 1}, 2},
		{"the other one", []int{1, 100}, []int{1, 1}, 2},
		{"much less", []int{MaxWeight, 1}, []int{1, 1}, 2},
		{"five to one", []int{1000, 3, 77}, []int{5, 1, 1}, 6},
		{"more", []int{1, 1, 1}, []int{maxFoundWeight, maxFoundWeight, maxFoundWeight}, 2},
	} {
		t.Run(tc.name, func(t *testing.T) {
			for picks := range 200 {
				s := newStand(t, Config{Policy: RoundRobin}, weighted(tc.before...))
				s.sequence(t, picks)
				after := weighted(tc.after...)
				s.Set = mustNew(t, Config{Policy: RoundRobin}, after, s.Set)
				s.lives = livesOf(after)
				if names := s.sequence(t, 100); longest(names) > tc.want {
					t.Fatalf("after %d picks: got %s, want %d in a row at most", picks, names, tc.want)
				}
			}
		})
	}
	t.Run("back and forth", func(t *testing.T) {
		s := newStand(t, Config{Policy: RoundRobin}, equal(4))
		for range 300 {
			now := make([]int, 4)
			for i := range now {
				now[i] = 1 + int(s.seeds.below(1<<s.seeds.below(21)))
			}
			endpoints := weighted(now...)
			s.Set = mustNew(t, Config{Policy: RoundRobin}, endpoints, s.Set)
			s.lives = livesOf(endpoints)
			s.sequence(t, int(s.seeds.below(20)))
			var sum int64
			for _, saved := range s.tiers[0].credits {
				sum += *saved
			}
			if sum != 0 {
				t.Fatalf("weights %v: credits add up to %d, want 0", now, sum)
			}
		}
	})
}
