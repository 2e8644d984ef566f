package healthchecks

import (
	"context"

	"github.com/caddyserver/caddy/v2"
)

func init() {
	caddy.RegisterModule(&TCP{})
}

// TCP is the check `tcp`: the endpoint accepts a connection. It is closed at once, and nothing is sent on it.
type TCP struct {
	// The port to connect to. Range: 1 to 65535. Default: that of the endpoint. It has no effect on where traffic goes. An
	// endpoint at a unix socket has no other port, so its check fails. No placeholders.
	Port int `json:"port,omitempty"`
}

// CaddyModule returns the Caddy module information.
func (*TCP) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: Namespace + ".tcp", New: func() caddy.Module { return new(TCP) }}
}

// Provision checks the settings.
func (t *TCP) Provision(caddy.Context) error { return checkPort(t.Port) }

// Check connects.
func (t *TCP) Check(ctx context.Context, target *Target) error {
	conn, err := connect(ctx, target, t.Port)
	if err != nil {
		return because(ctx, err)
	}
	return conn.Close()
}

// Interface guards
var (
	_ caddy.Provisioner = (*TCP)(nil)
	_ Checker           = (*TCP)(nil)
)
