package balance

// maxDraws is how often an endpoint is drawn before all are looked at: with half of them barred that happens once in
// 65,000 picks. Of few endpoints no more are drawn than there are, since looking at all costs no more. The chances are
// the same either way.
const maxDraws = 16

// maxClaims is how often a pick starts over because another one took the same endpoint at the same time. After that it
// takes what it has found: it is a choice that was best a moment ago.
const maxClaims = 4

// claim adds one to the load of a member if that is still what was seen, or if sure is set.
func (m *member) claim(seen int64, sure bool) bool {
	if sure {
		m.live.load.Add(1)
		return true
	}
	return m.live.load.CompareAndSwap(seen, seen+1)
}

// lighter says whether load a is less for pull v than load b is for pull w: a/v < b/w. Pulls are 2^30 at most, so that
// loads below 2^33 are compared exactly.
func lighter(a, v, b, w int64) bool { return a*w < b*v }

// sample draws a member by pull, but not the one at avoid. It returns none if there is no other.
func (t *tier) sample(q *Query, d *draws, avoid int) int {
	for range min(maxDraws, len(t.members)) {
		i := t.aliases.draw(d)
		live := t.members[i].live
		if i == avoid || !q.allows(live) {
			continue
		}
		// The table knows weights only. Passing over an endpoint as often as its share is short makes the rest.
		if short := live.short.Load(); short == 0 || d.below(FullShare) >= uint64(short) {
			return i
		}
	}
	rest, winner := lot{d: *d}, none
	for i := range t.members {
		if m := &t.members[i]; i != avoid && q.allows(m.live) && rest.offer(m.pull()) {
			winner = i
		}
	}
	*d = rest.d
	return winner
}

// pickP2C takes the lighter of two. If they are even it is the first drawn: idle endpoints are chosen by weight.
func (t *tier) pickP2C(q *Query) int {
	d := draws(q.Seed)
	i := t.sample(q, &d, none)
	if i == none {
		return none
	}
	j := none
	if len(t.members) > 1 {
		j = t.sample(q, &d, i)
	}
	if j == none {
		t.members[i].claim(0, true)
		return i
	}
	for claims := 1; ; claims++ {
		best, other := &t.members[i], &t.members[j]
		place, seen, load := i, best.live.load.Load(), other.live.load.Load()
		if lighter(load, other.pull(), seen, best.pull()) {
			best, place, seen = other, j, load
		}
		if best.claim(seen, claims == maxClaims) {
			return place
		}
	}
}

func (t *tier) pickRandom(q *Query) int {
	d := draws(q.Seed)
	i := t.sample(q, &d, none)
	if i != none {
		t.members[i].claim(0, true)
	}
	return i
}

func (t *tier) pickFirst(q *Query) int {
	for i := range t.members {
		if m := &t.members[i]; q.allows(m.live) {
			m.claim(0, true)
			return i
		}
	}
	return none
}

// pickLeast takes the lightest of all.
func (t *tier) pickLeast(q *Query) int {
	ties := lot{d: draws(q.Seed)}
	for claims := 1; ; claims++ {
		i, seen := t.lightest(q, &ties)
		if i == none || t.members[i].claim(seen, claims == maxClaims) {
			return i
		}
	}
}

// lightest returns the lightest member, one of them if there are several, and its load.
func (t *tier) lightest(q *Query, ties *lot) (place int, load int64) {
	var pull int64
	place = none
	for i := range t.members {
		m := &t.members[i]
		if !q.allows(m.live) {
			continue
		}
		l, p := m.live.load.Load(), m.pull()
		if place == none || lighter(l, p, load, pull) {
			ties.total = 0
		} else if lighter(load, pull, l, p) {
			continue
		}
		if ties.offer(p) {
			place, load, pull = i, l, p
		}
	}
	return place, load
}
