//go:build unix

package sockets

import (
	"net"

	"golang.org/x/sys/unix"
)

// Waiting says whether a connection waits in the queue of a listener.
func Waiting(socket *net.TCPListener) bool {
	raw, err := socket.SyscallConn()
	if err != nil {
		return false
	}
	ready := 0
	err = raw.Control(func(fd uintptr) {
		ready, _ = unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, 0)
	})
	return err == nil && ready > 0
}
