// Package session holds what is known about one layer-4 connection: who it is, what its hello said, where it went,
// how much it moved and why it ended. Handlers write their part, and every filter may read all of it after the
// handlers behind it have returned. All sessions of the process are on one list, for the admin API and for shutdown.
package session

import (
	"net"
	"sync"
	"time"

	"github.com/mholt/caddy-l4/layer4"

	"github.com/caddy-sluice/sluice/internal/clienthello"
	"github.com/caddy-sluice/sluice/internal/preread"
)

// varName is the key under which the session stands in the connection's variables.
const varName = "sluice.session"

// Session is one connection. Its fields belong to the goroutine that handles the connection: that one reads them as it
// likes, and writes them within Set, because others may be taking a Snapshot.
type Session struct {
	// Start is when the connection reached its first Sluice handler. The preread's deadline counts from here.
	Start time.Time
	// Client is the client's address: the peer's, or the one that a trusted PROXY header gave.
	Client net.Addr
	// Peer is the address that the connection came from.
	Peer net.Addr
	// Listener is the local address of the connection.
	Listener net.Addr
	// ProxyHeader is the PROXY header of the connection as it came; nil when there was none.
	ProxyHeader []byte

	// Hello is what the ClientHello said; nil before the preread, and when there was none.
	Hello *Hello
	// Preread is set once a preread has come to a verdict.
	Preread bool
	// Admitted is set once the connection has passed the gates of the process.
	Admitted bool
	// Routed is set when a route or a fallback has taken the connection.
	Routed bool
	// HandsOver is set when connections that no handler takes go on to Caddy's HTTP app.
	HandsOver bool
	// Reason says why the preread found no route; None when it did. A fallback that takes the connection leaves it.
	Reason preread.Reason
	// Pattern is the pattern of the routing table that decided.
	Pattern string
	// Silent is set when the client left without having sent a byte, as health checks do.
	Silent bool
	// Protocol is the ALPN protocol that decided; empty when the route takes any.
	Protocol string
	// Tags are the tags of the route taken. They are shared with the config: read only.
	Tags map[string]string

	// Cluster is the cluster that the connection was forwarded to; empty for a fixed address.
	Cluster string
	// Upstream is the address that the connection was forwarded to.
	Upstream string
	// Attempts is how many connections to upstreams were begun for it.
	Attempts int
	// BytesIn and BytesOut count what was delivered to the upstream and to the client. While the connection is being
	// relayed they are zero.
	BytesIn, BytesOut int64
	// PrereadTime, ConnectTime and RelayTime say where the connection's time went.
	PrereadTime, ConnectTime, RelayTime time.Duration

	// remote is the remote address that the connection had at the last handler.
	remote net.Addr
	// depth is how many handlers the connection is in, onEnd what is to be done at its end.
	depth    int
	onEnd    []func()
	handover func()
	rejected func(preread.Reason)
	// id, prev and next are the session's place on the list. The list's mu guards them.
	id         uint64
	prev, next *Session

	// mu guards the fields below, and all that others may read.
	mu  sync.Mutex
	end CloseReason
	// conn is the connection, to be closed by Stop when nobody has said better.
	conn net.Conn
	stop func()
	// moved returns the bytes delivered so far, while the connection is being relayed.
	moved func() (in, out int64)
	// unwound is set while the connection is in no handler, gone once a connection that was handed over has closed.
	unwound, gone bool
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

// Of returns the session of cx and begins it if this is the connection's first Sluice module.
func Of(cx *layer4.Connection) *Session {
	if s, ok := cx.GetVar(varName).(*Session); ok {
		return s
	}
	s := &Session{Start: time.Now(), Client: known(cx.RemoteAddr()), Listener: known(cx.LocalAddr()), conn: cx.Conn}
	s.Peer, s.remote = s.Client, s.Client
	cx.SetVar(varName, s)
	cx.Replacer().Map(s.placeholder)
	return s
}

// known returns addr, or an empty address if there is none: a socket may have none any more.
func known(addr net.Addr) net.Addr {
	if addr == nil {
		return &net.TCPAddr{}
	}
	return addr
}

// Set runs f, which writes fields of the session.
func (s *Session) Set(f func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f()
}

// End records why the connection ended. The first reason stands; later calls change nothing.
func (s *Session) End(r CloseReason) { s.claim(r) }

// claim is End, and reports whether r is the first.
func (s *Session) claim(r CloseReason) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.end != Open {
		return false
	}
	s.end = r
	return true
}

// CloseReason returns why the connection ended; Open while it has not.
func (s *Session) CloseReason() CloseReason {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.end
}

// Reject ends the connection because of its preread reason.
func (s *Session) Reject() {
	if s.Reason == preread.None || !s.claim(ForPreread(s.Reason)) {
		return
	}
	if s.rejected != nil {
		s.rejected(s.Reason)
	}
}

// OnReject sets f to be called by Reject. The preread uses it to count, whoever rejects the connection.
func (s *Session) OnReject(f func(preread.Reason)) { s.rejected = f }

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
