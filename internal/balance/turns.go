package balance

import "sync"

// turns is the running state of round robin. The sets of a cluster share it one after the other, so that nothing
// starts over when a list or a weight changes.
type turns struct {
	// mu guards credits and what they point to.
	mu      sync.Mutex
	credits map[string]credit
}

// credit is what an endpoint has saved up, or owes, in a tier whose pulls add up to total.
type credit struct {
	saved *int64
	total int64
}

// turnsOf returns the running state that the next set goes on with.
func (s *Set) turnsOf() *turns {
	if s == nil || s.turns == nil {
		return new(turns)
	}
	return s.turns
}

// seat gives each member its credit: the one that its key had, or 0. Credits of a tier add up to 0, and a pick keeps
// that so; the sum that endpoints leave behind when they go is spread over those who stay.
func (t *turns) seat(tiers []*tier, endpoints []Endpoint) {
	t.mu.Lock()
	defer t.mu.Unlock()
	seated := make(map[string]credit, len(endpoints))
	for _, tier := range tiers {
		var total, sum int64
		for _, m := range tier.members {
			total += m.weight * FullShare
		}
		for _, m := range tier.members {
			key := endpoints[m.index].Key
			c := t.credits[key].in(total)
			seated[key] = c
			tier.credits = append(tier.credits, c.saved)
			sum += *c.saved
		}
		n := int64(len(tier.credits))
		for _, saved := range tier.credits {
			*saved -= sum / n
		}
		*tier.credits[0] -= sum % n
	}
	t.credits = seated
}

// in returns the credit in a tier with another total: it stays the same part of a round, and is one round at most. What was
// saved up beside large weights would be many rounds of small ones.
func (c credit) in(total int64) credit {
	if c.saved == nil {
		return credit{new(int64), total}
	}
	if total != c.total {
		*c.saved = int64(float64(*c.saved) / float64(c.total) * float64(total))
	}
	*c.saved = min(max(*c.saved, -total), total)
	return credit{c.saved, total}
}

// pick gives each member that can be chosen credit by its pull, takes the first of the richest and has it pay for all.
// Who can't be chosen neither gets nor pays: the proportions of the others stay, and nobody saves up for a burst.
func (t *turns) pick(from *tier, q *Query) int {
	t.mu.Lock()
	defer t.mu.Unlock()
	best, most, total := none, int64(0), int64(0)
	for i := range from.members {
		m := &from.members[i]
		if !q.allows(m.live) {
			continue
		}
		pull := m.pull()
		total += pull
		*from.credits[i] += pull
		if credit := *from.credits[i]; best == none || credit > most {
			best, most = i, credit
		}
	}
	if best != none {
		*from.credits[best] -= total
		from.members[best].claim(0, true)
	}
	return best
}
