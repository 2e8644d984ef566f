package forward

import (
	"strings"

	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"

	"github.com/caddy-sluice/sluice/caddyfile/args"
	"github.com/caddy-sluice/sluice/internal/netguard"
	"github.com/caddy-sluice/sluice/modules/cluster"
	"github.com/caddy-sluice/sluice/modules/upstreamtls"
)

// UnmarshalCaddyfile reads the handler. Syntax:
//
//	forward <address|cluster> {
//		allow                  <name|address:port[-port]...>
//		connect_timeout        <duration>
//		idle_timeout           <duration>|off
//		session_timeout        <duration>
//		max_duration           <duration>
//		half_close_timeout     <duration>|off
//		proxy_protocol         v1|v2|relay
//		tls {
//			...
//		}
//		guard                  dns|strict|off
//		allow_private
//		max_connections_per_ip <number>
//		ipv6_prefix            <bits>
//		keepalive              <duration>|off
//		user_timeout           <duration>
//	}
func (h *Handler) UnmarshalCaddyfile(d *caddyfile.Dispenser) (err error) {
	d.Next() // consume handler name
	to, err := args.One(d)
	if err != nil {
		return err
	}
	if cluster.CheckName(to) == nil {
		h.Cluster = to
	} else if err := h.unmarshalUpstream(to); err != nil {
		return d.WrapErr(err)
	}
	return args.Options(d, h.unmarshalOption, "allow") // which adds to the list
}

// unmarshalUpstream takes an address. A placeholder is replaced where the config is loaded, not where it is adapted.
func (h *Handler) unmarshalUpstream(address string) error {
	h.Upstream = address
	if strings.Contains(address, "{") {
		return nil
	}
	_, err := parseUpstream(address)
	return err
}

// unmarshalOption reads the option at which d stands.
func (h *Handler) unmarshalOption(d *caddyfile.Dispenser) (err error) {
	switch name := d.Val(); name {
	case "allow":
		var entries []string
		entries, err = args.Many(d)
		h.Allow = append(h.Allow, entries...)
	case "connect_timeout":
		h.ConnectTimeout, err = args.Duration(d)
	case "idle_timeout":
		h.IdleTimeout, err = args.DurationOrOff(d)
	case "session_timeout":
		h.SessionTimeout, err = args.Duration(d)
	case "max_duration":
		h.MaxDuration, err = args.Duration(d)
	case "half_close_timeout":
		h.HalfCloseTimeout, err = args.DurationOrOff(d)
	case "proxy_protocol":
		h.ProxyProtocol, err = args.One(d)
	case "tls":
		h.TLS = new(upstreamtls.TLS)
		err = h.TLS.UnmarshalBlock(d)
	case "guard":
		h.Guard = new(netguard.Mode)
		*h.Guard, err = cluster.UnmarshalGuard(d)
	case "allow_private":
		h.AllowPrivate, err = true, args.None(d)
	case "max_connections_per_ip":
		h.MaxConnectionsPerIP, err = args.Int(d)
	case "ipv6_prefix":
		var bits int64
		bits, err = args.Int(d)
		h.IPv6Prefix = int(bits)
	case "keepalive":
		h.KeepAlive, err = args.DurationOrOff(d)
	case "user_timeout":
		h.UserTimeout, err = args.Duration(d)
	default:
		err = d.Errf("unrecognized option %q: expected one of %s", name, options)
	}
	return err
}

// options are the names of all options, for errors.
const options = "allow, connect_timeout, idle_timeout, session_timeout, max_duration, half_close_timeout, proxy_protocol, " +
	"tls, guard, allow_private, max_connections_per_ip, ipv6_prefix, keepalive, user_timeout"

// Interface guards
var _ caddyfile.Unmarshaler = (*Handler)(nil)
