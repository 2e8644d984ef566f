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
		{"three weights", []int{5, 3, 2}, "abcabacaba"},
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
		for _, weights := range [][]int{{5, 1, 1}, {5, 3, 2}, {1, 1, 1}, {7, 2, 2, 1}, {3, 3, 2, 2, 1}, {1, 10}} {
			s := newStand(t, Config{Policy: RoundRobin}, weighted(weights...))
			for range 20_000 {
				flap := s.seeds.below(uint64(len(weights)))
				s.lives[flap].Bar(Down)
				s.sequence(t, int(s.seeds.below(9)))
				s.lives[flap].Unbar(Down)
				names := s.sequence(t, int(s.seeds.below(20)))
				name := s.name(int(flap))
				if burst := strings.Repeat(name, weights[flap]+2); strings.Contains(names, burst) {
					t.Fatalf("weights %v: got %s after %s recovered", weights, names, name)
				}
			}
		}
	})
}
