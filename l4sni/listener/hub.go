package listener

import (
	"errors"
	"net"
	"slices"
	"sync"
	"time"

	"github.com/caddyserver/caddy/v2"
	"go.uber.org/zap"

	"github.com/caddy-sluice/sluice/modules/sockets"
)

// settle is what handshakes get to end when a socket is closed: a round trip in a data center. The hub is locked.
const settle = 2 * time.Millisecond

// hubs has one hub for each address that is listened on, by network and address.
var hubs = caddy.NewUsagePool()

// hub is what the listeners of one address share. There are several while a config replaces another: the new one's
// is open before the old one's is closed.
//
// Connections go to the old one until all of the new config has started and the old one is about to stop, and from
// then on to the new one, whichever they came in by: an HTTP server that stops closes a connection that reaches it
// then, without an answer. And they come in by one socket, which stays as long as there is a listener: Caddy binds
// another socket for each config, and the kernel resets the connections that wait in the queue of one that is closed.
type hub struct {
	// mu guards the fields below.
	mu sync.Mutex
	// socket is the socket that stays; nil if that of the first listener could not be had.
	socket *net.TCPListener
	// listeners are those whose config is not about to stop, the oldest first.
	listeners []*listener
}

// Destruct implements caddy.Destructor. The socket went with the last listener that it was for.
func (*hub) Destruct() error { return nil }

// hubOf returns the hub of an address and counts the caller as a user of it.
func hubOf(addr net.Addr) (h *hub, key string) {
	key = addr.Network() + "/" + addr.String()
	value, _, _ := hubs.LoadOrNew(key, func() (caddy.Destructor, error) { return new(hub), nil })
	return value.(*hub), key
}

// join puts l in line and sees to its socket.
func (h *hub) join(l *listener) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.listeners = append(h.listeners, l)
	socket := sockets.Of(l.base)
	l.bare = socket != nil
	switch {
	case !l.bare:
		go h.accept(l.base)
	case h.socket != nil:
		sockets.Retire(socket, settle, h.handle)
	default:
		h.keep(socket, l)
	}
}

// keep makes the socket of the first listener the one that stays.
func (h *hub) keep(socket *net.TCPListener, l *listener) {
	twin, err := sockets.Duplicate(socket)
	if err != nil {
		go h.accept(l.base)
		return
	}
	h.socket = twin
	go h.accept(twin)
}

// leave takes l out. The socket that stays goes when none is left that it is for: past a listener of another wrapper,
// connections must not come in by it.
func (h *hub) leave(l *listener) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.listeners = slices.DeleteFunc(h.listeners, func(other *listener) bool { return other == l })
	if h.socket != nil && !slices.ContainsFunc(h.listeners, func(other *listener) bool { return other.bare }) {
		sockets.Retire(h.socket, settle, h.handle)
		h.socket = nil
	}
}

// accept runs until ln is closed.
func (h *hub) accept(ln net.Listener) {
	for {
		conn, err := ln.Accept()
		if err == nil {
			go h.handle(conn)
			continue
		}
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if l := h.current(); l != nil {
			l.logger.Error("accepting connection", zap.Error(err))
		}
		time.Sleep(acceptPause)
	}
}

// handle gives a connection to the current listener. It ends with the connection, or when that is handed over.
func (h *hub) handle(conn net.Conn) {
	l := h.current()
	if l == nil {
		_ = conn.Close()
		return
	}
	l.handle(conn)
}

// current returns the listener to which connections go; nil if there is none.
func (h *hub) current() *listener {
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.listeners) == 0 {
		return nil
	}
	return h.listeners[0]
}

// deliver gives conn to the HTTP server of the current listener. It says whether a server took it within the timeout.
func (h *hub) deliver(conn handed, timeout time.Duration) bool {
	timer := time.NewTimer(timeout)
	defer timer.Stop()
	for {
		l := h.current()
		if l == nil {
			return false
		}
		l.fresh.add(conn.tracked())
		select {
		case <-l.left: // before it could be seen that conn is fresh
			conn.tracked().forget()
			continue
		default:
		}
		select {
		case l.conns <- conn:
			return true
		case <-l.left: // a reload in this moment: ask again who it is
			conn.tracked().forget()
		case <-timer.C:
			conn.tracked().forget()
			return false
		}
	}
}
