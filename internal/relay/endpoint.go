package relay

import (
	"net"
	"sync/atomic"
	"syscall"
	"time"
)

// endpoint is one of the two ends.
type endpoint struct {
	// outer is the connection as it was given, conn the one that the bytes go through.
	outer, conn net.Conn
	// raw is set if conn is a plain stream socket, whose bytes may be moved by system calls of our own.
	raw syscall.RawConn
	// tcp is the TCP socket at the bottom, if there is one and it can be found.
	tcp tcpSocket
	// closer ends the stream to this end; nil if nothing can.
	closer interface{ CloseWrite() error }
	// taken counts the bytes written to this end.
	taken atomic.Int64
	// shut is set once the stream to this end was ended.
	shut atomic.Bool
}

// tcpSocket is a TCP connection, or a wrapper that embeds one.
type tcpSocket interface {
	syscall.Conn
	SetLinger(seconds int) error
	Close() error
}

// open finds out what can be done with c.
func (e *endpoint) open(c net.Conn) {
	e.outer, e.conn = c, bare(c)
	e.raw = rawSocket(e.conn)
	e.closer = findCloser(e.outer)
	if e.closer == nil {
		e.closer = findCloser(e.conn)
	}
	e.tcp = findTCP(e.conn)
}

// bare takes off the wrappers that allow it.
func bare(c net.Conn) net.Conn {
	for {
		w, ok := c.(BareConn)
		if !ok {
			return c
		}
		beneath, ok := w.BareConn()
		if !ok {
			return c
		}
		c = beneath
	}
}

// rawSocket returns access to the descriptor of c. It goes by concrete types: a wrapper that embeds a socket has
// SyscallConn as well, but its bytes are not to be moved behind its back.
func rawSocket(c net.Conn) syscall.RawConn {
	var raw syscall.RawConn
	var err error
	switch s := c.(type) {
	case *net.TCPConn:
		raw, err = s.SyscallConn()
	case *net.UnixConn:
		if s.LocalAddr().Network() != "unix" {
			return nil
		}
		raw, err = s.SyscallConn()
	}
	if err != nil || !canReadRaw {
		return nil
	}
	return raw
}

// beneath returns the connection that c wraps, if it shows it. It is good for signals, not for data.
func beneath(c net.Conn) net.Conn {
	w, ok := c.(interface{ NetConn() net.Conn })
	if !ok {
		return nil
	}
	return w.NetConn()
}

func findCloser(c net.Conn) interface{ CloseWrite() error } {
	for ; c != nil; c = beneath(c) {
		if w, ok := c.(interface{ CloseWrite() error }); ok {
			return w
		}
	}
	return nil
}

func findTCP(c net.Conn) tcpSocket {
	for ; c != nil; c = beneath(c) {
		if t, ok := c.(tcpSocket); ok {
			return t
		}
	}
	return nil
}

// setDeadline sets both deadlines. An error means that the connection is closed, which ends the relay by itself.
func (e *endpoint) setDeadline(t time.Time) { _ = e.conn.SetDeadline(t) }

// reset closes this end with an RST where the transport has one. The socket goes first, so that a wrapper can't say a
// proper goodbye (as TLS would) for a stream that was cut off.
func (e *endpoint) reset() {
	if e.tcp != nil {
		_ = e.tcp.SetLinger(0)
		_ = e.tcp.Close()
	}
	_ = e.outer.Close()
}

// awaitDelivery waits until the peer's kernel has acknowledged what was written to this end, since a reset discards the
// rest. It waits at most drainTime, and gives up when stop is set or the connection is gone.
func (e *endpoint) awaitDelivery(stop *atomic.Bool) {
	if e.tcp == nil {
		return
	}
	const longestPause = 50 * time.Millisecond
	pause := time.Millisecond
	for until := time.Now().Add(drainTime); unacknowledged(e.tcp) && !stop.Load() && time.Now().Before(until); {
		time.Sleep(pause)
		pause = min(2*pause, longestPause)
	}
}
