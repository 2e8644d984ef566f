// Package upstreamtls has the settings of TLS to an upstream, for all that connects to one.
package upstreamtls

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp/reverseproxy"
)

const (
	// minHandshakeTimeout and maxHandshakeTimeout bound `handshake_timeout`, as they bound the timeout of a connect.
	minHandshakeTimeout = 10 * time.Millisecond
	maxHandshakeTimeout = 5 * time.Minute
	// maxProtocol is the longest name that ALPN has room for, in bytes (RFC 7301 §3.1).
	maxProtocol = 255
)

// TLS are the settings: those of Caddy's reverse proxy, but `except_ports`, and `alpn`.
//
// The `server_name` is by default the host of the upstream's address. Placeholders such as `{env.NAME}` in it are
// replaced at load. The `handshake_timeout` has a range from `10ms` to `5m`; whatever it says, the handshake ends with the
// timeout of the connect that it is part of.
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
func (t *TLS) Client(ctx caddy.Context) (*Client, error) {
	if err := t.check(); err != nil {
		return nil, err
	}
	name, err := caddy.NewReplacer().ReplaceOrErr(t.ServerName, true, true)
	if err != nil {
		return nil, fmt.Errorf("server_name: %q: %w", t.ServerName, err)
	}
	config, err := t.MakeTLSClientConfig(ctx)
	if err != nil {
		return nil, err
	}
	if config == nil {
		config = new(tls.Config)
	}
	config.ServerName = name
	config.NextProtos = t.ALPN
	return &Client{config, time.Duration(t.HandshakeTimeout)}, nil
}

// check refuses what Caddy would take and we can't use.
func (t *TLS) check() error {
	if len(t.ExceptPorts) > 0 {
		return errors.New("except_ports: is not supported")
	}
	timeout := time.Duration(t.HandshakeTimeout)
	if timeout != 0 && (timeout < minHandshakeTimeout || timeout > maxHandshakeTimeout) {
		return fmt.Errorf("handshake_timeout: %v is out of range, %v to %v", timeout, minHandshakeTimeout, maxHandshakeTimeout)
	}
	return CheckALPN(t.ALPN)
}

// CheckALPN refuses names that no hello can carry.
func CheckALPN(names []string) error {
	for i, name := range names {
		if name == "" || len(name) > maxProtocol {
			return fmt.Errorf("alpn %d: %q must have 1 to %d bytes", i, name, maxProtocol)
		}
	}
	return nil
}

// Handshake makes the handshake on conn, with a host as the name if there is no other. alpn is offered if the settings
// have none. If it fails, conn is the caller's to close.
func (c *Client) Handshake(ctx context.Context, conn net.Conn, host string, alpn ...string) (*tls.Conn, error) {
	if c.HandshakeTimeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, c.HandshakeTimeout)
		defer cancel()
	}
	secured := tls.Client(conn, c.config(host, alpn))
	if err := secured.HandshakeContext(ctx); err != nil {
		return nil, fmt.Errorf("TLS handshake: %w", err)
	}
	return secured, nil
}

// config returns the config, or a copy of it that has what it lacks.
func (c *Client) config(host string, alpn []string) *tls.Config {
	named := c.Config.ServerName != "" || host == ""
	offers := len(c.Config.NextProtos) > 0 || len(alpn) == 0
	if named && offers {
		return c.Config
	}
	config := c.Config.Clone()
	if !named {
		config.ServerName = host
	}
	if !offers {
		config.NextProtos = alpn
	}
	return config
}
