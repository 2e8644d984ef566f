package listener

import (
	"net"
	"slices"
	"sync"
	"time"

	"github.com/caddyserver/caddy/v2"
)

// hubs has one hub for each address that is listened on, by network and address.
var hubs = caddy.NewUsagePool()

// hub is what the listeners of one address share. There are several while a config replaces another: the new one's
// is open before the old one's is closed.
//
// Connections go to the newest: the HTTP server of the old config would close a connection that reaches it now,
// without an answer. And they come in by one socket, which stays as long as there is a listener: Caddy binds another
// socket for each config, and the connections that wait in the queue of one that is closed are reset by the kernel.
type hub struct {
	// mu guards the fields below.
	mu sync.Mutex
	// socket is the socket that stays; nil if that of the first listener could not be had.
	socket net.Listener
	// listeners are those of running configs, the newest last.
	listeners []*listener
}

// Destruct implements caddy.Destructor. It ends the goroutine that accepts from the socket.
func (h *hub) Destruct() error {
	if h.socket == nil {
		return nil
	}
	return h.socket.Close()
}

// hubOf returns the hub of an address and counts the caller as a user of it.
func hubOf(addr net.Addr) (h *hub, key string) {
	key = addr.Network() + "/" + addr.String()
	value, _, _ := hubs.LoadOrNew(key, func() (caddy.Destructor, error) { return new(hub), nil })
	return value.(*hub), key
}

// join makes l the newest listener. It returns the one that was the newest before, if any.
func (h *hub) join(l *listener) (previous *listener) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if n := len(h.listeners); n > 0 {
		previous = h.listeners[n-1]
	}
	h.listeners = append(h.listeners, l)
	socket := socketOf(l.base)
	switch {
	case socket == nil:
		go l.accept(l.base)
	case h.socket != nil:
		retire(socket, l.handle)
	default:
		h.keep(socket, l)
	}
	return previous
}

// keep makes the socket of the first listener the one that stays.
func (h *hub) keep(socket *net.TCPListener, l *listener) {
	twin, err := duplicate(socket)
	if err != nil {
		go l.accept(l.base)
		return
	}
	h.socket = twin
	go l.accept(twin)
}

// leave takes l out.
func (h *hub) leave(l *listener) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.listeners = slices.DeleteFunc(h.listeners, func(other *listener) bool { return other == l })
}

// newest returns the listener to which connections go; nil if there is none.
func (h *hub) newest() *listener {
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.listeners) == 0 {
		return nil
	}
	return h.listeners[len(h.listeners)-1]
}

// deliver gives conn to the HTTP server of the newest listener. It says whether a server took it within the timeout.
func (h *hub) deliver(conn handed, timeout time.Duration) bool {
	timer := time.NewTimer(timeout)
	defer timer.Stop()
	for {
		l := h.newest()
		if l == nil {
			return false
		}
		l.fresh.add(conn.tracked())
		select {
		case l.conns <- conn:
			return true
		case <-l.closed: // a reload in this moment: ask again who is the newest
			conn.tracked().forget()
		case <-timer.C:
			conn.tracked().forget()
			return false
		}
	}
}
