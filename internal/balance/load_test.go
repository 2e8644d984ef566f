package balance

import (
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
)

func TestP2CLoads(t *testing.T) {
	for _, tc := range []struct {
		name  string
		loads []int64
		picks int
		want  []float64 // percent
		tol   float64
	}{
		{"Z001_two_endpoints_the_lighter_always", []int64{5, 3}, 10_000, []float64{0, 100}, 0},
		{"Z001_two_endpoints_the_order_is_nothing", []int64{3, 5}, 10_000, []float64{100, 0}, 0},
		{"Z003_four_ranks", []int64{0, 1, 2, 3}, 60_000, []float64{50, 100. / 3, 100. / 6, 0}, 1.5},
		{"Z003_four_ranks_descending", []int64{3, 2, 1, 0}, 60_000, []float64{0, 100. / 6, 100. / 3, 50}, 1.5},
		{"Z004_ties", []int64{0, 0, 0, 0}, 10_000, []float64{25, 25, 25, 25}, 2.17},
		{"Z004_ties_under_load", []int64{7, 7, 7, 7}, 10_000, []float64{25, 25, 25, 25}, 2.17},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := newStand(t, Config{}, equal(len(tc.loads)))
			s.setLoads(tc.loads...)
			for i, n := range s.counts(t, tc.picks, Query{}) {
				within(t, s.name(i), 100*float64(n)/float64(tc.picks), tc.want[i], tc.tol)
			}
		})
	}
}

// TestP2CStates has random states, with tried endpoints among them: whoever is chosen is available and untried if any
// such endpoint exists.
func TestP2CStates(t *testing.T) {
	t.Run("Z005_never_an_unavailable_one_while_one_is_available", func(t *testing.T) {
		s := newStand(t, Config{}, weighted(1, 1, 5, 100, 1, 2))
		for range 100_000 {
			state, tried := s.seeds.next(), s.seeds.next()
			q := Query{}
			fresh := false
			for i, live := range s.lives {
				live.Unbar(^Bars(0))
				live.Bar(Bars(state >> (4 * i) & 15))
				if tried>>i&3 == 3 {
					q.Tried = append(q.Tried, live)
				}
			}
			for _, live := range s.lives {
				fresh = fresh || live.Bars() == 0 && !slices.Contains(q.Tried, live)
			}
			q.Seed = s.seeds.next()
			i, ok := s.Pick(q)
			if !ok {
				if slices.ContainsFunc(s.lives, func(l *Live) bool { return l.Bars() == 0 }) {
					t.Fatalf("states %x: got no pick", state)
				}
				continue
			}
			if s.lives[i].Bars() != 0 || fresh && slices.Contains(q.Tried, s.lives[i]) {
				t.Fatalf("states %x, tried %x: got %d", state, tried, i)
			}
		}
	})
	t.Run("Z006_one_available_of_ten", func(t *testing.T) {
		s := newStand(t, Config{}, equal(10))
		for i, live := range s.lives {
			if i != 7 {
				live.Bar(Down)
			}
		}
		if got := s.counts(t, 1000, Query{}); got[7] != 1000 {
			t.Errorf("got %v, want all on 7", got)
		}
	})
	t.Run("Z007_fail_open_takes_the_lighter_of_two", func(t *testing.T) {
		s := newStand(t, Config{}, equal(2))
		s.setLoads(5, 3)
		s.lives[0].Bar(Down)
		s.lives[1].Bar(Ejected)
		if i, ok := s.Pick(Query{}); ok {
			t.Errorf("got %d, want none while health counts", i)
		}
		if got := s.counts(t, 1000, Query{Ignore: Health}); got[1] != 1000 {
			t.Errorf("got %v, want all on 1", got)
		}
	})
	t.Run("Z008_empty_pool", func(t *testing.T) {
		if i, ok := mustNew(t, Config{}, nil, nil).Pick(Query{Ignore: Health}); ok {
			t.Errorf("got %d of an empty set", i)
		}
	})
	t.Run("Z008_single_endpoint_down", func(t *testing.T) {
		s := newStand(t, Config{}, equal(1))
		s.lives[0].Bar(Down)
		if got := s.visit(t, Query{Ignore: Health}); got != 0 {
			t.Errorf("got %d, want 0", got)
		}
	})
}

