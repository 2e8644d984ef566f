package addrcheck

import (
	"bytes"
	"encoding/json"
	"fmt"

	"github.com/mholt/caddy-l4/layer4"
)

// streamHandlers are the handlers of ours that are for streams.
var streamHandlers = []string{handlerAccessLog, handlerAdmission, handlerIPACL, handlerRateLimit, handlerPreread, handlerRouter, handlerForward}

// streams refuses a layer4 server for datagrams in whose routes a handler for streams stands.
func streams(name string, server *layer4.Server) error {
	for _, addr := range server.Listen {
		na, err := parse(addr)
		if err != nil {
			return err
		}
		if !datagrams(na.Network) {
			continue
		}
		for _, handler := range streamHandlers {
			if anyMentions(server.Routes, handler) {
				return fmt.Errorf("listen: %s is for streams; layer4 server %q listens on %s", handler, name, addr)
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

// anyMentions says whether a handler of this name stands in one of the routes.
func anyMentions(routes layer4.RouteList, name string) bool {
	for _, route := range routes {
		for _, raw := range route.HandlersRaw {
			if mentions(raw, name) {
				return true
			}
		}
	}
	return false
}

// mentions says whether a handler of this name stands in the JSON of handlers, at any depth.
func mentions(raw json.RawMessage, name string) bool {
	var compact bytes.Buffer
	return json.Compact(&compact, raw) == nil && bytes.Contains(compact.Bytes(), fmt.Appendf(nil, `"handler":%q`, name))
}
