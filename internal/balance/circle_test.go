package balance

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/cespare/xxhash/v2"
)

var maglev = Config{Policy: Maglev}

// slotsOf returns the slots of the table by key of the owner.
func slotsOf(s *Set, endpoints []Endpoint) []string {
	t := s.tiers[0]
	slots := make([]string, len(t.circle.owners))
	for i, owner := range t.circle.owners {
		slots[i] = endpoints[t.members[owner].index].Key
	}
	return slots
}

// tableOf returns the slots of a table made of the endpoints.
func tableOf(t testing.TB, c Config, endpoints []Endpoint) []string {
	t.Helper()
	return slotsOf(mustNew(t, c, endpoints, nil), endpoints)
}

// sharesOf returns how many slots each endpoint has.
func sharesOf(t testing.TB, c Config, endpoints []Endpoint) []int {
	t.Helper()
	byKey := make(map[string]int)
	for _, key := range tableOf(t, c, endpoints) {
		byKey[key]++
	}
	shares := make([]int, len(endpoints))
	for i, e := range endpoints {
		shares[i] = byKey[e.Key]
	}
	return shares
}

// TestTablesAgree has the tables that any machine makes: the hashes were taken once and are the same for ever.
func TestTablesAgree(t *testing.T) {
	for _, tc := range []struct {
		name   string
		config Config
		want   uint64
	}{
		{"Z019_maglev", maglev, 0x9b2ef32823fdc75f},
		{"Z019_ring_hash", Config{Policy: RingHash}, 0x96d68a0cd30931ac},
	} {
		t.Run(tc.name, func(t *testing.T) {
			endpoints := weighted(5, 1, 1, 3, 2, 2, 8)
			table := tableOf(t, tc.config, endpoints)
			rnd := rand.New(rand.NewPCG(3, 4))
			for range 5 {
				rnd.Shuffle(len(endpoints), func(i, j int) { endpoints[i], endpoints[j] = endpoints[j], endpoints[i] })
				if !slices.Equal(tableOf(t, tc.config, endpoints), table) {
					t.Fatal("got another table from another order")
				}
			}
			sum := xxhash.New()
			for _, owner := range mustNew(t, tc.config, endpoints, nil).tiers[0].circle.owners {
				_, _ = sum.Write(binary.LittleEndian.AppendUint16(nil, owner))
			}
			if got := sum.Sum64(); got != tc.want {
				t.Errorf("got a table with hash %#x, want %#x", got, tc.want)
			}
		})
	}
	if got := HashKey("192.0.2.7"); got != 0xd86f3950d7e3174f {
		t.Errorf("got %#x as the hash of a key", got)
	}
}

// homes returns the endpoint of each of n keys.
func (s *stand) homes(t testing.TB, n int, tried ...*Live) []int {
	t.Helper()
	homes := make([]int, n)
	for i := range homes {
		homes[i] = s.visit(t, keyed(fmt.Sprint("key", i), tried...))
	}
	return homes
}

func TestStandIns(t *testing.T) {
	for _, c := range []Config{maglev, {Policy: RingHash}} {
		t.Run(c.Policy.String(), func(t *testing.T) {
			s := newStand(t, c, equal(5))
			homes := s.homes(t, 1000)
			t.Run("Z023_home_down_and_back", func(t *testing.T) {
				s.lives[2].Bar(Down)
				away, again := s.homes(t, 1000), s.homes(t, 1000)
				s.lives[2].Unbar(Down)
				if !slices.Equal(away, again) {
					t.Error("got other stand-ins the second time")
				}
				standIns := make(map[int]bool)
				for i := range homes {
					if homes[i] != 2 && away[i] != homes[i] {
						t.Fatalf("key %d: got %d, want its home %d", i, away[i], homes[i])
					}
					if homes[i] == 2 {
						standIns[away[i]] = true
					}
				}
				if len(standIns) != 4 || standIns[2] {
					t.Errorf("got stand-ins %v, want the four others", standIns)
				}
				if !slices.Equal(s.homes(t, 1000), homes) {
					t.Error("got other homes after the recovery")
				}
			})
			t.Run("Z024_retries_walk_on", func(t *testing.T) {
				for i := range 200 {
					s.checkWalk(t, fmt.Sprint("key", i), homes[i])
				}
			})
			t.Run("Z025_all_down", func(t *testing.T) {
				for _, live := range s.lives {
					live.Bar(Down)
				}
				if i, ok := s.Pick(keyed("k")); ok {
					t.Errorf("got %d, want none while health counts", i)
				}
				for i, home := range homes {
					q := keyed(fmt.Sprint("key", i))
					q.Ignore = Health
					if got := s.visit(t, q); got != home {
						t.Fatalf("key %d: got %d failing open, want its home %d", i, got, home)
					}
				}
			})
		})
	}
}

// checkWalk tries one endpoint after the other and compares with a walk over the owners by hand.
func (s *stand) checkWalk(t *testing.T, key string, home int) {
	t.Helper()
	circle := s.tiers[0].circle
	var want []int
	for n, at := 0, circle.slot(HashKey(key)); n < len(circle.owners); n, at = n+1, (at+1)%len(circle.owners) {
		if i := s.tiers[0].members[circle.owners[at]].index; !slices.Contains(want, i) {
			want = append(want, i)
		}
	}
	var got []int
	var tried []*Live
	for range s.lives {
		i := s.visit(t, keyed(key, tried...))
		got, tried = append(got, i), append(tried, s.lives[i])
	}
	if !slices.Equal(got, want) || got[0] != home {
		t.Fatalf("%s: got %v, want %v", key, got, want)
	}
	if i := s.visit(t, keyed(key, tried...)); i != home {
		t.Fatalf("%s: got %d when all are tried, want the home %d", key, i, home)
	}
}

