// Command xcaddy is Caddy with all of its standard modules, caddy-l4 and Sluice: what `xcaddy build` makes of them,
// without the tool.
package main

import (
	caddycmd "github.com/caddyserver/caddy/v2/cmd"
	_ "github.com/caddyserver/caddy/v2/modules/standard"

	_ "github.com/caddy-sluice/sluice"
)

func main() { caddycmd.Main() }
