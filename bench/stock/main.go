// Command stock is a Caddy with caddy-l4's own modules for TLS passthrough and none of Sluice's: the peer that the
// benchmark compares with.
package main

import (
	caddycmd "github.com/caddyserver/caddy/v2/cmd"

	_ "github.com/caddyserver/caddy/v2/modules/standard"
	_ "github.com/mholt/caddy-l4/layer4"
	_ "github.com/mholt/caddy-l4/modules/l4proxy"
	_ "github.com/mholt/caddy-l4/modules/l4tls"
)

func main() { caddycmd.Main() }
