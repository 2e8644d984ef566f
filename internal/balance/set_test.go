package balance

import (
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"
)

func TestConfigErrors(t *testing.T) {
	for _, tc := range []struct {
		name   string
		config Config
		want   error
		says   string
	}{
		{"zero", Config{}, nil, ""},
		{"Z016_a_table_size_that_is_no_prime", Config{Policy: Maglev, TableSize: 65536}, ErrOption, "table_size 65536"},
		{"Z016_the_default_given", Config{Policy: Maglev, TableSize: 65537}, nil, ""},
		{"smallest table", Config{Policy: Maglev, TableSize: 2}, nil, ""},
		{"largest table", Config{Policy: Maglev, TableSize: MaxTableSize}, nil, ""},
		{"table too small", Config{Policy: Maglev, TableSize: 1}, ErrOption, "table_size 1"},
		{"table too large", Config{Policy: Maglev, TableSize: 5_000_077}, ErrOption, "table_size 5000077"},
		{"negative table", Config{Policy: Maglev, TableSize: -7}, ErrOption, "table_size -7"},
		{"square of a prime", Config{Policy: Maglev, TableSize: 49}, ErrOption, "want a prime"},
		{"table of another policy", Config{Policy: P2C, TableSize: 7}, ErrOption, "p2c does not have it"},
		{"points", Config{Policy: RingHash, RingPoints: MaxRingPoints}, nil, ""},
		{"too many points", Config{Policy: RingHash, RingPoints: MaxRingPoints + 1}, ErrOption, "ring_points 16385"},
		{"points of another policy", Config{Policy: Maglev, RingPoints: 1}, ErrOption, "ring_points 1"},
		{"factor", Config{Policy: Maglev, BalanceFactor: 100}, nil, ""},
		{"factor too low", Config{Policy: RingHash, BalanceFactor: 99}, ErrOption, "balance_factor 99"},
		{"factor of another policy", Config{Policy: Random, BalanceFactor: 125}, ErrOption, "balance_factor 125"},
		{"no such policy", Config{Policy: 7}, ErrPolicy, "policy 7"},
	} {
		t.Run(tc.name, func(t *testing.T) { checkError(t, tc.config.Validate(), tc.want, tc.says) })
	}
}

func checkError(t *testing.T, err, want error, says string) {
	t.Helper()
	if !errors.Is(err, want) || err != nil && !strings.Contains(err.Error(), says) {
		t.Errorf("got %v, want %v that says %q", err, want, says)
	}
}

func TestEndpointErrors(t *testing.T) {
	live := func() *Live { return new(Live) }
	maglev := Config{Policy: Maglev, TableSize: 2}
	for _, tc := range []struct {
		name      string
		config    Config
		endpoints []Endpoint
		want      error
		says      string
	}{
		{"Z016_more_endpoints_than_slots", maglev, equal(3), ErrEndpoint, "3 endpoints"},
		{"Z016_as_many_endpoints_as_slots", maglev, equal(2), nil, ""},
		{"Z027_duplicate_key", Config{Policy: Maglev}, []Endpoint{{"a", 1, 0, live()}, {"b", 1, 0, live()}, {"a", 1, 1, live()}}, ErrEndpoint, `endpoints[2].key "a"`},
		{"Z034_no_weight", Config{Policy: RoundRobin}, []Endpoint{{"a", 1, 0, live()}, {"b", 0, 0, live()}}, ErrEndpoint, "endpoints[1].weight 0"},
		{"Z034_negative_weight", Config{}, []Endpoint{{"a", -1, 0, live()}}, ErrEndpoint, "endpoints[0].weight -1"},
		{"largest weight", Config{}, []Endpoint{{"a", maxFoundWeight, 0, live()}}, nil, ""},
		{"weight too large", Config{}, []Endpoint{{"a", maxFoundWeight + 1, 0, live()}}, ErrEndpoint, "endpoints[0].weight 1048577"},
		{"no key", Config{}, []Endpoint{{"", 1, 0, live()}}, ErrEndpoint, "endpoints[0].key"},
		{"negative tier", Config{}, []Endpoint{{"a", 1, -1, live()}}, ErrEndpoint, "endpoints[0].tier -1"},
		{"no state", Config{}, []Endpoint{{"a", 1, 0, nil}}, ErrEndpoint, "endpoints[0]"},
		{"invalid config", Config{Policy: 99}, nil, ErrPolicy, "99"},
		{"most endpoints", Config{}, equal(MaxEndpoints), nil, ""},
		{"too many endpoints", Config{}, equal(MaxEndpoints + 1), ErrEndpoint, "65536 endpoints"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			_, err := New(tc.config, tc.endpoints, nil)
			checkError(t, err, tc.want, tc.says)
		})
	}
}

func TestPolicyText(t *testing.T) {
	allPolicies(t, func(t *testing.T, p Policy) {
		text, err := json.Marshal(Config{Policy: p})
		if err != nil {
			t.Fatal(err)
		}
		want := `{"policy":"` + p.String() + `"}`
		if p == P2C {
			want = `{}`
		}
		var got Config
		if err := json.Unmarshal(text, &got); err != nil || got.Policy != p || string(text) != want {
			t.Errorf("got %v, %v from %s, want %s", got.Policy, err, text, want)
		}
		if parsed, err := ParsePolicy(p.String()); parsed != p || err != nil {
			t.Errorf("got %v, %v", parsed, err)
		}
	})
	for _, name := range []string{"", "P2C", "roundrobin", "maglev "} {
		if p, err := ParsePolicy(name); !errors.Is(err, ErrPolicy) {
			t.Errorf("%q: got %v, %v, want %v", name, p, err, ErrPolicy)
		}
	}
	p := First
	if err := p.UnmarshalText(nil); p != P2C || err != nil {
		t.Errorf("got %v, %v from no text, want the default", p, err)
	}
	if _, err := Policy(7).MarshalText(); !errors.Is(err, ErrPolicy) {
		t.Errorf("got %v from policy 7, want %v", err, ErrPolicy)
	}
	if got := Policy(7).String(); got != "policy(7)" {
		t.Errorf("got %q", got)
	}
	if RoundRobin.Keyed() || !RingHash.Keyed() || Maglev.Ramps() || First.Ramps() || !LeastConnections.Ramps() {
		t.Error("got the wrong policies as keyed or ramping")
	}
}

