package cluster

import (
	"errors"

	"github.com/caddyserver/caddy/v2"

	"github.com/caddy-sluice/sluice/internal/netguard"
)

func (c *Config) provision(ctx caddy.Context, guard netguard.Mode) (*settings, error) {
	return nil, errors.New("not yet")
}
