package listener

import (
	"net"
	"os"

	"golang.org/x/sys/unix"
)

// retire closes a socket that another one replaces. The connections already in its queue are handled first.
func retire(socket *net.TCPListener, handle func(net.Conn)) {
	if raw, err := socket.SyscallConn(); err == nil {
		_ = raw.Control(func(fd uintptr) {
			for acceptNow(int(fd), handle) {
			}
		})
	}
	_ = socket.Close()
}

// acceptNow handles one connection of the queue. It says whether there was one.
func acceptNow(fd int, handle func(net.Conn)) bool {
	nfd, _, err := unix.Accept4(fd, unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC)
	if err != nil {
		return err == unix.EINTR || err == unix.ECONNABORTED
	}
	file := os.NewFile(uintptr(nfd), "")
	defer file.Close()
	if conn, err := net.FileConn(file); err == nil {
		go handle(conn)
	}
	return true
}
