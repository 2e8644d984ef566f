package forward

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"

	"github.com/caddyserver/caddy/v2"
	"github.com/mholt/caddy-l4/layer4"
)

// http2 is the one protocol that an upstream must agree to in the handshake (RFC 9113 §3.3).
const http2 = "h2"

// setTLS makes the config that connections begin with.
func (h *Handler) setTLS(ctx caddy.Context) (err error) {
	if h.tls, err = h.TLS.Client(ctx); err != nil {
		return err
	}
	if h.cluster != nil {
		if err := h.cluster.CheckTLS(h.tls); err != nil {
			return fmt.Errorf("%w of cluster %q", err, h.Cluster)
		}
	}
	config := h.tls.Config
	if config.ServerName != "" || h.target == nil {
		return nil
	}
	if h.target.host == "" && !config.InsecureSkipVerify {
		return errors.New("server_name: is required for a unix socket")
	}
	config.ServerName = h.target.host // here, so that no connection needs a copy for it
	return nil
}

// secure makes the TLS handshake with the upstream.
func (h *Handler) secure(ctx context.Context, cx *layer4.Connection, conn net.Conn, host string) (net.Conn, error) {
	agreed := ""
	if len(h.tls.Config.NextProtos) == 0 {
		agreed = agreedProtocol(cx.Conn)
	}
	secured, err := h.tls.Handshake(ctx, conn, host, offer(agreed)...)
	if err != nil {
		return nil, err
	}
	if agreed == http2 && secured.ConnectionState().NegotiatedProtocol != http2 {
		return nil, errors.New("TLS handshake: the client speaks HTTP/2 and the upstream did not agree to it")
	}
	return secured, nil
}

// offer returns the protocols to offer to the upstream of a client that has agreed on one, or on none.
func offer(agreed string) []string {
	if agreed == "" {
		return nil
	}
	return []string{agreed}
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