func TestP2CWeights(t *testing.T) {
	t.Run("Z009_one_heavy_among_nine", func(t *testing.T) {
		s := newStand(t, Config{}, weighted(100, 1, 1, 1, 1, 1, 1, 1, 1, 1))
		within(t, "heavy share", float64(s.counts(t, 20_000, Query{})[0])/200, 91.74, 1.5)
	})
	t.Run("Z010_idle", func(t *testing.T) {
		s := newStand(t, Config{}, weighted(3, 1))
		within(t, "heavy share", float64(s.counts(t, 20_000, Query{})[0])/200, 75, 1.5)
	})
	t.Run("Z010_under_load", func(t *testing.T) {
		s := newStand(t, Config{}, weighted(3, 1, 3, 1))
		var held []int
		sum := make([]float64, 4)
		for step := range 40_000 {
			if len(held) == 400 {
				at := s.seeds.below(400)
				s.lives[held[at]].Release()
				held[at] = held[399]
				held = held[:399]
			}
			held = append(held, s.place(t, Query{}))
			for i := range sum {
				if step >= 4000 {
					sum[i] += float64(s.lives[i].Load())
				}
			}
		}
		within(t, "ratio of loads", (sum[0]+sum[2])/(sum[1]+sum[3]), 3, 0.3)
	})
}

func TestP2CMaxLoad(t *testing.T) {
	// most returns the median and the largest, over seeds, of the load that the fullest of n endpoints has.
	most := func(t *testing.T, p Policy, n, placements, seeds int) (median, worst int64) {
		t.Helper()
		var all []int64
		for seed := range seeds {
			s := newStand(t, Config{Policy: p}, equal(n))
			s.seeds = draws(seed)
			for range placements {
				s.place(t, Query{})
			}
			load := int64(0)
			for _, live := range s.lives {
				load = max(load, live.Load())
			}
			all = append(all, load)
		}
		slices.Sort(all)
		return all[len(all)/2], all[len(all)-1]
	}
	t.Run("Z011_a_thousand_placements", func(t *testing.T) {
		median, worst := most(t, P2C, 1000, 1000, 50)
		if worst > 4 {
			t.Errorf("got %d on one endpoint, want 4 at most", worst)
		}
		if random, _ := most(t, Random, 1000, 1000, 50); random <= median {
			t.Errorf("got a median of %d for random, want more than p2c's %d", random, median)
		}
	})
	t.Run("Z012_a_thousand_for_each", func(t *testing.T) {
		if _, worst := most(t, P2C, 100, 100_000, 5); worst > 1004 {
			t.Errorf("got %d above the mean, want 4 at most", worst-1000)
		}
	})
}

func TestConcurrentPicks(t *testing.T) {
	t.Run("Z013_loads_return_to_0", func(t *testing.T) {
		allPolicies(t, func(t *testing.T, p Policy) {
			endpoints := weighted(1, 2, 3, 1)
			s := newStand(t, Config{Policy: p}, endpoints)
			var current atomic.Pointer[Set]
			current.Store(s.Set)
			var done sync.WaitGroup
			for worker := range 64 {
				done.Go(func() { s.churn(t, &current, worker) })
			}
			for round := range 50 {
				endpoints[round%4].Weight = 1 + round%3
				current.Store(mustNew(t, Config{Policy: p}, endpoints, current.Load()))
			}
			done.Wait()
			for i, live := range s.lives {
				if live.Load() != 0 {
					t.Errorf("%s: got a load of %d, want 0", s.name(i), live.Load())
				}
			}
		})
	})
	t.Run("Z014_two_at_once_get_one_each", func(t *testing.T) {
		for _, p := range []Policy{P2C, LeastConnections} {
			for round := range 2000 {
				s := newStand(t, Config{Policy: p}, equal(2))
				var both sync.WaitGroup
				for n := range uint64(2) {
					both.Go(func() { s.Pick(Query{Seed: uint64(round)<<1 | n}) })
				}
				both.Wait()
				if s.lives[0].Load() != 1 || s.lives[1].Load() != 1 {
					t.Fatalf("%v, round %d: got loads %d and %d", p, round, s.lives[0].Load(), s.lives[1].Load())
				}
			}
		}
	})
}

