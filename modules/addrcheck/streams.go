package addrcheck

import (
	"bytes"
	"encoding/json"
	"fmt"

	"github.com/caddyserver/caddy/v2"
	"github.com/mholt/caddy-l4/layer4"
)

// streams refuses a layer4 server for datagrams in whose routes the handler stands: our handlers are for streams. When a
// handler is provisioned, the routes that are still to be, its own included, have their handlers as JSON; those before
// it were looked at when the first handler of its kind was.
func streams(l4 *layer4.App, handler caddy.Module) error {
	name := handler.CaddyModule().ID.Name()
	mark := fmt.Appendf(nil, `"handler":%q`, name)
	for server, s := range l4.Servers {
		for _, addr := range s.Listen {
			na, err := parse(addr)
			if err != nil {
				return err
			}
			if datagrams(na.Network) && mentions(s.Routes, mark) {
				return fmt.Errorf("listen: %s is for streams; layer4 server %q listens on %s", name, server, addr)
			}
		}
	}
	return nil
}

// datagrams says whether a network has no streams.
func datagrams(network string) bool {
	switch network {
	case "udp", "udp4", "udp6", "unixgram", "fdgram":
		return true
	}
	return false
}

// mentions says whether mark stands in the JSON of the routes' handlers.
func mentions(routes layer4.RouteList, mark []byte) bool {
	for _, route := range routes {
		for _, raw := range route.HandlersRaw {
			var compact bytes.Buffer
			if json.Compact(&compact, raw) == nil && bytes.Contains(compact.Bytes(), mark) {
				return true
			}
		}
	}
	return false
}
