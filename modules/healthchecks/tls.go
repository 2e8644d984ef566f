package healthchecks

import (
	"context"
	"net"

	"github.com/caddyserver/caddy/v2"

	"github.com/caddy-sluice/sluice/modules/upstreamtls"
)

func init() {
	caddy.RegisterModule(&TLS{})
}

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
	if err := upstreamtls.CheckALPN(t.ALPN); err != nil {
		return err
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
