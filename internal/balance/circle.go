package balance

import (
	"slices"

	"github.com/cespare/xxhash/v2"
)

// HashKey returns the hash by which maglev and ring_hash choose. It is the same on every machine and after a restart.
func HashKey(key string) uint64 { return xxhash.Sum64String(key) }

// circle is a closed row of slots, each with an owner: the place of a member. A key has a slot, its home is the owner,
// and whoever comes next in the row stands in for it. It is made of keys and weights only, of members in the order of
// their keys, so that each machine makes the same one. Every member owns at least one slot.
type circle struct {
	owners []uint16
	// points are the places of the slots on a ring. A table has none.
	points *points

	keys    []string
	weights []int64
}

// fits says whether the circle is that of these keys and weights.
func (c *circle) fits(keys []string, weights []int64) bool {
	return c != nil && slices.Equal(c.keys, keys) && slices.Equal(c.weights, weights)
}

// slot returns the slot of a key.
func (c *circle) slot(key uint64) int {
	if c.points != nil {
		return c.points.from(key)
	}
	return int(key % uint64(len(c.owners)))
}

// pickKeyed takes the key's home, or who stands in for it. With a factor it is first asked who has room.
func (t *tier) pickKeyed(q *Query, factor int) int {
	from := t.circle.slot(q.Key)
	i := none
	if factor != 0 {
		i = t.walk(q, from, t.bound(q, factor))
	}
	if i == none {
		i = t.walk(q, from, unbounded)
	}
	if i != none {
		t.members[i].claim(0, true)
	}
	return i
}

// unbounded is a bound that every member keeps to.
const unbounded = -1

// bound returns the load for each unit of weight that leaves no room for more: the mean, this pick included, times the
// factor. Tried endpoints count, as they carry load too. By this measure there is always one that has room.
func (t *tier) bound(q *Query, factor int) float64 {
	var load, weight int64
	every := Query{Ignore: q.Ignore}
	for i := range t.members {
		if m := &t.members[i]; every.allows(m.live) {
			load += m.live.load.Load()
			weight += m.weight
		}
	}
	return float64(factor) / 100 * float64(load+1) / float64(max(weight, 1))
}

// suits says whether a member can be chosen and has room.
func (m *member) suits(q *Query, bound float64) bool {
	return q.allows(m.live) && (bound == unbounded || float64(m.live.load.Load()) < bound*float64(m.weight))
}

// walk goes along the circle to the first owner who suits. Whether there is one at all is found out first, when the
// home doesn't suit: going round in vain would take as many steps as there are slots.
func (t *tier) walk(q *Query, from int, bound float64) int {
	owners := t.circle.owners
	if home := int(owners[from]); t.members[home].suits(q, bound) {
		return home
	}
	if !slices.ContainsFunc(t.members, func(m member) bool { return m.suits(q, bound) }) {
		return none
	}
	for range owners {
		if from++; from == len(owners) {
			from = 0
		}
		if i := int(owners[from]); t.members[i].suits(q, bound) {
			return i
		}
	}
	return none
}
