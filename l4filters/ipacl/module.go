// Package ipacl lets clients in or keeps them out by their IP address.
package ipacl

import (
	"errors"
	"fmt"
	"net"
	"net/netip"

	"github.com/caddyserver/caddy/v2"
	"github.com/mholt/caddy-l4/layer4"
	"go.uber.org/zap"

	"github.com/caddy-sluice/sluice/caddyfile/ipranges"
	"github.com/caddy-sluice/sluice/internal/ipset"
	"github.com/caddy-sluice/sluice/modules/addrcheck"
	"github.com/caddy-sluice/sluice/modules/session"
)

func init() {
	caddy.RegisterModule(&Handler{})
}

// Handler is the handler `ip_acl`. A client on the list `deny` is refused, whatever else holds. If there is a list
// `allow`, every client that is not on it is refused too. What is refused is closed without a byte.
//
// A client is its IP address: the one in the PROXY header, if there was one. An IPv4 address that is written as IPv6 is
// the IPv4 address. A client without an IP address, on a unix socket, is refused if there is a list `allow`.
type Handler struct {
	// The IP addresses and CIDR ranges (or `private_ranges`) of the clients that may connect. Default: all but those on
	// the list `deny`, which is required then. Placeholders are replaced at load.
	Allow []string `json:"allow,omitempty"`

	// The IP addresses and CIDR ranges (or `private_ranges`) of the clients that may not. Default: none. Placeholders
	// are replaced at load.
	Deny []string `json:"deny,omitempty"`

	// What happens if the filter fails. It can be `closed` only, which is the default: a filter for security must not
	// let in what it can't judge. No placeholders.
	FailureMode string `json:"failure_mode,omitempty"`

	allow, deny ipset.Set
	logger      *zap.Logger
}

// CaddyModule returns the Caddy module information.
func (*Handler) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{
		ID:  "layer4.handlers.ip_acl",
		New: func() caddy.Module { return new(Handler) },
	}
}

// Provision reads the lists.
func (h *Handler) Provision(ctx caddy.Context) (err error) {
	h.logger = ctx.Logger()
	if len(h.Allow) == 0 && len(h.Deny) == 0 {
		return errors.New("allow, deny: at least one of the two must have an address or a range")
	}
	switch h.FailureMode {
	case "", "closed":
	case "open":
		return errors.New(`failure_mode: "open" is refused: this is a filter for security; must be closed`)
	default:
		return fmt.Errorf("failure_mode: %q is not known; must be closed", h.FailureMode)
	}
	if h.allow, err = parse(h.Allow); err != nil {
		return fmt.Errorf("allow: %w", err)
	}
	if h.deny, err = parse(h.Deny); err != nil {
		return fmt.Errorf("deny: %w", err)
	}
	if err := addrcheck.Handler(ctx); err != nil {
		return err
	}
	return metrics.register(ctx.GetMetricsRegistry())
}

// parse turns a list into a set.
func parse(list []string) (ipset.Set, error) {
	prefixes, err := ipranges.Parse(list)
	if err != nil {
		return ipset.Set{}, err
	}
	return ipset.New(prefixes), nil
}

// Handle calls next if the client may connect.
func (h *Handler) Handle(cx *layer4.Connection, next layer4.Handler) error {
	sess := session.Inside(cx)
	if sess == nil {
		return session.First(cx, h, next, h.logger)
	}
	if !h.passes(sess) {
		return nil
	}
	return next.Handle(cx)
}

// passes says whether the connection may go on, and refuses its client else.
func (h *Handler) passes(sess *session.Session) bool {
	if sess.CloseReason() != session.Open {
		return false
	}
	if !h.permits(sess.Client) {
		h.refuse(sess)
		return false
	}
	return true
}

// permits judges a client.
func (h *Handler) permits(client net.Addr) bool {
	var ip netip.Addr // not valid: on no list
	if tcp, ok := client.(*net.TCPAddr); ok {
		ip = tcp.AddrPort().Addr()
	}
	if h.deny.Contains(ip) {
		return false
	}
	return len(h.Allow) == 0 || h.allow.Contains(ip)
}

// refuse ends the session of a client that may not connect.
func (h *Handler) refuse(sess *session.Session) {
	sess.End(session.FilterRejection)
	metrics.rejected.Inc()
	if entry := h.logger.Check(zap.DebugLevel, "client not permitted"); entry != nil {
		entry.Write(zap.String("remote", sess.Client.String()), zap.String("listener", sess.Listener.String()))
	}
}

// Interface guards
var (
	_ caddy.Provisioner  = (*Handler)(nil)
	_ layer4.NextHandler = (*Handler)(nil)
)
