package balance

import (
	"slices"

	"github.com/cespare/xxhash/v2"
)

// free marks a slot of a table that nobody has claimed.
const free = ^uint16(0)

// newMaglev fills a table of a prime size. Each member has an order in which it wants the slots, drawn from its key,
// and they take turns in claiming: in round r, who has claimed for less than r times its weight, where a slot counts
// for the largest weight. In the first round all claim, so that the lightest has a slot too.
func newMaglev(keys []string, weights []int64, size int) *circle {
	c := &circle{owners: make([]uint16, size), keys: keys, weights: weights}
	for i := range c.owners {
		c.owners[i] = free
	}
	claims := newClaims(keys, uint64(size))
	largest := slices.Max(weights)
	for round, left := int64(1), size; ; round++ {
		for i := range claims {
			if round*weights[i] < claims[i].due {
				continue
			}
			claims[i].due += largest
			c.owners[claims[i].next(c.owners)] = uint16(i)
			if left--; left == 0 {
				return c
			}
		}
	}
}

// claim is the order in which a member wants the slots, and what it has claimed for.
type claim struct {
	at, skip uint64
	due      int64
}

func newClaims(keys []string, size uint64) []claim {
	claims := make([]claim, len(keys))
	for i, key := range keys {
		second := xxhash.NewWithSeed(1)
		_, _ = second.WriteString(key)
		claims[i] = claim{at: xxhash.Sum64String(key) % size, skip: second.Sum64()%(size-1) + 1}
	}
	return claims
}

// next returns the next slot in the member's order that is free. As the size is a prime, the order holds every slot.
func (c *claim) next(owners []uint16) uint64 {
	for owners[c.at] != free {
		if c.at += c.skip; c.at >= uint64(len(owners)) {
			c.at -= uint64(len(owners))
		}
	}
	return c.at
}
