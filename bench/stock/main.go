// Command stock is a Caddy with caddy-l4's own modules and none of Sluice's: the peer that the
// benchmark compares with.
package main

import (
	caddycmd "github.com/caddyserver/caddy/v2/cmd"
	_ "github.com/caddyserver/caddy/v2/modules/standard"
	_ "github.com/mholt/caddy-l4"
)

func main() { caddycmd.Main() }
