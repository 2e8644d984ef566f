package health

import (
	"errors"
	"slices"
	"time"
)

const (
	// RetainGone is how long the state of an endpoint is kept that is no longer a member: longer than a name server
	// needs to leave an address out and to bring it back.
	RetainGone = 10 * time.Minute
	// maxGone is how many such endpoints are kept, so that names whose addresses change all the time don't fill the
	// memory. Those with an override, and those at which something is under way, are kept beside it.
	maxGone = 1024
)

// ErrDuplicate means that two members have the same key.
var ErrDuplicate = errors.New("two members have the same key")

// SetMembers replaces the members. What is known about a key stays. An endpoint that is no longer a member is not
// offered; what it is doing goes on, and what is known about it is kept for a while.
func (c *Cluster) SetMembers(members []Member, now time.Time) error {
	keys := make(map[string]bool, len(members))
	for i := range members {
		if keys[members[i].Key] {
			return ErrDuplicate
		}
		keys[members[i].Key] = true
	}
	c.enter(now)
	defer c.leave()
	// Endpoints that are there from the start need no slow start: nobody is there to take the load meanwhile.
	first := len(c.byKey) == 0
	for _, e := range c.endpoints {
		if !keys[e.key] {
			e.gone, e.goneAt = true, c.now
		}
	}
	c.forget()
	list := make([]*Endpoint, 0, len(members))
	for i := range members {
		e := c.join(&members[i])
		if first {
			e.upSince = time.Time{}
		}
		list = append(list, e)
	}
	c.rank(list)
	if !slices.Equal(list, c.endpoints) {
		c.listStamp++
	}
	c.endpoints, c.past, c.dirty = list, nil, true
	return nil
}

// join returns the endpoint of a member, new or known.
func (c *Cluster) join(m *Member) *Endpoint {
	e := c.byKey[m.Key]
	if e == nil {
		e = &Endpoint{key: m.Key, upSince: c.risen(m.Key), since: c.now}
		c.byKey[m.Key] = e
	}
	if e.gone {
		e.eject.expire(c.now)
		e.gone, e.upSince = false, c.risen(m.Key)
	}
	e.member = *m
	limits := m.Limits
	e.limits.Store(&limits)
	return e
}

// rank gives the endpoints the places of their tiers.
func (c *Cluster) rank(list []*Endpoint) {
	var used [256]bool
	for _, e := range list {
		used[e.member.Tier] = true
	}
	var place [256]int
	c.ranks = 0
	for tier, is := range used {
		place[tier] = c.ranks
		if is {
			c.ranks++
		}
	}
	for _, e := range list {
		e.rank = place[e.member.Tier]
	}
}

// forget drops the state of endpoints that are gone for long, and of those that were gone first if there are too many.
func (c *Cluster) forget() {
	var kept []*Endpoint
	for key, e := range c.byKey {
		switch {
		case !e.gone, e.override != Override{}, !e.idle():
		case c.now.Sub(e.goneAt) >= RetainGone:
			delete(c.byKey, key)
		default:
			kept = append(kept, e)
		}
	}
	if len(kept) <= maxGone {
		return
	}
	slices.SortFunc(kept, func(a, b *Endpoint) int { return a.goneAt.Compare(b.goneAt) })
	for _, e := range kept[:len(kept)-maxGone] {
		delete(c.byKey, e.key)
	}
}
