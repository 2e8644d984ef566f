package clusterproxy

import (
	"slices"
	"strings"

	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
	"github.com/caddyserver/caddy/v2/caddyconfig/httpcaddyfile"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/caddy-sluice/sluice/caddyfile/args"
)

// directive is the name of the directive.
const directive = "cluster_proxy"

func init() {
	httpcaddyfile.RegisterHandlerDirective(directive, parse)
	httpcaddyfile.RegisterDirectiveOrder(directive, httpcaddyfile.Before, "reverse_proxy")
}

// parse reads the directive. Syntax:
//
//	cluster_proxy [<matcher>] <cluster> {
//		allow_upgrade      <protocols...>
//		transport http {
//			...
//		}
//		header_up          [+|-]<field> [<value|regexp> [<replacement>]]
//		header_down        [+|-]<field> [<value|regexp> [<replacement>]]
//		...
//	}
//
// The other options are those of Caddy's reverse_proxy, but for those that a cluster has.
func parse(helper httpcaddyfile.Helper) (caddyhttp.MiddlewareHandler, error) {
	h := new(Handler)
	d := helper.Dispenser
	if err := h.takeOwn(d); err != nil {
		return nil, err
	}
	d.Reset()
	if err := h.Handler.UnmarshalCaddyfile(d); err != nil {
		return nil, err
	}
	return h, h.Handler.FinalizeUnmarshalCaddyfile(helper)
}

// takeOwn takes what is ours out of the tokens, and refuses what doesn't go with a cluster where it stands.
func (h *Handler) takeOwn(d *caddyfile.Dispenser) error {
	d.Next() // consume directive name
	if !d.NextArg() {
		return d.Err("needs the name of a cluster")
	}
	h.Cluster = d.Val()
	d.Delete()
	if d.NextArg() {
		return d.Errf("unexpected argument %q: %s", d.Val(), saysEndpoints)
	}
	for d.NextBlock(0) {
		if err := h.takeOption(d); err != nil {
			return err
		}
	}
	return nil
}

// takeOption takes the option at which d stands, if it is ours, and skips one that Caddy's reverse proxy knows.
func (h *Handler) takeOption(d *caddyfile.Dispenser) error {
	switch name := d.Val(); {
	case name == "allow_upgrade":
		if h.AllowUpgrade != nil {
			return d.Err("allow_upgrade was given before")
		}
		names, err := args.Many(d)
		if err != nil {
			return err
		}
		h.AllowUpgrade = names
		d.DeleteN(1 + len(names))
		return nil
	case name == "transport":
		return checkTransportTokens(d.NewFromNextSegment())
	case whyRefused(name) != "":
		return d.Errf("%s: %s", name, whyRefused(name))
	}
	d.NextSegment()
	return nil
}

// whyRefused says why an option doesn't go with a cluster, or where else it stands; it is empty for those that do.
func whyRefused(name string) string {
	switch {
	case name == "to", name == "dynamic":
		return saysEndpoints
	case name == "lb_policy":
		return saysBalance
	case strings.HasPrefix(name, "lb_"):
		return saysRetry
	case strings.HasPrefix(name, "health_"):
		return saysHealth
	case name == "unhealthy_request_count":
		return saysLimits
	case strings.HasPrefix(name, "unhealthy_"), name == "fail_duration", name == "max_fails":
		return saysPassive
	case slices.Contains(clusterOptions, name):
		return saysCluster
	}
	return ""
}

// clusterOptions are the options of a cluster. Caddy's reverse proxy has none of these names.
var clusterOptions = []string{
	"endpoint", "endpoints", "discover", "balance", "on_no_endpoint", "panic_threshold", "slow_start", "health", "passive",
	"outlier", "limits", "retry", "per_try_timeout", "request_timeout", "tls", "proxy_protocol", "guard", "allow_private",
	"close_on_unhealthy",
}

// checkTransportTokens refuses what in a `transport` doesn't go with a cluster.
func checkTransportTokens(d *caddyfile.Dispenser) error {
	d.Next() // consume option name
	if d.NextArg() && d.Val() != "http" {
		return d.Errf("transport %s: %s", d.Val(), saysTransport)
	}
	for nesting := d.Nesting(); d.NextBlock(nesting); {
		if err := checkTransportOption(d); err != nil {
			return err
		}
	}
	return nil
}

// checkTransportOption looks at the option of a transport at which d stands.
func checkTransportOption(d *caddyfile.Dispenser) error {
	name, reason := d.Val(), ""
	switch name {
	case "versions":
		if slices.Contains(d.RemainingArgs(), "3") {
			return d.Errf("versions: %s", saysHTTP3)
		}
		return nil
	case "forward_proxy_url", "network_proxy":
		reason = saysProxy
	case "resolvers", "dial_fallback_delay":
		reason = saysNames
	case "max_conns_per_host":
		reason = "nothing waits for a connection; " + saysLimits
	}
	if reason != "" {
		return d.Errf("%s: %s", name, reason)
	}
	d.NextSegment()
	return nil
}
