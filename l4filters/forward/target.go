package forward

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strconv"
	"strings"

	"github.com/caddyserver/caddy/v2"
	"github.com/mholt/caddy-l4/layer4"
	"go.uber.org/zap"

	"github.com/caddy-sluice/sluice/internal/snitable"
	"github.com/caddy-sluice/sluice/modules/hostport"
	"github.com/caddy-sluice/sluice/modules/session"
)

// connPrefix is what the placeholders about a connection begin with.
const connPrefix = "l4."

// target is the address of an upstream.
type target struct {
	// path is that of a unix socket; empty for TCP.
	path string
	host string
	port uint16
	// trusted says that the operator wrote the host.
	trusted bool
	// text is the address as it stands in logs and in the session.
	text string
}

// expandAtLoad replaces the placeholders of an upstream but those about the connection, and says whether there are such.
func expandAtLoad(upstream string) (address string, dynamic bool, err error) {
	address, err = caddy.NewReplacer().ReplaceFunc(upstream, func(key string, value any) (any, error) {
		switch {
		case value == nil && strings.HasPrefix(key, connPrefix) && session.MayKnow(key):
			dynamic = true
			return "{" + key + "}", nil
		case value == nil:
			return nil, fmt.Errorf("unrecognized placeholder {%s}", key)
		case caddy.ToString(value) == "":
			return nil, fmt.Errorf("evaluated placeholder {%s} is empty", key)
		}
		return value, nil
	})
	if err != nil {
		return "", false, fmt.Errorf("%q: %w", upstream, err)
	}
	return address, dynamic, nil
}

// parseUpstream returns the target that an operator's address stands for.
func parseUpstream(address string) (*target, error) {
	a, err := hostport.Parse(address)
	if err != nil {
		return nil, err
	}
	return &target{path: a.Path, host: a.Host, port: a.Port, trusted: true, text: a.String()}, nil
}

// setTemplate keeps the address of an upstream that depends on the connection, and what may come of it.
func (h *Handler) setTemplate(address string) error {
	if strings.Contains(address, "/") {
		return fmt.Errorf("upstream: %q: an address with a placeholder about the connection must be host:port", h.Upstream)
	}
	h.template = address
	for i, entry := range h.Allow {
		a, err := parseAllowed(entry)
		if err != nil {
			return fmt.Errorf("allow %d: %q: %w", i, entry, err)
		}
		h.allow = append(h.allow, a)
	}
	return nil
}

// choose returns the upstream of this connection, or ends the session. What comes out of the placeholders may be the
// client's words: it is looked at closely and logged for those who debug only.
func (h *Handler) choose(cx *layer4.Connection, sess *session.Session) *target {
	address, err := cx.Replacer().ReplaceOrErr(h.template, true, true)
	var to *target
	if err == nil {
		to, err = h.allow.parse(address)
	}
	if err == nil {
		return to
	}
	sess.End(session.Guard)
	if entry := h.logger.Check(zap.DebugLevel, "upstream is not allowed"); entry != nil {
		entry.Write(zap.Stringer("remote", sess.Client), zap.String("upstream", address), zap.Error(err))
	}
	return nil
}

// allowed is an entry of the allow list: a name's pattern or an address, and ports.
type allowed struct {
	pattern     string
	addr        netip.Addr
	first, last uint16
}

type allowList []allowed

// parseAllowed reads an entry.
func parseAllowed(entry string) (a allowed, err error) {
	host, ports, err := net.SplitHostPort(entry)
	if err != nil {
		return a, errors.New("must be a name or an address with a port, or a range of ports")
	}
	first, last, isRange := strings.Cut(ports, "-")
	if a.first, err = hostport.Port(first); err != nil {
		return a, err
	}
	a.last = a.first
	if isRange {
		if a.last, err = hostport.Port(last); err != nil {
			return a, err
		}
	}
	if a.last < a.first {
		return a, fmt.Errorf("port range %s ends before it begins", ports)
	}
	if addr, err := netip.ParseAddr(host); err == nil {
		if addr.Zone() != "" {
			return a, errors.New("an address must not have a zone")
		}
		a.addr = addr.Unmap()
		return a, nil
	}
	a.pattern, err = snitable.Normalize(host)
	return a, err
}

// parse returns the target that an address stands for, if it is allowed.
func (l allowList) parse(address string) (*target, error) {
	host, portText, err := net.SplitHostPort(address)
	if err != nil {
		return nil, err
	}
	port, err := hostport.Port(portText)
	if err != nil {
		return nil, err
	}
	addr, err := netip.ParseAddr(host)
	if err == nil {
		if addr.Zone() != "" {
			return nil, errors.New("an address with a zone")
		}
		addr = addr.Unmap()
		host = addr.String()
	} else if host, err = hostport.Name(host); err != nil {
		return nil, err
	}
	for _, a := range l {
		if a.covers(host, addr, port) {
			return &target{host: host, port: port, text: net.JoinHostPort(host, strconv.Itoa(int(port)))}, nil
		}
	}
	return nil, errors.New("it is not on the allow list")
}

// covers says whether the entry allows a name, or an address if there is one, at a port.
func (a *allowed) covers(name string, addr netip.Addr, port uint16) bool {
	if port < a.first || port > a.last {
		return false
	}
	if addr.IsValid() || a.addr.IsValid() {
		return a.addr == addr
	}
	return snitable.Covers(a.pattern, name)
}
