package explain

import (
	"encoding/json"
	"fmt"
	"slices"
)

// endsTLS reports whether the wrapper in place i gets connections of which TLS was ended before: Caddy does that in front of
// all wrappers, unless `tls` says where.
func (c *config) endsTLS(s server, i int) (bool, error) {
	if slices.ContainsFunc(s.Wrappers[i:], func(w wrapper) bool { return w.Wrapper == "tls" }) {
		return false, nil
	}
	return c.hasTLS(s)
}

// hasTLS reports whether Caddy ends TLS on a server, by its own rules: with a policy, or by automatic HTTPS.
func (c *config) hasTLS(s server) (bool, error) {
	plain, err := onlyPort(s.Listen, c.Apps.HTTP.HTTPPort, 80)
	switch {
	case err != nil || plain:
		return false, err
	case len(s.TLSPolicies) > 0:
		return true, nil
	case s.AutoHTTPS.Disable:
		return false, nil
	}
	secure, err := onlyPort(s.Listen, c.Apps.HTTP.HTTPSPort, 443)
	if err != nil || secure {
		return secure, err
	}
	var routes []struct {
		Match []struct {
			Host []string `json:"host"`
		} `json:"match"`
	}
	_ = json.Unmarshal(s.Routes, &routes) // what can't be read has no names
	for _, route := range routes {
		for _, match := range route.Match {
			named := func(host string) bool { return !slices.Contains(s.AutoHTTPS.Skip, host) }
			if slices.ContainsFunc(match.Host, named) {
				return true, nil
			}
		}
	}
	return false, nil
}

// onlyPort reports whether all addresses are for one port. A zero is the usual one.
func onlyPort(listen []string, port, usual uint) (bool, error) {
	if port == 0 {
		port = usual
	}
	for _, address := range listen {
		na, err := parseAddress(address)
		if err != nil {
			return false, fmt.Errorf("listen: %w", err)
		}
		if na.StartPort != port || na.EndPort != port {
			return false, nil
		}
	}
	return len(listen) > 0, nil
}
