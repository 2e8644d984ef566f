package balance

import (
	"math/bits"
	"slices"
	"strconv"

	"github.com/cespare/xxhash/v2"
)

// maxDigits is how many digits the number of a point has at most.
const maxDigits = 7

// newRing puts points for each unit of a member's weight on a ring. Where they are, and how many, follows from its own
// key and weight: when another member comes or goes, keys move from or to that one only. That holds until the ring is
// full and gets half as many.
func newRing(keys []string, weights []int64, perUnit int) *circle {
	counts := ringCounts(weights, perUnit)
	var sum int64
	for _, n := range counts {
		sum += n
	}
	hashes := make([]uint64, 0, sum)
	var text []byte
	for i, key := range keys {
		text = slices.Grow(append(append(text[:0], key...), '_'), maxDigits)
		for n := range counts[i] {
			hashes = append(hashes, xxhash.Sum64(strconv.AppendInt(text, n, 10)))
		}
	}
	c := &circle{keys: keys, weights: weights}
	c.points, c.owners = newPoints(hashes, counts)
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

// newPoints puts hashes on a ring, and returns the owners of the points too: the first counts[0] are those of owner 0, and
// so on. Of points at one place that of the lower owner comes first. Hashes are spread evenly, so that counting those with
// the same first bits all but sorts them: a full ring takes as long as it takes to hash it, once more.
func newPoints(hashes []uint64, counts []int64) (*points, []uint16) {
	width := bits.Len(uint(len(hashes)))
	p := &points{hashes: make([]uint64, len(hashes)), starts: make([]uint32, 1<<width), shift: 64 - width}
	for _, hash := range hashes {
		p.starts[hash>>p.shift]++
	}
	end := uint32(0)
	for v, n := range p.starts {
		end += n
		p.starts[v] = end
	}
	// From the last point to the first one, each takes the last place that is left to its bits: in the end, starts are the
	// first places.
	owners := make([]uint16, len(hashes))
	last := len(hashes)
	for owner, n := range slices.Backward(counts) {
		first := last - int(n)
		for i := last - 1; i >= first; i-- {
			place := &p.starts[hashes[i]>>p.shift]
			*place--
			p.hashes[*place], owners[*place] = hashes[i], uint16(owner)
		}
		last = first
	}
	for i := 1; i < len(owners); i++ {
		for at := i; at > 0 && p.hashes[at] < p.hashes[at-1]; at-- {
			p.hashes[at], p.hashes[at-1] = p.hashes[at-1], p.hashes[at]
			owners[at], owners[at-1] = owners[at-1], owners[at]
		}
	}
	return p, owners
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
