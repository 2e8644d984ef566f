// Package hostport reads the addresses of upstreams: `host:port`, or the path of a unix socket.
package hostport

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strconv"
	"strings"

	"github.com/caddyserver/caddy/v2"

	"github.com/caddy-sluice/sluice/internal/snitable"
)

// Address is where an upstream listens.
type Address struct {
	// Host is a name or an IP address without brackets.
	Host string
	Port uint16
	// Path is that of a unix socket; empty for TCP.
	Path string
}

// String returns the address as Parse reads it.
func (a Address) String() string {
	if a.Path != "" {
		return "unix/" + a.Path
	}
	return net.JoinHostPort(a.Host, strconv.Itoa(int(a.Port)))
}

// Parse returns the address that an operator wrote.
func Parse(text string) (Address, error) {
	if text == "" {
		return Address{}, errors.New("is required")
	}
	na, err := caddy.ParseNetworkAddress(text)
	if err != nil {
		return Address{}, fmt.Errorf("%q: %w", text, portError(text, err))
	}
	path, _, _ := strings.Cut(na.Host, "|") // permission bits are for those who listen
	switch {
	case na.Network == "unix" && path != "":
		return Address{Path: path}, nil
	case na.Network != "tcp" && na.Network != "unix":
		return Address{}, fmt.Errorf("%q: must be host:port or unix/path, not %s", text, na.Network)
	case na.Host == "" || na.StartPort == 0:
		return Address{}, fmt.Errorf("%q: must be an address, host:port or unix/path", text)
	case na.PortRangeSize() != 1:
		return Address{}, fmt.Errorf("%q: must have one port, not a range", text)
	}
	addr, err := netip.ParseAddr(na.Host)
	if addr.Zone() != "" {
		return Address{}, fmt.Errorf("%q: must not have a zone: the guard refuses link-local addresses", text)
	}
	if err != nil {
		if _, err := Name(na.Host); err != nil {
			return Address{}, fmt.Errorf("%q: %w", text, err)
		}
	}
	return Address{Host: na.Host, Port: uint16(na.StartPort)}, nil
}

// portError returns what is wrong with the port of an address; err if it is something else.
func portError(address string, err error) error {
	if _, port, splitErr := net.SplitHostPort(address); splitErr == nil {
		if _, portErr := Port(port); portErr != nil {
			return portErr
		}
	}
	return err
}

// Normal returns the address in the form that all its ways to be written have in common. A name loses the dot at its end,
// which Absolute tells.
func (a Address) Normal() Address {
	if addr, err := netip.ParseAddr(a.Host); err == nil {
		a.Host = addr.Unmap().String()
	} else if name, err := Name(a.Host); err == nil {
		a.Host = name
	}
	return a
}

// Absolute says whether the host is a name with a dot at its end: it is not to be tried in other domains.
func (a Address) Absolute() bool { return strings.HasSuffix(a.Host, ".") }

// Port reads a port: decimal digits, nothing else.
func Port(text string) (uint16, error) {
	port, err := strconv.ParseUint(text, 10, 16)
	if err != nil || port == 0 {
		return 0, fmt.Errorf("port %q must be a number from 1 to 65535", text)
	}
	return uint16(port), nil
}

// Name returns a host name in the form in which patterns are: lower case, ASCII, without a dot at its end.
func Name(name string) (string, error) {
	if strings.HasPrefix(name, ".") || strings.Contains(name, "*") {
		return "", errors.New("not a host name")
	}
	return snitable.Normalize(strings.TrimSuffix(name, "."))
}
