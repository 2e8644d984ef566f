package balance

import (
	"cmp"
	"math/bits"
	"slices"
	"strconv"

	"github.com/cespare/xxhash/v2"
)

// newRing puts points for each unit of a member's weight on a ring. Where they are, and how many, follows from its own
// key and weight: when another member comes or goes, keys move from or to that one only. That holds until the ring is
// full and gets half as many.
func newRing(keys []string, weights []int64, perUnit int) *circle {
	counts := ringCounts(weights, perUnit)
	type point struct {
		hash  uint64
		owner uint16
	}
	var ring []point
	for i, key := range keys {
		text := append([]byte(key), '_')
		for n := range counts[i] {
			ring = append(ring, point{xxhash.Sum64(strconv.AppendInt(text, n, 10)), uint16(i)})
		}
	}
	// Of points at one place that of the lower key comes first.
	slices.SortFunc(ring, func(a, b point) int {
		return cmp.Or(cmp.Compare(a.hash, b.hash), cmp.Compare(a.owner, b.owner))
	})
	c := &circle{owners: make([]uint16, len(ring)), keys: keys, weights: weights}
	hashes := make([]uint64, len(ring))
	for i, p := range ring {
		hashes[i], c.owners[i] = p.hash, p.owner
	}
	c.points = newPoints(hashes)
	return c
}

// ringCounts returns how many points each member gets, one at least.
func ringCounts(weights []int64, perUnit int) []int64 {
	counts := make([]int64, len(weights))
	for halved := 0; ; halved++ {
		var sum int64
		for i, w := range weights {
			counts[i] = max(w*int64(perUnit)>>halved, 1)
			sum += counts[i]
		}
		if sum <= MaxRingSize {
			return counts
		}
	}
}

// points are places on a ring, in ascending order.
type points struct {
	hashes []uint64
	// starts holds, for each value of the first bits of a hash, which remain when shift are cut off, the first point
	// that isn't below them. There are as many as points or more, so that few steps remain.
	starts []uint32
	shift  int
}

func newPoints(hashes []uint64) *points {
	width := bits.Len(uint(len(hashes)))
	p := &points{hashes: hashes, starts: make([]uint32, 1<<width), shift: 64 - width}
	at := 0
	for v := range p.starts {
		for at < len(hashes) && hashes[at]>>p.shift < uint64(v) {
			at++
		}
		p.starts[v] = uint32(at)
	}
	return p
}

// from returns the first point that isn't below a key. Behind the last comes the first.
func (p *points) from(key uint64) int {
	i := int(p.starts[key>>p.shift])
	for i < len(p.hashes) && p.hashes[i] < key {
		i++
	}
	if i == len(p.hashes) {
		return 0
	}
	return i
}
