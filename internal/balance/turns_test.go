package balance

import (
	"strings"
	"testing"
)

// sequence returns the names of the endpoints picked.
func (s *stand) sequence(t testing.TB, n int) string {
	t.Helper()
	var names strings.Builder
	for range n {
		names.WriteString(s.name(s.visit(t, Query{})))
	}
	return names.String()
}

func TestRoundRobinSequences(t *testing.T) {
	for _, tc := range []struct {
		name    string
		weights []int
		want    string
	}{
		{"Z031_one_heavy", []int{5, 1, 1}, "aabacaa"},
		{"equal", []int{1, 1, 1}, "abc"},
		{"not reduced", []int{10, 2, 2}, "aabacaa"},
		{"three weights", []int{5, 3, 2}, "abcaabacba"},
		{"one", []int{3}, "a"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := newStand(t, Config{Policy: RoundRobin}, weighted(tc.weights...))
			if got, want := s.sequence(t, 3*len(tc.want)), strings.Repeat(tc.want, 3); got != want {
				t.Errorf("got %s, want %s", got, want)
			}
			for i, credit := range s.tiers[0].credits {
				if *credit != 0 {
					t.Errorf("%s: got a credit of %d after whole rounds, want 0", s.name(i), *credit)
				}
			}
		})
	}
	t.Run("each window of a round holds each endpoint as often as its weight", func(t *testing.T) {
		weights := []int{5, 1, 1, 4}
		names := newStand(t, Config{Policy: RoundRobin}, weighted(weights...)).sequence(t, 100)
		for at := range 100 - 11 {
			for i, w := range weights {
				if got := strings.Count(names[at:at+11], string(rune('a'+i))); got != w {
					t.Fatalf("window at %d: got %d of %c, want %d", at, got, 'a'+i, w)
				}
			}
		}
		if strings.Contains(names, "aaaaa") {
			t.Errorf("got five in a row: %s", names)
		}
	})
}

func TestRoundRobinAvailability(t *testing.T) {
	t.Run("Z032_first_down_leaves_the_others_their_proportion", func(t *testing.T) {
		s := newStand(t, Config{Policy: RoundRobin}, weighted(5, 3, 2))
		s.lives[0].Bar(Down)
		if got := s.counts(t, 500, Query{}); got[1] != 300 || got[2] != 200 {
			t.Errorf("got %v, want 0, 300, 200", got)
		}
	})
	t.Run("Z032_first_down_in_the_middle_of_a_round", func(t *testing.T) {
		for before := range 10 {
			s := newStand(t, Config{Policy: RoundRobin}, weighted(5, 3, 2))
			s.sequence(t, before)
			s.lives[0].Bar(Ejected)
			got := s.counts(t, 500, Query{})
			within(t, "second", float64(got[1]), 300, 1)
		}
	})
	t.Run("Z033_who_recovers_does_not_burst", func(t *testing.T) {
		for _, weights := range [][]int{{5, 1, 1}, {5, 3, 2}, {1, 1, 1}, {7, 2, 2, 1}, {3, 3, 2, 2, 1}, {1, 10}, {9, 8, 7, 1, 1, 1, 1}} {
			checkBursts(t, weights)
		}
	})
}

// checkBursts takes endpoints out at random times, up to all but one at once, and has one come back with whoever else
// is out. It must not be chosen more often in a row than its weight and 1, and no credit may exceed two rounds.
func checkBursts(t *testing.T, weights []int) {
	t.Helper()
	s := newStand(t, Config{Policy: RoundRobin}, weighted(weights...))
	var limit int64
	for _, w := range weights {
		limit += 2 * int64(w) * FullShare
	}
	for range 3000 {
		back := int(s.seeds.below(uint64(len(weights))))
		for i, live := range s.lives {
			if i == back || i != (back+1)%len(weights) && s.seeds.below(2) == 0 {
				live.Bar(Down)
				s.sequence(t, int(s.seeds.below(9)))
			}
		}
		for _, live := range s.lives {
			live.Unbar(Down)
		}
		names := s.sequence(t, int(s.seeds.below(30)))
		if strings.Contains(names, strings.Repeat(s.name(back), weights[back]+2)) {
			t.Fatalf("weights %v: got %s after %s came back", weights, names, s.name(back))
		}
		for i, credit := range s.tiers[0].credits {
			if max(*credit, -*credit) > limit {
				t.Fatalf("weights %v: got a credit of %d for %s, want %d at most", weights, *credit, s.name(i), limit)
			}
		}
	}
}

