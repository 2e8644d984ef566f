package balance

import (
	"fmt"
	"testing"
)

// stand is a set with the states of its endpoints and a source of seeds, as a cluster has them.
type stand struct {
	*Set
	lives []*Live
	seeds draws
}

// endpoint is a member by default: named by its place, tier 0.
func endpoint(i, weight int) Endpoint {
	return Endpoint{Key: fmt.Sprintf("10.0.%d.%d:443", i/250, i%250), Weight: weight, Live: new(Live)}
}

// weighted are endpoints with the weights given.
func weighted(weights ...int) []Endpoint {
	list := make([]Endpoint, len(weights))
	for i, w := range weights {
		list[i] = endpoint(i, w)
	}
	return list
}

// equal are n endpoints of weight 1.
func equal(n int) []Endpoint {
	list := make([]Endpoint, n)
	for i := range list {
		list[i] = endpoint(i, 1)
	}
	return list
}

func newStand(t testing.TB, c Config, endpoints []Endpoint) *stand {
	t.Helper()
	return &stand{Set: mustNew(t, c, endpoints, nil), lives: livesOf(endpoints), seeds: 1}
}

func mustNew(t testing.TB, c Config, endpoints []Endpoint, before *Set) *Set {
	t.Helper()
	s, err := New(c, endpoints, before)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func livesOf(endpoints []Endpoint) []*Live {
	lives := make([]*Live, len(endpoints))
	for i, e := range endpoints {
		lives[i] = e.Live
	}
	return lives
}

// place picks and keeps the load.
func (s *stand) place(t testing.TB, q Query) int {
	t.Helper()
	q.Seed = s.seeds.next()
	i, ok := s.Pick(q)
	if !ok {
		t.Fatalf("got no pick of %d endpoints", s.Len())
	}
	return i
}

// visit picks and gives the load back at once.
func (s *stand) visit(t testing.TB, q Query) int {
	t.Helper()
	i := s.place(t, q)
	s.lives[i].Release()
	return i
}

// counts returns how many of n visits each endpoint gets.
func (s *stand) counts(t testing.TB, n int, q Query) []int {
	t.Helper()
	got := make([]int, s.Len())
	for range n {
		got[s.visit(t, q)]++
	}
	return got
}

// keyed returns a query by a key.
func keyed(key string, tried ...*Live) Query {
	return Query{Key: HashKey(key), HasKey: true, Tried: tried}
}

// setLoads gives the endpoints their loads.
func (s *stand) setLoads(loads ...int64) {
	for i, n := range loads {
		s.lives[i].load.Store(n)
	}
}

// within fails if a number is further from what is wanted than the tolerance.
func within(t testing.TB, what string, got, want, tolerance float64) {
	t.Helper()
	if got < want-tolerance || got > want+tolerance {
		t.Errorf("%s: got %.4g, want %.4g ± %.4g", what, got, want, tolerance)
	}
}

// allPolicies calls f in a subtest for each policy.
func allPolicies(t *testing.T, f func(t *testing.T, p Policy)) {
	t.Helper()
	for p := range Policy(len(policyNames)) {
		t.Run(p.String(), func(t *testing.T) { f(t, p) })
	}
}
