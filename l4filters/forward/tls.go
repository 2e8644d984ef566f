package forward

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp/reverseproxy"
	"github.com/mholt/caddy-l4/layer4"
)

// http2 is the one protocol that an upstream must agree to in the handshake (RFC 9113 §3.3).
const http2 = "h2"

// TLS are the settings of TLS to the upstream: those of Caddy's reverse proxy, but `except_ports`, and `alpn`.
//
// The `server_name` is by default the host of the upstream's address. Placeholders such as `{env.NAME}` in it are
// replaced at load. The handshake ends with `connect_timeout` at the latest, whatever `handshake_timeout` says.
type TLS struct {
	reverseproxy.TLSConfig

	// The protocols to offer to the upstream, in order of preference, 1 to 255 bytes each. Default: what was agreed on
	// with the client if its TLS ends here, else none. No placeholders.
	ALPN []string `json:"alpn,omitempty"`
}

// setTLS makes the config that connections begin with.
func (h *Handler) setTLS(ctx caddy.Context) error {
	if len(h.TLS.ExceptPorts) > 0 {
		return errors.New("except_ports: is not for forward")
	}
	timeout, err := bounds{"handshake_timeout", 0, 10 * time.Millisecond, 5 * time.Minute, false}.take(h.TLS.HandshakeTimeout)
	if err != nil {
		return err
	}
	h.handshakeTimeout = timeout
	for i, name := range h.TLS.ALPN {
		if name == "" || len(name) > 255 {
			return fmt.Errorf("alpn %d: %q must have 1 to 255 bytes", i, name)
		}
	}
	if h.tls, err = h.TLS.MakeTLSClientConfig(ctx); err != nil {
		return err
	}
	if h.tls == nil {
		h.tls = new(tls.Config)
	}
	h.tls.NextProtos = h.TLS.ALPN
	return h.setServerName()
}

// setServerName finds the name that the upstream's certificate must have.
func (h *Handler) setServerName() (err error) {
	if h.tls.ServerName, err = caddy.NewReplacer().ReplaceOrErr(h.TLS.ServerName, true, true); err != nil {
		return fmt.Errorf("server_name: %q: %w", h.TLS.ServerName, err)
	}
	if h.tls.ServerName == "" && h.target != nil {
		h.tls.ServerName = h.target.host
	}
	if h.tls.ServerName == "" && h.target != nil && !h.tls.InsecureSkipVerify {
		return errors.New("server_name: is required for a unix socket")
	}
	return nil
}

// secure makes the TLS handshake with the upstream.
func (h *Handler) secure(ctx context.Context, cx *layer4.Connection, conn net.Conn, to *target) (net.Conn, error) {
	config := h.tls
	agreed := ""
	if len(config.NextProtos) == 0 {
		agreed = agreedProtocol(cx.Conn)
	}
	if agreed != "" || config.ServerName == "" {
		config = config.Clone()
	}
	if agreed != "" {
		config.NextProtos = []string{agreed}
	}
	if config.ServerName == "" {
		config.ServerName = to.host
	}
	if h.handshakeTimeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, h.handshakeTimeout)
		defer cancel()
	}
	secured := tls.Client(conn, config)
	if err := secured.HandshakeContext(ctx); err != nil {
		return nil, fmt.Errorf("TLS handshake: %w", err)
	}
	if agreed == http2 && secured.ConnectionState().NegotiatedProtocol != http2 {
		return nil, errors.New("TLS handshake: the client speaks HTTP/2 and the upstream did not agree to it")
	}
	return secured, nil
}

// agreedProtocol returns what was agreed on with the client by whoever has ended its TLS; empty if nobody has, and
// without ALPN.
func agreedProtocol(conn net.Conn) string {
	for conn != nil {
		if ended, ok := conn.(interface{ ConnectionState() tls.ConnectionState }); ok {
			return ended.ConnectionState().NegotiatedProtocol
		}
		conn = beneath(conn)
	}
	return ""
}
