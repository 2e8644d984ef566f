// Package balance chooses an endpoint for a connection or a request. It decides from counters, weights, a key and one
// random value, all of which it is given.
//
// A Set is what a policy has prepared for a list of endpoints; it doesn't change, and the cluster replaces it when the
// list or a weight does. What changes from one pick to the next, load, availability and the share of a slow start, is in
// the Live of each endpoint, which the cluster owns. So a change of health rebuilds nothing: the policies pass over what
// is barred, and a home that comes back has its keys again.
package balance

import (
	"cmp"
	"fmt"
	"slices"
)

// Endpoint is a member of a set.
type Endpoint struct {
	// Key tells endpoints apart: the address, or a name of the operator's. It alone decides which hash keys an
	// endpoint has, so that all machines with the same keys and weights agree.
	Key string
	// Weight says how much the endpoint gets, relative to the others of its tier: 1 to 1048576, which is
	// more than MaxWeight.
	Weight int
	// Tier says when the endpoint is used: tier 0 first, a higher one when no lower one has an endpoint to choose, or only
	// ones that were tried.
	Tier int
	// Live is its load and availability. Two endpoints of a set must not share it.
	Live *Live
}

// Query is what a pick depends on, besides the endpoints. Its zero value is a first attempt without a key.
type Query struct {
	// Seed is a random value, drawn for this pick.
	Seed uint64
	// Key is the hash (HashKey) of what maglev and ring_hash choose by. Without HasKey they choose as p2c does.
	Key    uint64
	HasKey bool
	// Tried are the endpoints of earlier attempts. They are chosen again only when nothing else can be. The slice is
	// read only and not kept.
	Tried []*Live
	// Without is how many of the last of Tried aren't chosen at all: they have no room for such an attempt.
	Without int
	// Ignore are bars that don't count: Health to fail open.
	Ignore Bars
	// Spill says that endpoints in Reserve are better than any of Tried, once all others were tried. One that is Full and
	// wasn't tried isn't passed over for them: a limit is no reason to use a reserve.
	Spill bool
}

// allows says whether an endpoint can be chosen.
func (q *Query) allows(l *Live) bool {
	return l.bars.Load()&^uint32(q.Ignore) == 0 && (len(q.Tried) == 0 || !slices.Contains(q.Tried, l))
}

// Set is a list of endpoints, prepared for a policy. It is safe for concurrent use.
type Set struct {
	config Config
	tiers  []*tier
	turns  *turns
	size   int
}

// tier are the endpoints of one tier, in the order of the list, or by key for policies that choose by a key.
type tier struct {
	rank    int
	members []member
	aliases aliases
	circle  *circle
	credits []*int64
}

// member is an endpoint as picks see it. index is its place in the caller's list.
type member struct {
	live   *Live
	weight int64
	index  int
}

// pull is the weight in thousandths, as far as the endpoint may use it now.
func (m *member) pull() int64 { return m.weight * int64(FullShare-m.live.short.Load()) }

// none is the place of no member.
const none = -1

// New prepares a policy for a list of endpoints, which may be empty. It takes over from the set before it, if there is
// one: the running state of the policy goes on, and tables are kept if they would be the same. The work is done here,
// and none of it in Pick; maglev and ring_hash take milliseconds.
func New(c Config, endpoints []Endpoint, before *Set) (*Set, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	c = c.withDefaults()
	if err := check(c, endpoints); err != nil {
		return nil, err
	}
	s := &Set{config: c, size: len(endpoints)}
	order := make([]int, len(endpoints))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(i, j int) int {
		if c.Policy.Keyed() && endpoints[i].Tier == endpoints[j].Tier {
			return cmp.Compare(endpoints[i].Key, endpoints[j].Key)
		}
		return cmp.Compare(endpoints[i].Tier, endpoints[j].Tier)
	})
	for len(order) > 0 {
		rank, n := endpoints[order[0]].Tier, 1
		for n < len(order) && endpoints[order[n]].Tier == rank {
			n++
		}
		s.tiers = append(s.tiers, newTier(c, endpoints, order[:n], before.circleOf(c, rank)))
		order = order[n:]
	}
	if c.Policy == RoundRobin {
		s.turns = before.turnsOf()
		s.turns.seat(s.tiers, endpoints)
	}
	return s, nil
}

