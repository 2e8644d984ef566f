package sluiceapp

import (
	"net"
	"net/netip"

	"github.com/caddyserver/caddy/v2"

	"github.com/caddy-sluice/sluice/internal/permit"
	"github.com/caddy-sluice/sluice/modules/session"
)

// states has the one state of the process, under stateKey.
var states = caddy.NewUsagePool()

const stateKey = "state"

// takeState returns the state of the process; releaseState gives it back. It is never destroyed: sessions outlive the
// config that they began under, and what they hold is to count under the next one that has a limit, also if none has
// our modules in between. So whoever makes it takes a reference for the process as well.
func takeState() (*state, error) {
	value, loaded, err := states.LoadOrNew(stateKey, newState)
	if err == nil && !loaded {
		_, _, err = states.LoadOrNew(stateKey, newState)
	}
	if err != nil {
		return nil, err
	}
	return value.(*state), nil
}

func newState() (caddy.Destructor, error) { return new(state), nil }

func releaseState() error {
	_, err := states.Delete(stateKey)
	return err
}

// state is what is counted across configs. It holds counts only: limits are a config's.
type state struct {
	process   permit.Gauge
	listeners permit.Keyed[string]
	sources   permit.Keyed[source]
	preread   permit.Gauge

	bodies         permit.Gauge
	requests       permit.Gauge
	serverRequests permit.Keyed[string]
	clientRequests permit.Keyed[source]
}

// Destruct implements caddy.Destructor.
func (*state) Destruct() error { return nil }

// giveProcess gives a permit of the process back.
func (s *state) giveProcess() { s.process.Release(1) }

// source is a client, or a network of clients, within what a limit is for.
type source struct {
	scope string
	addr  netip.Addr
}

// TakeListener takes one of limit permits of a listener and reports whether there was one. It is given back at the
// session's end. No limit is 0 or less; then the connection is counted all the same.
func (a *App) TakeListener(sess *session.Session, listener string, limit int64) bool {
	state := a.state
	if !state.listeners.TryAcquire(listener, limit) {
		return false
	}
	sess.OnEnd(func() { state.listeners.Release(listener) })
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
	state, key := a.state, source{scope, permit.SourcePrefix(tcp.AddrPort().Addr(), prefix6)}
	if !state.sources.TryAcquire(key, limit) {
		return false
	}
	sess.OnEnd(func() { state.sources.Release(key) })
	return true
}

// TakePreread takes n bytes of the memory for connections that are not decided, and reports whether it was there.
func (a *App) TakePreread(n int) bool {
	return a.state.preread.TryAcquire(int64(n), a.PrereadMemory)
}

// GivePreread gives n bytes back.
func (a *App) GivePreread(n int) { a.state.preread.Release(int64(n)) }
