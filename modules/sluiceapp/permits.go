package sluiceapp

import (
	"net"
	"net/netip"

	"github.com/caddyserver/caddy/v2"

	"github.com/caddy-sluice/sluice/internal/permit"
	"github.com/caddy-sluice/sluice/modules/session"
)

// states has the one state of the process, so that counts survive a reload.
var states = caddy.NewUsagePool()

// state is what is counted across configs. It holds counts only: limits are a config's.
type state struct {
	process   permit.Gauge
	listeners permit.Keyed[string]
	sources   permit.Keyed[source]
	preread   permit.Gauge
}

// source is a client, or a network of clients, within what a limit is for.
type source struct {
	scope string
	addr  netip.Addr
}

// Destruct implements caddy.Destructor.
func (*state) Destruct() error { return nil }

// Refuse ends a session that a gate did not let pass, and counts it for that gate.
func (a *App) Refuse(sess *session.Session, gate session.CloseReason) {
	sess.End(gate)
}

// TakeListener takes one of limit permits of a listener and reports whether there was one. It is given back at the
// session's end. No limit is 0 or less; then the connection is counted all the same.
func (a *App) TakeListener(sess *session.Session, listener string, limit int64) bool {
	if !a.state.listeners.TryAcquire(listener, limit) {
		return false
	}
	sess.OnEnd(func() { a.state.listeners.Release(listener) })
	return true
}

// TakeSource takes one of limit permits of the session's client within a scope, and reports whether there was one. It
// is given back at the session's end. Clients by IPv6 share the permits of their network, of prefix6 bits. A client
// without an IP address, on a unix socket, needs none.
func (a *App) TakeSource(sess *session.Session, scope string, limit int64, prefix6 int) bool {
	tcp, ok := sess.Client.(*net.TCPAddr)
	if !ok {
		return true
	}
	key := source{scope, permit.SourcePrefix(tcp.AddrPort().Addr(), prefix6)}
	if !a.state.sources.TryAcquire(key, limit) {
		return false
	}
	sess.OnEnd(func() { a.state.sources.Release(key) })
	return true
}

// TakePreread takes n bytes of the memory for connections that are not decided, and reports whether it was there.
func (a *App) TakePreread(n int) bool {
	return a.state.preread.TryAcquire(int64(n), a.PrereadMemory)
}

// GivePreread gives n bytes back.
func (a *App) GivePreread(n int) { a.state.preread.Release(int64(n)) }
