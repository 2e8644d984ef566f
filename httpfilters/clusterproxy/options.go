package clusterproxy

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp/reverseproxy"
	"golang.org/x/net/http/httpguts"

	"github.com/caddy-sluice/sluice/modules/cluster"
)

// Why options of Caddy's reverse proxy don't go with a cluster.
const (
	saysEndpoints = "the cluster says which endpoints there are: use its endpoint, endpoints and discover"
	saysCluster   = "it belongs to the cluster, in the global option sluice: write it into the block of the cluster there"
	saysBalance   = "the cluster balances: use its balance"
	saysRetry     = "the cluster says what is tried again: use its retry"
	saysHealth    = "the cluster checks its endpoints: use its health"
	saysPassive   = "the cluster counts what fails: use its passive and outlier"
	saysLimits    = "the cluster has limits: use its limits"
	saysTransport = "connections to endpoints are guarded and counted, which only the http transport allows"
	saysHTTP3     = "connections of HTTP/3 aren't guarded; must be one or more of 1.1, 2, h2c"
	saysProxy     = "the guard judges where connections go, which a forward proxy would hide"
	saysNames     = "the guard resolves the names of endpoints, and tries their addresses one after the other"
	saysTLS       = "the cluster has TLS settings of its own; only one of the two may"
	saysHeader    = "the cluster has a proxy_protocol of its own; only one of the two may"
)

// checkOptions refuses what doesn't go with a cluster.
func (h *Handler) checkOptions() error {
	for _, conflict := range []struct {
		set          bool
		name, reason string
	}{
		{len(h.Upstreams) > 0, "upstreams", saysEndpoints},
		{h.DynamicUpstreamsRaw != nil, "dynamic_upstreams", saysEndpoints},
		{h.LoadBalancing != nil, "load_balancing", saysBalance + " and retry"},
		{h.HealthChecks != nil, "health_checks", saysHealth + ", passive and outlier"},
		{h.CBRaw != nil, "circuit_breaker", saysLimits + " and outlier"},
	} {
		if conflict.set {
			return fmt.Errorf("%s: %s", conflict.name, conflict.reason)
		}
	}
	for i, name := range h.AllowUpgrade {
		if !isProtocol(name) {
			return fmt.Errorf("allow_upgrade %d: %q is not the name of a protocol", i, name)
		}
	}
	return nil
}

// isProtocol says whether a text is a protocol as in an Upgrade header: a name, and perhaps a version (RFC 9110 section
// 7.8).
func isProtocol(text string) bool {
	name, version, versioned := strings.Cut(text, "/")
	return httpguts.ValidHeaderFieldName(name) && (!versioned || httpguts.ValidHeaderFieldName(version))
}

// decodeTransport reads the settings of the transport.
func decodeTransport(raw json.RawMessage) (*reverseproxy.HTTPTransport, error) {
	settings := struct {
		Protocol string `json:"protocol"`
		reverseproxy.HTTPTransport
	}{Protocol: "http"}
	if raw != nil {
		d := json.NewDecoder(bytes.NewReader(raw))
		d.DisallowUnknownFields()
		if err := d.Decode(&settings); err != nil {
			return nil, err
		}
	}
	if settings.Protocol != "http" {
		return nil, fmt.Errorf("protocol: %q: %s", settings.Protocol, saysTransport)
	}
	t := &settings.HTTPTransport
	return t, checkTransport(t)
}

// checkTransport refuses settings of a transport that don't go with a cluster.
func checkTransport(t *reverseproxy.HTTPTransport) error {
	switch {
	case slices.Contains(t.Versions, "3"):
		return errors.New("versions: " + saysHTTP3)
	case t.ForwardProxyURL != "":
		return errors.New("forward_proxy_url: " + saysProxy)
	case t.NetworkProxyRaw != nil:
		return errors.New("network_proxy: " + saysProxy)
	case t.Resolver != nil:
		return errors.New("resolver: " + saysNames)
	case t.FallbackDelay != 0:
		return errors.New("dial_fallback_delay: " + saysNames)
	case t.MaxConnsPerHost != 0:
		return errors.New("max_conns_per_host: nothing waits for a connection; " + saysLimits)
	case t.ProxyProtocol != "" && t.ProxyProtocol != "v1" && t.ProxyProtocol != "v2":
		return fmt.Errorf("proxy_protocol: %q must be v1 or v2", t.ProxyProtocol)
	}
	return nil
}

// conflict says what the transport and the cluster both say.
func (ls *links) conflict(c *cluster.Cluster) error {
	switch {
	case ls.tls != nil && c.TLS() != nil:
		return errors.New("transport.tls: " + saysTLS)
	case ls.base.ProxyProtocol != "" && c.ProxyProtocol() != "":
		return errors.New("transport.proxy_protocol: " + saysHeader)
	case ls.tls == nil:
		return nil
	}
	if err := c.CheckTLS(ls.tls); err != nil {
		return fmt.Errorf("transport.tls.%w of cluster %q", err, c.Name())
	}
	return nil
}
