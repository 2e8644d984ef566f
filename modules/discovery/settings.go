package discovery

import (
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strings"

	"github.com/caddyserver/caddy/v2"

	"github.com/caddy-sluice/sluice/internal/guarddial"
	"github.com/caddy-sluice/sluice/modules/hostport"
)

// maxResolvers is how many name servers may be given. Within the time of a lookup no more than five that don't answer
// can be asked.
const maxResolvers = 8

// provision checks the settings and returns what looks.
func (s *SRV) provision() (*srvFinder, error) {
	name, err := dnsName(s.Name)
	if err != nil {
		return nil, fmt.Errorf("srv: name: %w", err)
	}
	servers, err := nameServers(s.Resolvers)
	if err != nil {
		return nil, fmt.Errorf("srv: resolvers: %w", err)
	}
	id, err := identity("srv", SRV{Name: name, Resolvers: servers})
	f := &srvFinder{id: id, name: name, resolver: newResolver(servers)}
	if servers != nil {
		f.names = guarddial.NamesBy(f.resolver.addressesOf)
	}
	return f, err
}

// provision checks the settings and returns what looks.
func (a *A) provision() (*aFinder, error) {
	name, err := dnsName(a.Name)
	if err != nil {
		return nil, fmt.Errorf("a: name: %w", err)
	}
	if a.Port < 1 || a.Port > 65535 {
		return nil, fmt.Errorf("a: port %d is not between 1 and 65535", a.Port)
	}
	servers, err := nameServers(a.Resolvers)
	if err != nil {
		return nil, fmt.Errorf("a: resolvers: %w", err)
	}
	id, err := identity("a", A{Name: name, Port: a.Port, Resolvers: servers})
	return &aFinder{id: id, name: name, port: uint16(a.Port), resolver: newResolver(servers)}, err
}

// identity returns what is looked for, as JSON: a kind and its settings.
func identity(kind string, settings any) (string, error) {
	text, err := json.Marshal(map[string]any{kind: settings})
	return string(text), err
}

// dnsName replaces the placeholders in a name, and returns it in lower case.
func dnsName(text string) (string, error) {
	name, err := caddy.NewReplacer().ReplaceOrErr(text, true, true)
	if err != nil {
		return "", err
	}
	name = strings.ToLower(name)
	if name == "" {
		return "", errors.New("it is required")
	}
	if _, err := netip.ParseAddr(name); err == nil {
		return "", fmt.Errorf("%q is an address: it needs no name server, write it as an endpoint", name)
	}
	if !isName(name) {
		return "", fmt.Errorf("%q is not a name that DNS could know (other scripts as xn--)", name)
	}
	return name, nil
}

// isName says whether a name can be one of a host or a service: labels of letters, digits, hyphens and underscores, with
// or without the last dot (RFC 1035 §2.3.4 for the lengths).
func isName(name string) bool {
	name = strings.TrimSuffix(name, ".")
	if name == "" || len(name) > 253 {
		return false
	}
	for label := range strings.SplitSeq(name, ".") {
		if label == "" || len(label) > 63 || strings.ContainsFunc(label, outsideLabels) {
			return false
		}
	}
	return true
}

// outsideLabels says whether a character can't be in a label.
func outsideLabels(r rune) bool {
	return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && r != '-' && r != '_'
}

// nameServers replaces the placeholders in the addresses of name servers, and returns them with their ports.
func nameServers(list []string) ([]string, error) {
	if len(list) > maxResolvers {
		return nil, fmt.Errorf("%d are given, at most %d are used", len(list), maxResolvers)
	}
	var servers []string
	for _, text := range list {
		replaced, err := caddy.NewReplacer().ReplaceOrErr(text, true, true)
		if err != nil {
			return nil, err
		}
		server, err := nameServer(replaced)
		if err != nil {
			return nil, err
		}
		servers = append(servers, server)
	}
	return servers, nil
}

// nameServer returns the address of a name server with its port, which is 53 if none is given.
func nameServer(text string) (string, error) {
	if addr, err := netip.ParseAddr(strings.Trim(text, "[]")); err == nil {
		return net.JoinHostPort(addr.String(), "53"), nil
	}
	host, port, err := net.SplitHostPort(text)
	if err != nil {
		host, port = text, "53"
	}
	if addr, err := netip.ParseAddr(host); err == nil {
		host = addr.String()
	} else if !isName(host) {
		return "", fmt.Errorf("%q is neither host nor host:port", text)
	}
	if _, err := hostport.Port(port); err != nil {
		return "", fmt.Errorf("%q has no port between 1 and 65535", text)
	}
	return net.JoinHostPort(strings.ToLower(host), port), nil
}
