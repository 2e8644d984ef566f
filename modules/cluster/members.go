package cluster

import (
	"slices"

	"github.com/caddy-sluice/sluice/internal/health"
	"github.com/caddy-sluice/sluice/modules/discovery"
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
	add := func(m member, tier uint8) {
		if !known[m.Address] && len(list) < maxMembers {
			known[m.Address] = true
			list = append(list, seatedMember{m, tier})
		}
	}
	for _, m := range c.set.static {
		tier := uint8(0)
		if m.backup {
			tier = backupTier
		}
		add(m, tier)
	}
	for _, source := range c.set.sources {
		naming, found := namingOf(source), s.found[source.Identity()]
		all := priorities(found)
		for _, f := range found {
			place, _ := slices.BinarySearch(all, f.Priority)
			m := member{Address: hostport.Address{Host: f.Host, Port: f.Port}, weight: f.Weight, naming: naming}
			add(m, uint8(min(place, backupTier-1)))
		}
	}
	return list
}

// priorities returns those that a source has found, each once and in order. They mean something beside each other only: the
// first of each source serve, and so do the endpoints that are configured.
func priorities(found []discovery.Endpoint) []uint16 {
	list := make([]uint16, len(found))
	for i := range found {
		list[i] = found[i].Priority
	}
	slices.Sort(list)
	return slices.Compact(list)
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
