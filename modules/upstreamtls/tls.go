// Package upstreamtls has the settings of TLS to an upstream, for all that connects to one.
package upstreamtls

import (
	"context"
	"crypto/tls"
	"net"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp/reverseproxy"
)

// TLS are the settings: those of Caddy's reverse proxy, but `except_ports`, and `alpn`.
type TLS struct {
	reverseproxy.TLSConfig

	// The protocols to offer to the upstream, in order of preference, 1 to 255 bytes each. Default: what was agreed on
	// with the client if its TLS ends here, else none. No placeholders.
	ALPN []string `json:"alpn,omitempty"`
}

// Client is TLS to upstreams, ready to use. Config isn't changed.
type Client struct {
	Config           *tls.Config
	HandshakeTimeout time.Duration
}

// Client checks the settings. Without a server_name, Config.ServerName is empty: Handshake takes the host then.
func (t *TLS) Client(ctx caddy.Context) (*Client, error) { panic("not yet") }

// Handshake makes the handshake on conn, with a host as the name if there is no other. alpn is offered if the settings
// have none.
func (c *Client) Handshake(ctx context.Context, conn net.Conn, host string, alpn ...string) (*tls.Conn, error) {
	panic("not yet")
}
