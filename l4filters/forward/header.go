package forward

import (
	"context"
	"fmt"
	"net"

	"github.com/mholt/caddy-l4/layer4"
	"github.com/pires/go-proxyproto"

	"github.com/caddy-sluice/sluice/modules/session"
)

// sendHeader writes the PROXY header, which comes before everything else and waits for nothing.
func (h *Handler) sendHeader(ctx context.Context, cx *layer4.Connection, conn net.Conn) error {
	header, err := h.header(session.Of(cx), cx.LocalAddr())
	if err != nil {
		return fmt.Errorf("making PROXY header: %w", err)
	}
	if deadline, ok := ctx.Deadline(); ok {
		_ = conn.SetWriteDeadline(deadline)
	}
	if _, err := conn.Write(header); err != nil {
		return fmt.Errorf("writing PROXY header: %w", err)
	}
	return nil
}

// header returns the PROXY header for a session whose client has connected to local. A client that sent no header is
// given one in relay mode too: else the upstream would take its first bytes for one.
func (h *Handler) header(sess *session.Session, local net.Addr) ([]byte, error) {
	switch h.ProxyProtocol {
	case "relay":
		if len(sess.ProxyHeader) > 0 {
			return sess.ProxyHeader, nil
		}
	case "v1":
		return makeHeader(1, sess.Client, local)
	}
	return makeHeader(2, sess.Client, local)
}

// makeHeader returns a header that says who the client is and what it has connected to. Addresses of two families are
// both written as IPv6. Without a pair of IP addresses the header names nobody: version 1 says UNKNOWN, and version 2
// LOCAL.
func makeHeader(version byte, client, local net.Addr) ([]byte, error) {
	_, clientOK := client.(*net.TCPAddr)
	_, localOK := local.(*net.TCPAddr)
	if !clientOK || !localOK {
		client, local = nil, nil
	}
	return proxyproto.HeaderProxyFromAddrs(version, client, local).Format()
}
