package main

import (
	"encoding/json"
	"fmt"
	"strings"
)

// accessLog is the logger of the access log.
const accessLog = "layer4.handlers.access_log"

// object is a JSON object.
type object = map[string]any

// layer4Route is a route of a layer-4 server.
type layer4Route struct {
	Match  []object `json:"match,omitempty"`
	Handle []object `json:"handle"`
}

// caddyConfig is the configuration of a Caddy with one layer-4 server. The admin endpoint is on, for forced collections.
func caddyConfig(addr, admin string, routes []layer4Route) ([]byte, error) {
	return json.Marshal(object{
		"admin": object{"listen": admin, "config": object{"persist": false}},
		"logging": object{"logs": object{
			"default": object{"level": "ERROR", "exclude": []string{accessLog}},
			// Lines are made, and thrown away.
			"access": object{"level": "INFO", "include": []string{accessLog}, "writer": object{"output": "discard"}},
		}},
		"apps": object{"layer4": object{"servers": object{
			"bench": object{"listen": []string{addr}, "routes": routes},
		}}},
	})
}

// sluiceRoutes routes each name to the upstream with one sni_router, which holds one route per name.
func sluiceRoutes(names []string, upstream string) []layer4Route {
	routes := make([]object, len(names))
	for i, name := range names {
		routes[i] = object{
			"names":  []string{name},
			"handle": []object{{"handler": "forward", "upstream": upstream}},
		}
	}
	return []layer4Route{{Handle: []object{{"handler": "sni_router", "routes": routes}}}}
}

// stockRoutes does the same with caddy-l4's own modules: one layer-4 route per name, as only that lets each name have its
// own upstream.
func stockRoutes(names []string, upstream string) []layer4Route {
	routes := make([]layer4Route, len(names))
	for i, name := range names {
		routes[i] = layer4Route{
			Match:  []object{{"tls": object{"sni": []string{name}}}},
			Handle: []object{{"handler": "proxy", "upstreams": []object{{"dial": []string{upstream}}}}},
		}
	}
	return routes
}

// haproxyConfig is HAProxy's default TLS passthrough with a map from name to backend.
func haproxyConfig(addr, upstream, table string) []byte {
	return fmt.Appendf(nil, `global
  maxconn 4500
  nbthread 2
defaults
  mode tcp
  timeout connect 5s
  timeout client 120s
  timeout server 120s
frontend bench
  bind %s
  tcp-request inspect-delay 5s
  tcp-request content accept if { req.ssl_hello_type 1 }
  use_backend %%[req.ssl_sni,lower,map(%s)]
backend upstream
  server s1 %s
`, addr, table, upstream)
}

// haproxyMap sends every name to the backend of haproxyConfig.
func haproxyMap(names []string) []byte {
	var table strings.Builder
	for _, name := range names {
		fmt.Fprintln(&table, name, "upstream")
	}
	return []byte(table.String())
}
