// Package sluice adds layer-4 routing, filtering and health-aware proxying to Caddy. Importing it registers all of
// its modules, so that `xcaddy build --with github.com/caddy-sluice/sluice` makes a Caddy that has them.
package sluice

import (
	// All modules of Sluice.
	_ "github.com/caddy-sluice/sluice/modules"
)