// churn picks and releases many times, and takes an endpoint out and back in between.
func (s *stand) churn(t *testing.T, current *atomic.Pointer[Set], worker int) {
	d := draws(worker)
	for n := range churns {
		q := Query{Seed: d.next(), Key: d.next(), HasKey: n%8 != 0}
		i, ok := current.Load().Pick(q)
		if !ok {
			t.Error("got no pick")
			return
		}
		if n%100 == 0 && i != 0 {
			s.lives[i].Bar(Down)
			s.lives[i].SetShare(n % 1000)
			s.lives[i].Unbar(Down)
		}
		s.lives[i].Release()
	}
}

// TestClaim has another pick take the endpoint between the look and the claim.
func TestClaim(t *testing.T) {
	m := member{live: new(Live)}
	for i, step := range []struct {
		seen int64
		sure bool
		want bool
		load int64
	}{{0, false, true, 1}, {0, false, false, 1}, {1, false, true, 2}, {0, true, true, 3}} {
		if got := m.claim(step.seen, step.sure); got != step.want || m.live.Load() != step.load {
			t.Fatalf("step %d: got %v and a load of %d, want %+v", i, got, m.live.Load(), step)
		}
	}
}

func TestRandom(t *testing.T) {
	t.Run("equal", func(t *testing.T) {
		got := newStand(t, Config{Policy: Random}, equal(4)).counts(t, 10_000, Query{})
		for _, n := range got {
			within(t, "picks", float64(n), 2500, 217)
		}
		if x := chiSquare(got, []float64{2500, 2500, 2500, 2500}); x > 30.66 { // p = 1e-6 at 3 degrees of freedom
			t.Errorf("got chi square %v for %v", x, got)
		}
	})
	t.Run("weighted", func(t *testing.T) {
		got := newStand(t, Config{Policy: Random}, weighted(1, 2, 3, 4)).counts(t, 10_000, Query{})
		if x := chiSquare(got, []float64{1000, 2000, 3000, 4000}); x > 30.66 {
			t.Errorf("got chi square %v for %v", x, got)
		}
	})
	t.Run("only weights relative to each other count", func(t *testing.T) {
		a, b := newStand(t, Config{Policy: Random}, weighted(1, 3)), newStand(t, Config{Policy: Random}, weighted(2, 6))
		for n := range 1000 {
			if i, j := a.visit(t, Query{}), b.visit(t, Query{}); i != j {
				t.Fatalf("pick %d: got %d and %d", n, i, j)
			}
		}
	})
	t.Run("one down", func(t *testing.T) {
		s := newStand(t, Config{Policy: Random}, weighted(5, 3, 2))
		s.lives[0].Bar(Down)
		got := s.counts(t, 10_000, Query{})
		within(t, "share of the second", float64(got[1])/100, 60, 2.5)
	})
}

func chiSquare(got []int, want []float64) (sum float64) {
	for i, n := range got {
		sum += math.Pow(float64(n)-want[i], 2) / want[i]
	}
	return sum
}