func TestCoarse(t *testing.T) {
	for _, tc := range []struct {
		config Config
		n      int
		want   bool
	}{
		{Config{Policy: Maglev}, 655, false},
		{Config{Policy: Maglev}, 656, true},
		{Config{Policy: Maglev, TableSize: 101}, 1, false},
		{Config{Policy: Maglev, TableSize: 101}, 2, true},
		{Config{Policy: RingHash}, 10_000, false},
	} {
		if got := tc.config.Coarse(tc.n); got != tc.want {
			t.Errorf("%+v, %d endpoints: got %v, want %v", tc.config, tc.n, got, tc.want)
		}
	}
}

func TestTried(t *testing.T) {
	allPolicies(t, func(t *testing.T, p Policy) {
		s := newStand(t, Config{Policy: p}, equal(3))
		a, b := s.lives[0], s.lives[1]
		q := keyed("k", a, b)
		t.Run("Z015_never_again_while_another_is_available", func(t *testing.T) {
			if got := s.counts(t, 100, q); got[2] != 100 {
				t.Errorf("got %v, want all on the third", got)
			}
		})
		s.lives[2].Bar(Down)
		t.Run("Z015_before_one_that_is_down", func(t *testing.T) {
			if got := s.counts(t, 100, q); got[2] != 0 {
				t.Errorf("got %v, want none on the third", got)
			}
		})
		b.Bar(Draining)
		t.Run("Z015_the_only_one_again", func(t *testing.T) {
			if got := s.counts(t, 100, q); got[0] != 100 {
				t.Errorf("got %v, want all on the first", got)
			}
		})
		t.Run("not_one_without_room", func(t *testing.T) {
			q := keyed("k", b, a)
			q.Without = 1
			if i, ok := s.Pick(q); ok {
				t.Errorf("got %d, want none", i)
			}
		})
		if !slices.Equal(q.Tried, []*Live{a, b}) {
			t.Error("the list of tried endpoints was changed")
		}
	})
}

func TestTiers(t *testing.T) {
	allPolicies(t, func(t *testing.T, p Policy) {
		endpoints := equal(6)
		for i, tier := range []int{9, 0, 1, 0, 1, 0} {
			endpoints[i].Tier = tier
		}
		s := newStand(t, Config{Policy: p}, endpoints)
		check := func(q Query, want ...int) {
			t.Helper()
			for i, n := range s.counts(t, 300, q) {
				if n > 0 && !slices.Contains(want, i) {
					t.Errorf("got endpoint %d, want one of %v", i, want)
				}
			}
		}
		check(keyed("k"), 1, 3, 5)
		check(keyed("k", s.lives[1], s.lives[3], s.lives[5]), 2, 4)
		for _, i := range []int{1, 3, 5} {
			s.lives[i].Bar(Full)
		}
		check(keyed("k"), 2, 4)
		s.lives[3].Unbar(Full)
		check(keyed("k"), 3)
		s.lives[3].Bar(Down)
		s.lives[2].Bar(Ejected)
		s.lives[4].Bar(Draining)
		check(keyed("k"), 0)
		check(Query{Ignore: Health, Key: 7, HasKey: true}, 3)
		s.lives[0].Bar(Full)
		if i, ok := s.Pick(Query{}); ok {
			t.Errorf("got %d, want none", i)
		}
	})
}

func TestLive(t *testing.T) {
	var l Live
	if l.Bars() != 0 || l.Load() != 0 || l.Share() != FullShare {
		t.Errorf("got bars %v, load %v, share %v of the zero value", l.Bars(), l.Load(), l.Share())
	}
	l.Bar(Down | Full)
	l.Bar(Down)
	l.Unbar(Down | Ejected)
	if got := l.Bars(); got != Full {
		t.Errorf("got bars %b, want %b", got, Full)
	}
}

// TestPickCounts has every policy count its pick at once.
func TestPickCounts(t *testing.T) {
	allPolicies(t, func(t *testing.T, p Policy) {
		s := newStand(t, Config{Policy: p}, equal(4))
		before := make([]int64, 4)
		for n := range 50 {
			i := s.place(t, keyed(string(rune(n))))
			before[i]++
			for j, live := range s.lives {
				if live.Load() != before[j] {
					t.Fatalf("pick %d of %d: got a load of %d for %d, want %d", n, i, live.Load(), j, before[j])
				}
			}
		}
	})
}

func TestPickAllocatesNothing(t *testing.T) {
	allPolicies(t, func(t *testing.T, p Policy) {
		t.Run("Z135_allocations", func(t *testing.T) {
			endpoints := equal(100)
			endpoints[99].Tier = 1
			s := newStand(t, Config{Policy: p}, endpoints)
			for _, live := range s.lives[:90] {
				live.Bar(Down)
			}
			q := keyed("k", s.lives[95])
			if got := testing.AllocsPerRun(1000, func() { s.visit(t, q) }); got != 0 {
				t.Errorf("got %v allocations, want 0", got)
			}
		})
	})
}