// check says what is wrong with a list of endpoints.
func check(c Config, endpoints []Endpoint) error {
	limit := MaxEndpoints
	if c.Policy == Maglev {
		limit = min(limit, c.TableSize)
	}
	if len(endpoints) > limit {
		return fmt.Errorf("%d endpoints: %w: want at most %d with this policy and table_size", len(endpoints), ErrEndpoint, limit)
	}
	keys := make(map[string]bool, len(endpoints))
	for i, e := range endpoints {
		switch {
		case e.Key == "":
			return fmt.Errorf("endpoints[%d].key: %w: empty", i, ErrEndpoint)
		case keys[e.Key]:
			return fmt.Errorf("endpoints[%d].key %q: %w: listed twice", i, e.Key, ErrEndpoint)
		case e.Weight < 1 || e.Weight > maxFoundWeight:
			return fmt.Errorf("endpoints[%d].weight %d: %w: want 1 to %d", i, e.Weight, ErrEndpoint, maxFoundWeight)
		case e.Tier < 0:
			return fmt.Errorf("endpoints[%d].tier %d: %w: want 0 or more", i, e.Tier, ErrEndpoint)
		case e.Live == nil:
			return fmt.Errorf("endpoints[%d]: %w: without state", i, ErrEndpoint)
		}
		keys[e.Key] = true
	}
	return nil
}

// newTier prepares the endpoints at the places that order lists. old is a circle that may do again.
func newTier(c Config, endpoints []Endpoint, order []int, old *circle) *tier {
	t := &tier{rank: endpoints[order[0]].Tier}
	keys, weights := make([]string, len(order)), make([]int64, len(order))
	for i, index := range order {
		e := &endpoints[index]
		keys[i], weights[i] = e.Key, int64(e.Weight)
		t.members = append(t.members, member{e.Live, weights[i], index})
	}
	if c.Policy == P2C || c.Policy == Random || c.Policy.Keyed() {
		t.aliases = newAliases(weights)
	}
	switch {
	case !c.Policy.Keyed():
	case old.fits(keys, weights):
		t.circle = old
	case c.Policy == Maglev:
		t.circle = newMaglev(keys, weights, c.TableSize)
	default:
		t.circle = newRing(keys, weights, c.RingPoints)
	}
	return t
}

// circleOf returns the circle of a tier, if it was made with the same options. By those the policies differ too.
func (s *Set) circleOf(c Config, rank int) *circle {
	if s == nil || s.config.TableSize != c.TableSize || s.config.RingPoints != c.RingPoints {
		return nil
	}
	for _, t := range s.tiers {
		if t.rank == rank {
			return t.circle
		}
	}
	return nil
}

// Len returns how many endpoints the set has.
func (s *Set) Len() int { return s.size }

// Pick chooses an endpoint and returns its place in the list that the set was made of. ok is false when every endpoint
// is barred. The pick counts as load of the endpoint at once, before anything is dialled, so that picks at the same
// time don't all go for the same one; the caller ends it with Release on the endpoint's Live. Pick allocates nothing.
//
// An endpoint that can be chosen and wasn't tried is preferred in any tier to one that was, and, with Spill, so is one in
// Reserve. One that is Yielding comes after those that aren't, in any tier, and before those.
func (s *Set) Pick(q Query) (place int, ok bool) {
	if place, ok = s.pick(&q); ok {
		return place, true
	}
	q.Ignore |= Yielding
	if place, ok = s.pick(&q); ok || len(q.Tried) == 0 {
		return place, ok
	}
	if q.Spill && !s.waits(&q) {
		ignore := q.Ignore
		q.Ignore |= Reserve
		if place, ok = s.pick(&q); ok {
			return place, true
		}
		q.Ignore = ignore
	}
	q.Tried = q.Tried[len(q.Tried)-q.Without:]
	return s.pick(&q)
}

// waits says whether an endpoint wasn't tried only because it is full.
func (s *Set) waits(q *Query) bool {
	full := *q
	full.Ignore |= Full
	for _, t := range s.tiers {
		for i := range t.members {
			if full.allows(t.members[i].live) {
				return true
			}
		}
	}
	return false
}

// pick takes the first tier that has an endpoint to choose.
func (s *Set) pick(q *Query) (place int, ok bool) {
	for _, t := range s.tiers {
		if i := s.pickFrom(t, q); i != none {
			return t.members[i].index, true
		}
	}
	return none, false
}

// pickFrom returns the place of the member chosen, or none.
func (s *Set) pickFrom(t *tier, q *Query) int {
	switch {
	case s.config.Policy.Keyed() && q.HasKey:
		return t.pickKeyed(q, s.config.BalanceFactor)
	case s.config.Policy == RoundRobin:
		return s.turns.pick(t, q)
	case s.config.Policy == LeastConnections:
		return t.pickLeast(q)
	case s.config.Policy == Random:
		return t.pickRandom(q)
	case s.config.Policy == First:
		return t.pickFirst(q)
	}
	return t.pickP2C(q)
}
