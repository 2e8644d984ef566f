// Package session holds what is known about one layer-4 connection: who it is, what its hello said, where it went,
// how much it moved and why it ended. Handlers write their part, and every filter may read all of it after the
// handlers behind it have returned.
package session

import (
	"net"
	"runtime/debug"
	"time"

	"github.com/mholt/caddy-l4/layer4"
	"go.uber.org/zap"

	"github.com/caddy-sluice/sluice/internal/clienthello"
	"github.com/caddy-sluice/sluice/internal/preread"
)

// varName is the key under which the session stands in the connection's variables.
const varName = "sluice.session"

// Session is one connection. It belongs to the goroutine that handles the connection and is not safe for
// concurrent use.
type Session struct {
	// Start is when the connection reached its first Sluice handler. The preread's deadline counts from here.
	Start time.Time
	// Client is the client's address: the peer's, or the one that a trusted PROXY header gave.
	Client net.Addr
	// Listener is the local address of the connection.
	Listener net.Addr

	// Hello is what the ClientHello said; nil before the preread, and when there was none.
	Hello *Hello
	// Preread is set once a preread has come to a verdict.
	Preread bool
	// Reason says why the preread found no route; None when it did. A fallback that takes the connection leaves it.
	Reason preread.Reason
	// Routed is set when a route or a fallback has taken the connection.
	Routed bool
	// Pattern is the pattern of the routing table that decided.
	Pattern string
	// Protocol is the ALPN protocol that decided; empty when the route takes any.
	Protocol string
	// Tags are the tags of the route taken. They are shared with the config: read only.
	Tags map[string]string

	// Upstream is the address that the connection was forwarded to.
	Upstream string
	// BytesIn and BytesOut count what was delivered to the upstream and to the client.
	BytesIn, BytesOut int64
	// PrereadTime, ConnectTime and RelayTime say where the connection's time went.
	PrereadTime, ConnectTime, RelayTime time.Duration

	// HandsOver is set when connections that no handler takes go on to Caddy's HTTP app.
	HandsOver bool

	end      CloseReason
	handover func()
	rejected func(preread.Reason)
}

// Hello is what a ClientHello said, copied out of the bytes it came in.
type Hello struct {
	// ServerName is the normalised name; empty when there is none that can be used.
	ServerName string
	// ALPN is the client's protocol list.
	ALPN clienthello.Protocols
	// ECH says whether an encrypted hello (or its GREASE) was inside.
	ECH bool
	// Size and Records are the length of the hello in bytes and the number of TLS records it came in.
	Size, Records int
}

// Of returns the session of cx and begins it if this is the connection's first Sluice handler.
func Of(cx *layer4.Connection) *Session {
	if s, ok := cx.GetVar(varName).(*Session); ok {
		return s
	}
	s := &Session{Start: time.Now(), Client: cx.RemoteAddr(), Listener: cx.LocalAddr()}
	cx.SetVar(varName, s)
	cx.Replacer().Map(s.placeholder)
	return s
}

// End records why the connection ended. The first reason stands; later calls change nothing.
func (s *Session) End(r CloseReason) {
	if s.end == Open {
		s.end = r
	}
}

// Reject ends the connection because of its preread reason.
func (s *Session) Reject() {
	if s.end != Open || s.Reason == preread.None {
		return
	}
	s.end = ForPreread(s.Reason)
	if s.rejected != nil {
		s.rejected(s.Reason)
	}
}

// OnReject sets f to be called by Reject. The preread uses it to count, whoever rejects the connection.
func (s *Session) OnReject(f func(preread.Reason)) { s.rejected = f }

// CloseReason returns why the connection ended; Open while it has not.
func (s *Session) CloseReason() CloseReason { return s.end }

// OnHandover sets f to be called once: by Handover, when the connection has a place to go. The preread uses it to
// count the connections that are still under way. A function set before is called now.
func (s *Session) OnHandover(f func()) {
	s.Handover()
	s.handover = f
}

// Handover tells that the connection has reached the upstream or Caddy's HTTP app, or has ended. Only the first call
// has an effect.
func (s *Session) Handover() {
	if f := s.handover; f != nil {
		s.handover = nil
		f()
	}
}

// Recover ends the session with reason internal if the calling function panics; it must be deferred directly. A
// fault in one connection must never take the process and all other connections with it.
func (s *Session) Recover(logger *zap.Logger) {
	p := recover()
	if p == nil {
		return
	}
	s.End(Internal)
	s.Handover()
	logger.Error("recovered from a panic while handling a connection",
		zap.Any("panic", p), zap.ByteString("stack", debug.Stack()))
}
