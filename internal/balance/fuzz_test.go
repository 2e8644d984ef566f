package balance

import (
	"fmt"
	"math"
	"slices"
	"testing"
)

// fuzzConfigs are the policies with tables and rings that are quickly made.
var fuzzConfigs = []Config{
	{Policy: P2C},
	{Policy: RoundRobin},
	{Policy: LeastConnections},
	{Policy: Random},
	{Policy: Maglev, TableSize: 61},
	{Policy: RingHash, RingPoints: 2},
	{Policy: First},
	{Policy: Maglev, TableSize: 61, BalanceFactor: 100},
	{Policy: RingHash, RingPoints: 1, BalanceFactor: 150},
}

// fuzzPool are endpoints with all that a pick depends on.
type fuzzPool struct {
	endpoints []Endpoint
	tried     []*Live
	without   []*Live
}

// readPool makes an endpoint of three bytes each: weight; bars, tier, whether it was tried and whether it has no room; load, whether
// it yields, and share.
func readPool(data []byte) fuzzPool {
	var p fuzzPool
	for i := 0; i+2 < len(data) && i < 3*40; i += 3 {
		live := new(Live)
		live.Bar(Bars(data[i+1]&15) | Yielding*Bars(data[i+2]>>3&1))
		live.load.Store(int64(data[i+2] >> 3))
		live.SetShare(FullShare >> (data[i+2] & 7))
		if data[i+1]&16 != 0 {
			p.tried = append(p.tried, live)
		}
		if data[i+1]&32 != 0 {
			p.without = append(p.without, live)
		}
		p.endpoints = append(p.endpoints, Endpoint{fmt.Sprintf("e%d", i*7919%1000), int(data[i]) + 1, int(data[i+1] >> 6), live})
	}
	return p
}

// candidates are the places that a pick must choose from: those of the lowest tier that aren't barred and have room,
// first of all that weren't tried and don't yield, then that weren't tried.
func (p fuzzPool) candidates(ignore Bars) []int {
	for round := range 3 {
		again := round == 2
		if round > 0 {
			ignore |= Yielding
		}
		lowest, found := math.MaxInt, []int(nil)
		for i, e := range p.endpoints {
			if e.Live.Bars()&^ignore != 0 || slices.Contains(p.without, e.Live) || slices.Contains(p.tried, e.Live) && !again || e.Tier > lowest {
				continue
			}
			if e.Tier < lowest {
				lowest, found = e.Tier, nil
			}
			found = append(found, i)
		}
		if found != nil {
			return found
		}
	}
	return nil
}

// loads returns the load of each endpoint.
func (p fuzzPool) loads() []int64 {
	loads := make([]int64, len(p.endpoints))
	for i, e := range p.endpoints {
		loads[i] = e.Live.Load()
	}
	return loads
}

// FuzzPick has any policy choose from any endpoints. Laws: it chooses if and only if someone is available; it chooses
// one of the candidates, and adds 1 to the load of that one and nothing else; the same state, key and seed give the same
// pick; with a key, the seed and the order of the endpoints don't matter; it allocates nothing.
func FuzzPick(f *testing.F) {
	for i := range fuzzConfigs {
		f.Add(uint8(i), uint64(1), uint64(2), uint32(0), []byte("\x00\x00\x00\x04\x00\x01\x09\x00\x02"))
		f.Add(uint8(i), uint64(3), uint64(math.MaxUint64), uint32(Health), []byte("\x00\x01\x00\x04\x12\x01\x09\x48\x02\xff\x80\xff"))
		f.Add(uint8(i), uint64(4), uint64(5), uint32(0), []byte("\x00\x0f\x00\x00\x0f\x00"))
		f.Add(uint8(i), uint64(4), uint64(5), uint32(0), []byte{})
	}
	f.Fuzz(func(t *testing.T, config uint8, seed, key uint64, ignore uint32, data []byte) {
		c := fuzzConfigs[int(config)%len(fuzzConfigs)]
		p := readPool(data)
		q := Query{Seed: seed, Key: key, HasKey: seed%5 != 0, Tried: slices.Concat(p.tried, p.without), Without: len(p.without), Ignore: Bars(ignore)}
		s := mustNew(t, c, p.endpoints, nil)
		want, before := p.candidates(q.Ignore), p.loads()
		got, ok := s.Pick(q)
		if ok != (want != nil) || ok && !slices.Contains(want, got) {
			t.Fatalf("got %d, %v, want one of %v", got, ok, want)
		}
		if !ok {
			return
		}
		before[got]++
		if !slices.Equal(p.loads(), before) {
			t.Fatalf("got loads %v, want %v", p.loads(), before)
		}
		p.endpoints[got].Live.Release()
		checkAgain(t, c, p, q, p.endpoints[got].Key)
		if n := testing.AllocsPerRun(5, func() { s.Pick(q) }); n != 0 {
			t.Fatalf("got %v allocations, want 0", n)
		}
	})
}

// checkAgain picks from a set made anew, and with a key also from one in another order.
func checkAgain(t *testing.T, c Config, p fuzzPool, q Query, want string) {
	t.Helper()
	order := slices.Clone(p.endpoints)
	if c.Policy.Keyed() {
		slices.Reverse(order)
		if q.HasKey {
			q.Seed++
		}
	}
	i, ok := mustNew(t, c, order, nil).Pick(q)
	if !ok || order[i].Key != want {
		t.Fatalf("got %d, %v of %v the second time, want %s", i, ok, order, want)
	}
	order[i].Live.Release()
}

// FuzzAliases draws from any weights. Law: each number's part of the table is its part of the weight, to within a
// rounding error for each slot.
func FuzzAliases(f *testing.F) {
	f.Add([]byte{0})
	f.Add([]byte{0, 255, 3})
	f.Add([]byte{7, 7, 7, 7, 7})
	f.Fuzz(func(t *testing.T, data []byte) {
		if len(data) == 0 || len(data) > 200 {
			return
		}
		weights, total := make([]int64, len(data)), 0.0
		for i, b := range data {
			weights[i] = 1 + int64(b)*257
			total += float64(weights[i])
		}
		got := make([]float64, len(data))
		for i, s := range newAliases(weights) {
			own := float64(s.threshold) / (1 << 64)
			got[i] += own
			got[s.other] += 1 - own
		}
		for i, w := range weights {
			if part, want := got[i]/float64(len(data)), float64(w)/total; math.Abs(part-want) > 1e-9 {
				t.Fatalf("%d of %v: got a part of %v, want %v", i, weights, part, want)
			}
		}
	})
}