func TestLeastConnections(t *testing.T) {
	for _, tc := range []struct {
		name    string
		weights []int
		want    []float64
		tol     float64
	}{
		{"Z035_equal", []int{1, 1, 1, 1}, []float64{100, 100, 100, 100}, 0},
		{"Z035_weighted", []int{2, 1}, []float64{267, 133}, 1},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := newStand(t, Config{Policy: LeastConnections}, weighted(tc.weights...))
			for range 400 {
				s.place(t, Query{})
			}
			for i, live := range s.lives {
				within(t, s.name(i), float64(live.Load()), tc.want[i], tc.tol)
			}
		})
	}
	t.Run("ties are drawn by weight", func(t *testing.T) {
		s := newStand(t, Config{Policy: LeastConnections}, weighted(1, 1, 2, 9))
		s.setLoads(1, 1, 2, 10)
		got := s.counts(t, 10_000, Query{})
		if x := chiSquare(got[:3], []float64{2500, 2500, 5000}); x > 27.6 || got[3] != 0 { // p = 1e-6 at 2 degrees
			t.Errorf("got %v, want 1:1:2 and none for the last", got)
		}
	})
	t.Run("the fullest is never more than one above the emptiest", func(t *testing.T) {
		s := newStand(t, Config{Policy: LeastConnections}, equal(7))
		for range 1000 {
			s.place(t, Query{})
			low, high := s.lives[0].Load(), s.lives[0].Load()
			for _, live := range s.lives {
				low, high = min(low, live.Load()), max(high, live.Load())
			}
			if high-low > 1 {
				t.Fatalf("got loads from %d to %d", low, high)
			}
		}
	})
}

func TestFirst(t *testing.T) {
	s := newStand(t, Config{Policy: First}, weighted(1, 9, 1))
	for i, want := range []int{0, 1, 2} {
		if got := s.visit(t, Query{}); got != want {
			t.Errorf("got %d with %d down, want %d", got, i, want)
		}
		s.lives[i].Bar(Draining)
	}
	if i, ok := s.Pick(Query{Ignore: Health}); ok {
		t.Errorf("got %d, want none: fail open doesn't end a drain", i)
	}
}

// TestLeastShare has the one that is drawn as often as all others held to the least share: it gets a thousandth.
func TestLeastShare(t *testing.T) {
	all := equal(1 + maxDraws)
	all[0].Weight = maxDraws
	s := newStand(t, Config{Policy: Random}, all)
	s.lives[0].SetShare(1)
	within(t, "held back", float64(s.counts(t, 200_000, Query{})[0]), 200, 60)
}

// TestShares has an endpoint of weight 2 held to a part of its weight, as a slow start does.
func TestShares(t *testing.T) {
	for _, p := range []Policy{P2C, Random, LeastConnections, RoundRobin} {
		for _, tc := range []struct {
			share int
			want  float64 // percent
		}{
			{100, 100 * 0.2 / 1.2},
			{500, 50},
			{FullShare, 100 * 2. / 3},
		} {
			s := newStand(t, Config{Policy: p}, weighted(2, 1))
			s.lives[0].SetShare(tc.share)
			within(t, p.String(), float64(s.counts(t, 20_000, Query{})[0])/200, tc.want, 1.5)
		}
	}
	for _, tc := range []struct{ set, want int }{{-5, 1}, {0, 1}, {1, 1}, {999, 999}, {1000, 1000}, {1001, 1000}} {
		var live Live
		live.SetShare(tc.set)
		if got := live.Share(); got != tc.want {
			t.Errorf("share %d: got %d, want %d", tc.set, got, tc.want)
		}
	}
}

func TestReplay(t *testing.T) {
	t.Run("Z037_the_same_seeds_give_the_same_picks", func(t *testing.T) {
		for _, p := range []Policy{P2C, Random, LeastConnections} {
			var runs [3][]int
			for n := range runs {
				s := newStand(t, Config{Policy: p}, weighted(1, 2, 3, 4, 5))
				s.seeds = draws(7 + n/2)
				for range 200 {
					runs[n] = append(runs[n], s.place(t, Query{}))
				}
			}
			if !slices.Equal(runs[0], runs[1]) {
				t.Errorf("%v: got different picks from the same seeds", p)
			}
			if slices.Equal(runs[0], runs[2]) {
				t.Errorf("%v: got the same picks from different seeds", p)
			}
		}
	})
}

// name returns what a test calls an endpoint.
func (s *stand) name(i int) string { return string(rune('a' + i)) }
