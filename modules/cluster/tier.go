package cluster

import (
	"slices"

	"go.uber.org/zap"

	"github.com/caddy-sluice/sluice/internal/health"
)

// serving returns the tier that serves, if one does, and whether it is one after the first there is. The view is one that
// fits the roster.
func (r *roster) serving(v *health.View) (tier uint8, serves, later bool) {
	place := v.Serving()
	if place < 0 {
		return 0, false, false
	}
	tier = r.tiers[place]
	return tier, true, tier > slices.Min(r.tiers)
}

// tellTier tells of a tier that serves in place of the first one, and of the end of that.
func (c *Cluster) tellTier(tier uint8, serves, later bool) {
	before := c.state.later
	if c.state.later = 0; later {
		c.state.later = tier
	}
	if c.state.later == before {
		return
	}
	var fields []zap.Field
	if serves {
		fields = append(fields, zap.Uint8("tier", tier))
	}
	if later {
		c.logger.Warn("served by "+tierName(tier)+": too few of those before them are available", fields...)
		return
	}
	c.logger.Info("no longer served by "+tierName(before), fields...)
}

// tierName says which endpoints those of a tier after the first are.
func tierName(tier uint8) string {
	if tier == backupTier {
		return "the backups"
	}
	return "endpoints of a later tier"
}
