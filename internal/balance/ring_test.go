package balance

import (
	"fmt"
	"slices"
	"testing"
)

func TestRing(t *testing.T) {
	for _, perUnit := range []int{1, 16, 160} {
		c := Config{Policy: RingHash, RingPoints: perUnit}
		endpoints := weighted(1, 2, 1, 5, 1, 1, 1, 3, 1, 1, 1)
		with, without := newStand(t, c, endpoints), newStand(t, c, endpoints[:10])
		here, there := with.homes(t, 5000), without.homes(t, 5000)
		t.Run(fmt.Sprintf("Z029_nothing_else_moves_%d", perUnit), func(t *testing.T) {
			for i := range here {
				if here[i] != 10 && here[i] != there[i] {
					t.Fatalf("key %d: got %d with and %d without another endpoint", i, here[i], there[i])
				}
			}
			if perUnit > 1 && !slices.Contains(here, 10) {
				t.Error("got no key on the one added")
			}
		})
	}
	for _, tc := range []struct {
		name      string
		perUnit   int
		low, high float64
	}{
		{"Z030_1024_points", 102, 0.5, 1.5},
		{"Z030_100000_points", 10_000, 0.95, 1.05},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := newStand(t, Config{Policy: RingHash, RingPoints: tc.perUnit}, equal(10))
			for i, share := range s.arcs() {
				if share*10 < tc.low || share*10 > tc.high {
					t.Errorf("%s: got %.3f of the mean share, want %v to %v", s.name(i), share*10, tc.low, tc.high)
				}
			}
		})
	}
	t.Run("weights", func(t *testing.T) {
		s := newStand(t, Config{Policy: RingHash, RingPoints: 5000}, weighted(1, 2, 5))
		for i, want := range []float64{0.125, 0.25, 0.625} {
			within(t, s.name(i), s.arcs()[i], want, 0.05*want)
		}
	})
	t.Run("a ring that would be too large", func(t *testing.T) {
		counts := ringCounts([]int64{MaxWeight, 1, MaxWeight / 2}, MaxRingPoints)
		if want := []int64{MaxWeight * 64, 64, MaxWeight / 2 * 64}; !slices.Equal(counts, want) {
			t.Errorf("got %v, want %v", counts, want)
		}
		if counts := ringCounts([]int64{MaxWeight, 1}, 100); counts[1] != 100 {
			t.Errorf("got %v, want all points while there is room", counts)
		}
		many := slices.Repeat([]int64{MaxWeight}, 1000)
		if counts := ringCounts(append(many, 1), 1); counts[1000] != 1 {
			t.Errorf("got %d points for the lightest, want 1", counts[1000])
		}
	})
}

// arcs returns the part of the ring that each endpoint has.
func (s *stand) arcs() []float64 {
	arcs := make([]float64, s.Len())
	c := s.tiers[0].circle
	last := c.points.hashes[len(c.points.hashes)-1]
	for i, hash := range c.points.hashes {
		arcs[s.tiers[0].members[c.owners[i]].index] += float64(hash-last) / (1 << 64)
		last = hash
	}
	return arcs
}

func TestRingSlots(t *testing.T) {
	hashes := []uint64{5, 5, 1 << 40, 1<<63 - 1, 1 << 63, ^uint64(0) - 1}
	p, _ := newPoints(hashes, []int64{6})
	for _, tc := range []struct {
		key  uint64
		want int
	}{
		{0, 0},
		{5, 0},
		{6, 2},
		{1 << 40, 2},
		{1<<40 + 1, 3},
		{1<<63 - 1, 3},
		{1 << 63, 4},
		{1<<63 + 1, 5},
		{^uint64(0) - 1, 5},
		{^uint64(0), 0},
	} {
		if got := p.from(tc.key); got != tc.want {
			t.Errorf("key %#x: got point %d, want %d", tc.key, got, tc.want)
		}
	}
}