// TestRoundRobinGoesOn replaces the set in the middle of a round.
func TestRoundRobinGoesOn(t *testing.T) {
	c := Config{Policy: RoundRobin}
	t.Run("the same endpoints in another order", func(t *testing.T) {
		endpoints := weighted(5, 1, 1)
		s := newStand(t, c, endpoints)
		got := s.sequence(t, 3)
		fresh := []Endpoint{{endpoints[0].Key, 5, 0, new(Live)}, {endpoints[1].Key, 1, 0, new(Live)}, {endpoints[2].Key, 1, 0, new(Live)}}
		s = &stand{Set: mustNew(t, c, fresh, s.Set), lives: livesOf(fresh)}
		if got += s.sequence(t, 4); got != "aabacaa" {
			t.Errorf("got %s, want aabacaa", got)
		}
	})
	t.Run("a weight", func(t *testing.T) {
		endpoints := weighted(1, 1)
		s := newStand(t, c, endpoints)
		got := s.sequence(t, 1)
		endpoints[1].Weight = 2
		s.Set = mustNew(t, c, endpoints, s.Set)
		if got += s.sequence(t, 3); got != "abba" {
			t.Errorf("got %s, want abba", got)
		}
	})
	t.Run("a policy in between starts over", func(t *testing.T) {
		endpoints := weighted(5, 1, 1)
		s := newStand(t, c, endpoints)
		s.sequence(t, 2)
		s.Set = mustNew(t, c, endpoints, mustNew(t, Config{}, endpoints, s.Set))
		if got := s.sequence(t, 7); got != "aabacaa" {
			t.Errorf("got %s, want aabacaa", got)
		}
	})
	t.Run("credit neither leaves nor comes with endpoints", func(t *testing.T) {
		all := weighted(9, 4, 1, 1, 7)
		s := newStand(t, c, all)
		for range 1000 {
			var some []Endpoint
			for _, e := range all {
				if s.seeds.below(3) > 0 {
					some = append(some, e)
				}
			}
			s.Set = mustNew(t, c, some, s.Set)
			s.lives = livesOf(some)
			if len(some) == 0 {
				continue
			}
			s.sequence(t, int(s.seeds.below(30)))
			var sum int64
			for _, credit := range s.tiers[0].credits {
				sum += *credit
				if *credit > 22*FullShare || *credit < -22*FullShare {
					t.Fatalf("got a credit of %d", *credit)
				}
			}
			if sum != 0 {
				t.Fatalf("got credits that add up to %d, want 0", sum)
			}
		}
	})
}

// TestRoundRobinSavesOneRound has one that has waited for nearly a round join those who owe one: the next set takes what
// that leaves it beyond a round.
func TestRoundRobinSavesOneRound(t *testing.T) {
	const n = 10
	var all []Endpoint
	for i := range n * n {
		all = append(all, Endpoint{Key: endpoint(i, 1).Key, Weight: 1, Tier: i / n, Live: new(Live)})
	}
	s := newStand(t, Config{Policy: RoundRobin}, all)
	for range n - 1 {
		s.visit(t, Query{})
	}
	joined := []Endpoint{all[n-1]}
	for first := n; first < n*n; first += n {
		for _, live := range s.lives[first-n : first] {
			live.Bar(Down)
		}
		e := all[s.visit(t, Query{})]
		e.Tier = 0
		joined = append(joined, e)
	}
	const round = n * FullShare
	for _, most := range []int64{2 * round, round * 5 / 4} {
		s.Set = mustNew(t, Config{Policy: RoundRobin}, joined, s.Set)
		if got := *s.tiers[0].credits[0]; got < round || got > most {
			t.Errorf("got a credit of %d, want %d to %d", got, round, most)
		}
	}
}
