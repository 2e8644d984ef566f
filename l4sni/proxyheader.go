package l4sni

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"net/netip"

	"github.com/mholt/caddy-l4/layer4"

	"github.com/caddy-sluice/sluice/caddyfile/ipranges"
	"github.com/caddy-sluice/sluice/internal/proxyheader"
	"github.com/caddy-sluice/sluice/internal/replay"
	"github.com/caddy-sluice/sluice/modules/session"
)

// ProxyProtocol says which peers send a PROXY protocol header, version 1 or 2, before anything else.
type ProxyProtocol struct {
	// The IP addresses and CIDR ranges (or `private_ranges`) of the peers that must send a header. Their connections
	// are closed if they don't. No header is ever read from other peers. Required. Placeholders are replaced at load.
	From []string `json:"from,omitempty"`
}

// prefixes returns the ranges of From.
func (p *ProxyProtocol) prefixes() ([]netip.Prefix, error) {
	if len(p.From) == 0 {
		return nil, errors.New("proxy_protocol.from: must name the peers that send a header")
	}
	prefixes, err := ipranges.Parse(p.From)
	if err != nil {
		return nil, fmt.Errorf("proxy_protocol.from: %w", err)
	}
	return prefixes, nil
}

// keepHeader makes the address in a PROXY header, which may be nil, the client's, for everything that comes after. The
// session keeps the header as it came: it is the first part of the window.
func keepHeader(cx *layer4.Connection, conn *replay.Conn, sess *session.Session, header *proxyheader.Header, window []byte) {
	if header == nil {
		return
	}
	raw := bytes.Clone(window[:header.Len])
	if !header.Source.IsValid() {
		sess.Set(func() { sess.ProxyHeader = raw })
		return
	}
	client := net.TCPAddrFromAddrPort(unmap(header.Source))
	sess.Set(func() { sess.ProxyHeader, sess.Client = raw, client })
	conn.SetAddrs(client, net.TCPAddrFromAddrPort(unmap(header.Destination)))
	cx.Replacer().Set(connRemoteAddr, conn.RemoteAddr())
	cx.Replacer().Set(connLocalAddr, conn.LocalAddr())
}

// The placeholders that caddy-l4 sets to the addresses of the connection.
const (
	connRemoteAddr = layer4.AppReplPrefix + "conn.remote_addr"
	connLocalAddr  = layer4.AppReplPrefix + "conn.local_addr"
)

// unmap turns an IPv4 address that came as IPv6 (::ffff:a.b.c.d) into the IPv4 address it is.
func unmap(ap netip.AddrPort) netip.AddrPort {
	return netip.AddrPortFrom(ap.Addr().Unmap(), ap.Port())
}

// contains says whether addr lies in one of the prefixes.
func contains(prefixes []netip.Prefix, addr net.Addr) bool {
	tcp, ok := addr.(*net.TCPAddr)
	if !ok {
		return false
	}
	ip := tcp.AddrPort().Addr().Unmap().WithZone("")
	for _, prefix := range prefixes {
		if prefix.Contains(ip) {
			return true
		}
	}
	return false
}
