package sockets

import (
	"net"
	"net/netip"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// nowhere is the index of a network interface that does not exist.
const nowhere = 1<<31 - 1

// Retire closes a socket that another one replaces. The connections already in its queue are handled first. The kernel
// resets one that comes between the last look into the queue and the close, so before, the socket is bound to an interface
// that does not exist: a client that begins to connect now is not answered by it, and begins again after a second, when it
// is gone. Handshakes that have begun get the settling time to end. What is left between the last look and the close is
// one system call.
func Retire(socket *net.TCPListener, settle time.Duration, handle func(net.Conn)) {
	if raw, err := socket.SyscallConn(); err == nil {
		_ = raw.Control(func(fd uintptr) {
			_ = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_BINDTOIFINDEX, nowhere)
			drain(int(fd), settle, handle)
			_ = unix.Listen(int(fd), 0)
			if null, err := unix.Open(os.DevNull, unix.O_RDONLY|unix.O_CLOEXEC, 0); err == nil {
				defer unix.Close(null)
				for acceptNow(int(fd), handle) {
				}
				// The descriptor stays, for Close, but it is no longer the socket's.
				_ = unix.Dup3(null, int(fd), unix.O_CLOEXEC)
			}
		})
	}
	_ = socket.Close()
}

// drain handles what comes out of the queue for a while.
func drain(fd int, settle time.Duration, handle func(net.Conn)) {
	for until := time.Now().Add(settle); ; {
		for acceptNow(fd, handle) {
		}
		left := time.Until(until)
		if left <= 0 {
			return
		}
		_, _ = unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, int(left/time.Millisecond)+1)
	}
}

// acceptNow handles one connection of the queue. It says whether there was one.
func acceptNow(fd int, handle func(net.Conn)) bool {
	nfd, peer, err := unix.Accept4(fd, unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC)
	if err != nil {
		return err == unix.EINTR || err == unix.ECONNABORTED
	}
	file := os.NewFile(uintptr(nfd), "")
	defer file.Close()
	if conn, err := net.FileConn(file); err == nil {
		if conn.RemoteAddr() == nil {
			conn = goneConn{conn, addrOf(peer)}
		}
		go handle(conn)
	}
	return true
}

// goneConn is a connection that its client has reset in the meantime: its socket does not know the client any more.
type goneConn struct {
	net.Conn
	remote net.Addr
}

// RemoteAddr returns the client's address.
func (c goneConn) RemoteAddr() net.Addr { return c.remote }

func addrOf(peer unix.Sockaddr) net.Addr {
	switch p := peer.(type) {
	case *unix.SockaddrInet4:
		return &net.TCPAddr{IP: p.Addr[:], Port: p.Port}
	case *unix.SockaddrInet6:
		return net.TCPAddrFromAddrPort(netip.AddrPortFrom(netip.AddrFrom16(p.Addr).Unmap(), uint16(p.Port)))
	}
	return &net.TCPAddr{}
}
