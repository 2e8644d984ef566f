package cluster

import (
	"cmp"
	"slices"

	"github.com/caddy-sluice/sluice/internal/health"
	"github.com/caddy-sluice/sluice/modules/hostport"
)

const (
	// backupTier is that of endpoints in reserve behind all others.
	backupTier = 255
	// maxMembers is how many endpoints a cluster can have: a pick by round robin takes 20 µs with as many, and a table of
	// maglev has six slots for each.
	maxMembers = 10_000
)

// seatedMember is a member with its place among the others.
type seatedMember struct {
	member
	tier uint8
}

// members returns the endpoints that are configured and those that were found. An address that is both is what is
// configured. The caller holds the state's mu.
func (s *state) members(c *Cluster) []seatedMember {
	known := make(map[hostport.Address]bool)
	var list []seatedMember
	add := func(m member) {
		if !known[m.Address] && len(list) < maxMembers {
			known[m.Address] = true
			list = append(list, seatedMember{member: m})
		}
	}
	for _, m := range c.set.static {
		add(m)
	}
	for _, source := range c.set.sources {
		naming := namingOf(source)
		for _, f := range s.found[source.Identity()] {
			add(member{Address: hostport.Address{Host: f.Host, Port: f.Port}, weight: f.Weight, priority: f.Priority, naming: naming})
		}
	}
	rank(list)
	return list
}

// rank gives members their tiers: those that are configured serve beside those of the first priority found.
func rank(list []seatedMember) {
	var priorities []uint16
	for i := range list {
		if !list[i].trusted {
			priorities = append(priorities, list[i].priority)
		}
	}
	slices.SortFunc(priorities, cmp.Compare)
	priorities = slices.Compact(priorities)
	for i := range list {
		m := &list[i]
		switch {
		case m.backup:
			m.tier = backupTier
		case !m.trusted:
			place, _ := slices.BinarySearch(priorities, m.priority)
			m.tier = uint8(min(place, backupTier-1))
		}
	}
}

// healthMembers returns the members as health wants them.
func healthMembers(list []seatedMember) []health.Member {
	members := make([]health.Member, 0, len(list))
	for i := range list {
		m := &list[i]
		members = append(members, health.Member{Key: m.Address.String(), Weight: m.weight, Tier: m.tier, Limits: m.limits})
	}
	return members
}
