package healthchecks

import (
	"context"
	"fmt"
	"net"

	"github.com/caddyserver/caddy/v2"
)

func init() {
	caddy.RegisterModule(&TLS{})
}

// maxProtocol is the longest name that ALPN has room for, in bytes (RFC 7301 §3.1).
const maxProtocol = 255

// TLS is the check `tls`: the endpoint completes a TLS handshake.
type TLS struct {
	Connection
	Security

	// The protocols to offer, in order of preference, 1 to 255 bytes each. Default: those of the cluster's TLS, or none. No
	// placeholders.
	ALPN []string `json:"alpn,omitempty"`
}

// CaddyModule returns the Caddy module information.
func (*TLS) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: Namespace + ".tls", New: func() caddy.Module { return new(TLS) }}
}

// Provision checks the settings.
func (t *TLS) Provision(caddy.Context) error {
	if err := t.Connection.check(); err != nil {
		return err
	}
	for i, name := range t.ALPN {
		if name == "" || len(name) > maxProtocol {
			return fmt.Errorf("alpn %d: %q must have 1 to %d bytes", i, name, maxProtocol)
		}
	}
	return t.load()
}

// Check makes a handshake.
func (t *TLS) Check(ctx context.Context, target *Target) error {
	return t.run(ctx, target, func(conn net.Conn) error {
		secured, err := t.secure(ctx, conn, target, t.ALPN...)
		if err != nil {
			return err
		}
		_ = secured.CloseWrite() // says goodbye
		return nil
	})
}

// Interface guards
var (
	_ caddy.Provisioner = (*TLS)(nil)
	_ Checker           = (*TLS)(nil)
)
