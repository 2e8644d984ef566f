package balance

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
)

func TestMaglevShares(t *testing.T) {
	for _, tc := range []struct {
		name    string
		weights []int
		want    []int
	}{
		{"Z017_three_equal", []int{1, 1, 1}, []int{21845, 21846, 21846}},
		{"Z018_1_to_2", []int{1, 2}, []int{21846, 43691}},
		{"Z018_1_to_3", []int{1, 3}, []int{16385, 49152}},
		{"Z018_5_3_2", []int{5, 3, 2}, []int{32768, 19661, 13108}},
		{"Z018_1_to_100", []int{1, 100}, []int{649, 64888}},
		{"one", []int{7}, []int{65537}},
		{"largest to smallest", []int{65535, 1}, []int{65535, 2}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got := sharesOf(t, maglev, weighted(tc.weights...))
			if len(got) == 3 && tc.weights[0] == tc.weights[1] {
				slices.Sort(got)
			}
			if !slices.Equal(got, tc.want) {
				t.Errorf("got %v, want %v", got, tc.want)
			}
		})
	}
	t.Run("Z022_a_hundred_are_within_1_percent", func(t *testing.T) {
		shares := sharesOf(t, maglev, equal(100))
		within(t, "smallest share", float64(slices.Min(shares)), 655.37, 1)
		within(t, "largest share", float64(slices.Max(shares)), 655.37, 1)
	})
	t.Run("as many endpoints as slots", func(t *testing.T) {
		shares := sharesOf(t, Config{Policy: Maglev, TableSize: 101}, equal(101))
		if slices.Min(shares) != 1 || slices.Max(shares) != 1 {
			t.Errorf("got shares %v, want 1 each", shares)
		}
	})
}

// moved compares two tables: how many slots went from one endpoint to another although both are in both tables, and
// how many belong to key in the second.
func moved(before, after []string, key string) (survivors, ofKey int) {
	for i := range before {
		if after[i] == key {
			ofKey++
		} else if before[i] != after[i] && before[i] != key {
			survivors++
		}
	}
	return survivors, ofKey
}

func TestMaglevDisruption(t *testing.T) {
	rnd := rand.New(rand.NewPCG(5, 6))
	for _, n := range []int{2, 3, 5, 10, 32, 64, 100} {
		for set := range 3 {
			endpoints := equal(n + 1)
			for i := range endpoints {
				endpoints[i].Key = fmt.Sprintf("set%d-%d.example:%d", set, rnd.Int64N(1<<40), i)
			}
			with, extra := tableOf(t, maglev, endpoints), endpoints[n].Key
			without := tableOf(t, maglev, endpoints[:n])
			t.Run(fmt.Sprintf("Z020_remove_one_of_%d", n+1), func(t *testing.T) {
				survivors, left := moved(with, without, extra)
				if limit := len(with) / 100; survivors >= limit || left != 0 {
					t.Errorf("got %d slots of others moved and %d left with the one removed, want below %d and 0", survivors, left, limit)
				}
			})
			t.Run(fmt.Sprintf("Z021_add_one_to_%d", n), func(t *testing.T) {
				survivors, share := moved(without, with, extra)
				if limit := len(with) / 100; survivors >= limit {
					t.Errorf("got %d slots moved between others, want below %d", survivors, limit)
				}
				within(t, "share of the new one", float64(share), float64(len(with))/float64(n+1), 1)
			})
		}
	}
}
