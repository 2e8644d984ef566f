package balance

import "testing"

// TestSpill checks when a request goes to an endpoint in reserve: when all others were tried, and not when one is only full.
func TestSpill(t *testing.T) {
	allPolicies(t, func(t *testing.T, p Policy) {
		endpoints := weighted(1, 1, 1, 1, 1)
		for i, tier := range []int{0, 0, 3, 3, 255} {
			endpoints[i].Tier = tier
		}
		for _, tc := range []struct {
			name  string
			spill bool
			tried []int
			bars  [5]Bars
			want  []int
		}{
			{"nothing tried", true, nil, [5]Bars{2: Reserve, 3: Reserve, 4: Reserve}, []int{0, 1}},
			{"one left", true, []int{0}, [5]Bars{2: Reserve, 3: Reserve, 4: Reserve}, []int{1}},
			{"all tried", true, []int{0, 1}, [5]Bars{2: Reserve, 3: Reserve, 4: Reserve}, []int{2, 3}},
			{"all tried, no spill", false, []int{0, 1}, [5]Bars{2: Reserve, 3: Reserve, 4: Reserve}, []int{0, 1}},
			{"the next tier is out", true, []int{0, 1}, [5]Bars{2: Down, 3: Reserve | Draining, 4: Reserve}, []int{4}},
			{"the next tier is full", true, []int{0, 1}, [5]Bars{2: Reserve | Full, 3: Reserve | Full, 4: Reserve}, []int{4}},
			{"all tried, the reserve too", true, []int{0, 1, 2, 3, 4}, [5]Bars{2: Reserve, 3: Reserve, 4: Reserve}, []int{0, 1}},
			{"all tried, the reserve is out", true, []int{0, 1}, [5]Bars{2: Down, 3: Down, 4: Down}, []int{0, 1}},
			{"one is full", true, []int{0}, [5]Bars{1: Full, 2: Reserve, 3: Reserve, 4: Reserve}, []int{0}},
			{"one is down", true, []int{0}, [5]Bars{1: Down, 2: Reserve, 3: Reserve, 4: Reserve}, []int{2, 3}},
			{"tried and full", true, []int{0, 1}, [5]Bars{0: Full, 1: Full, 2: Reserve, 3: Reserve, 4: Reserve}, []int{2, 3}},
			{"others yield", true, nil, [5]Bars{0: Yielding, 1: Yielding, 2: Yielding, 4: Reserve}, []int{3}},
			{"others yield to one that was tried", true, []int{3}, [5]Bars{0: Yielding, 1: Yielding, 2: Yielding, 4: Reserve}, []int{0, 1}},
			{"others yield to a full one", true, nil, [5]Bars{0: Yielding, 1: Yielding, 2: Yielding, 3: Full, 4: Reserve}, []int{0, 1}},
			{"others yield, and all were tried", true, []int{0, 1, 2, 3}, [5]Bars{0: Yielding, 1: Yielding, 2: Yielding, 4: Reserve}, []int{4}},
			{"all are full", true, nil, [5]Bars{0: Full, 1: Full, 2: Reserve, 3: Reserve, 4: Reserve}, nil},
		} {
			t.Run(tc.name, func(t *testing.T) {
				s := newStand(t, Config{Policy: p}, endpoints)
				var tried []*Live
				for i, live := range s.lives {
					live.Unbar(^Bars(0))
					live.Bar(tc.bars[i])
				}
				for _, i := range tc.tried {
					tried = append(tried, s.lives[i])
				}
				checkSpill(t, s, Query{Tried: tried, Spill: tc.spill}, tc.want)
			})
		}
	})
}

// checkSpill picks often, by many keys and without one.
func checkSpill(t *testing.T, s *stand, q Query, want []int) {
	t.Helper()
	wanted := make(map[int]bool)
	for _, i := range want {
		wanted[i] = true
	}
	for n := range 64 {
		q.Seed, q.Key, q.HasKey = s.seeds.next(), s.seeds.next(), n%2 > 0
		i, ok := s.Pick(q)
		if ok != (len(want) > 0) || ok && !wanted[i] {
			t.Fatalf("got %d, %v, want one of %v", i, ok, want)
		}
		if ok {
			s.lives[i].Release()
		}
	}
}

// TestSpillAllocatesNothing checks a pick that has to look at the reserve.
func TestSpillAllocatesNothing(t *testing.T) {
	allPolicies(t, func(t *testing.T, p Policy) {
		endpoints := weighted(1, 1, 1)
		endpoints[2].Tier = 1
		s := newStand(t, Config{Policy: p}, endpoints)
		s.lives[2].Bar(Reserve)
		q := Query{Tried: s.lives[:2], Spill: true, HasKey: true}
		if n := testing.AllocsPerRun(100, func() { s.visit(t, q) }); n > 0 {
			t.Errorf("got %v allocations, want none", n)
		}
	})
}