// TestSmallCircles has circles so small that walks pass their end.
func TestSmallCircles(t *testing.T) {
	for _, c := range []Config{{Policy: Maglev, TableSize: 5}, {Policy: Maglev, TableSize: 7}, {Policy: RingHash, RingPoints: 1}} {
		s := newStand(t, c, equal(5))
		for i, home := range s.homes(t, 100) {
			s.checkWalk(t, fmt.Sprint("key", i), home)
		}
	}
}

func TestWithoutKey(t *testing.T) {
	t.Run("Z026_no_key_is_p2c", func(t *testing.T) {
		for _, c := range []Config{maglev, {Policy: RingHash}} {
			s := newStand(t, c, weighted(1, 1, 1, 1))
			s.setLoads(0, 1, 2, 3)
			got := s.counts(t, 12_000, Query{Key: 12345})
			within(t, "lightest", float64(got[0]), 6000, 180)
			within(t, "heaviest", float64(got[3]), 0, 0)
			if got := s.counts(t, 100, keyed("")); slices.Max(got) != 100 {
				t.Errorf("got %v for an empty key, want all on one", got)
			}
		}
	})
}

func TestTableIsKept(t *testing.T) {
	for _, c := range []Config{maglev, {Policy: RingHash}} {
		t.Run("Z028_"+c.Policy.String(), func(t *testing.T) {
			first := equal(10)
			s := mustNew(t, c, first, nil)
			second := equal(10)
			slices.Reverse(second)
			same := mustNew(t, c, second, s)
			if same.tiers[0].circle != s.tiers[0].circle {
				t.Error("got a new table of the same endpoints")
			}
			i, _ := s.Pick(keyed("k"))
			j, _ := same.Pick(keyed("k"))
			if first[i].Key != second[j].Key || second[j].Live.Load() != 1 {
				t.Errorf("got %s and %s, load %d", first[i].Key, second[j].Key, second[j].Live.Load())
			}
			renamed := slices.Clone(second)
			renamed[3].Key = "another"
			if mustNew(t, c, renamed, same).tiers[0].circle == s.tiers[0].circle {
				t.Error("got a kept table with another key")
			}
			second[0].Weight = 2
			heavier := mustNew(t, c, second, same)
			other := c
			other.BalanceFactor = 125
			bounded := mustNew(t, other, second, heavier)
			if heavier.tiers[0].circle == s.tiers[0].circle || bounded.tiers[0].circle != heavier.tiers[0].circle {
				t.Error("got a kept table with other weights, or a new one with another factor")
			}
			other.TableSize, other.RingPoints = 0, 0
			if c.Policy == Maglev {
				other.TableSize = 101
			} else {
				other.RingPoints = 10
			}
			if mustNew(t, other, second, bounded).tiers[0].circle == bounded.tiers[0].circle {
				t.Error("got a kept table with another size")
			}
		})
	}
}

func TestBoundedLoad(t *testing.T) {
	for _, p := range []Policy{Maglev, RingHash} {
		t.Run("Z036_one_hot_key_"+p.String(), func(t *testing.T) {
			s := newStand(t, Config{Policy: p, BalanceFactor: 125}, weighted(1, 1, 2, 1, 1, 1, 3))
			for n := range 2000 {
				s.place(t, keyed("hot"))
				for i, live := range s.lives {
					mean := float64(n+1) * float64(s.tiers[0].weightOf(i)) / 10
					if float64(live.Load()) > 1.25*mean+1 {
						t.Fatalf("pick %d: got a load of %d on %s, want 1.25 times %v, and 1, at most", n, live.Load(), s.name(i), mean)
					}
				}
			}
		})
		t.Run(p.String(), func(t *testing.T) { checkBound(t, Config{Policy: p}) })
	}
}

// checkBound has four endpoints and a factor of 125 %. With a load of 6 in all, a load of 2 leaves room: the bound is
// 1.25 * 7 / 4.
func checkBound(t *testing.T, c Config) {
	t.Helper()
	free := newStand(t, c, equal(4))
	c.BalanceFactor = 125
	s := newStand(t, c, equal(4))
	if !slices.Equal(free.homes(t, 100), s.homes(t, 100)) {
		t.Error("got other homes with a bound and no load")
	}
	var walk []int
	var tried []*Live
	for range 4 {
		i := free.visit(t, keyed("k", tried...))
		walk, tried = append(walk, i), append(tried, free.lives[i])
	}
	for _, tc := range []struct {
		name  string
		loads [4]int64 // along the walk
		tried []int
		want  int
	}{
		{"room at home", [4]int64{2, 4, 0, 0}, nil, 0},
		{"room at home, the mean counts who was tried", [4]int64{2, 4, 0, 0}, []int{1}, 0},
		{"no room at home", [4]int64{3, 3, 0, 0}, nil, 2},
		{"no room at home, the next was tried", [4]int64{6, 0, 0, 0}, []int{1}, 2},
		{"no room at home, but all others were tried", [4]int64{6, 0, 0, 0}, []int{1, 2, 3}, 0},
	} {
		var tried []*Live
		for step, place := range walk {
			s.lives[place].load.Store(tc.loads[step])
			if slices.Contains(tc.tried, step) {
				tried = append(tried, s.lives[place])
			}
		}
		if got := s.visit(t, keyed("k", tried...)); got != walk[tc.want] {
			t.Errorf("%s: got %d, want number %d of the walk %v", tc.name, got, tc.want, walk)
		}
	}
}

// weightOf returns the weight of the endpoint at a place of the list.
func (t *tier) weightOf(place int) int64 {
	i := slices.IndexFunc(t.members, func(m member) bool { return m.index == place })
	return t.members[i].weight
}
