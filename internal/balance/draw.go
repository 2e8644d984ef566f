package balance

import "math/bits"

// draws makes any number of random values of one, which the caller draws for each pick: so a pick needs neither a lock
// nor memory of its own, and the same value always gives the same pick. It is the generator SplitMix64.
type draws uint64

func (d *draws) next() uint64 {
	*d += 0x9e3779b97f4a7c15
	z := uint64(*d)
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return z ^ z>>31
}

// below returns a value from 0 to n-1, each equally likely but for one part in 2^64/n.
func (d *draws) below(n uint64) uint64 {
	v, _ := bits.Mul64(d.next(), n)
	return v
}

// lot draws one of many by weight, while they pass by once. With total set to 0 it starts over.
type lot struct {
	d     draws
	total uint64
}

// offer says whether one more takes the place of whoever was drawn before.
func (l *lot) offer(weight int64) bool {
	l.total += uint64(weight)
	return l.total == uint64(weight) || l.d.below(l.total) < uint64(weight)
}

// slot is a part of an alias table: its own number is drawn below the threshold, the other one's from there on.
type slot struct {
	threshold uint64
	other     uint32
}

// aliases is a table to draw numbers by weight in constant time (Vose's method, in whole numbers).
type aliases []slot

func newAliases(weights []int64) aliases {
	var total uint64
	for _, w := range weights {
		total += uint64(w)
	}
	table := make(aliases, len(weights))
	// part holds what of a number's weight is to be placed, in units in which a slot has room for total.
	part := make([]uint64, len(weights))
	var short, long []int
	for i, w := range weights {
		part[i] = uint64(w) * uint64(len(weights))
		table[i] = slot{threshold: ^uint64(0), other: uint32(i)}
		if part[i] < total {
			short = append(short, i)
		} else {
			long = append(long, i)
		}
	}
	for len(short) > 0 && len(long) > 0 {
		s, l := short[len(short)-1], long[len(long)-1]
		short = short[:len(short)-1]
		table[s].threshold, _ = bits.Div64(part[s], 0, total)
		table[s].other = uint32(l)
		part[l] -= total - part[s]
		if part[l] < total {
			long = long[:len(long)-1]
			short = append(short, l)
		}
	}
	return table
}

// draw returns a number. One random value gives both the slot and the place in it.
func (a aliases) draw(d *draws) int {
	i, place := bits.Mul64(d.next(), uint64(len(a)))
	if s := &a[i]; place >= s.threshold {
		return int(s.other)
	}
	return int(i)
}
