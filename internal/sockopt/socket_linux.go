package sockopt

import (
	"math"
	"net"
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// setUserTimeout sets TCP_USER_TIMEOUT of the TCP socket at the bottom of conn, if there is one.
func setUserTimeout(conn net.Conn, timeout time.Duration) error {
	if _, ok := find[probed](conn); !ok {
		return nil
	}
	milliseconds := min((timeout+time.Millisecond-1)/time.Millisecond, math.MaxInt32)
	var failed error
	err := control(conn, func(fd int) {
		failed = unix.SetsockoptInt(fd, unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT, int(milliseconds))
	})
	if err != nil {
		return err
	}
	return os.NewSyscallError("setsockopt TCP_USER_TIMEOUT", failed)
}

// SinceLastByte returns how long ago the last byte arrived at the TCP socket at the bottom of conn; before the first
// byte, how long ago it was connected. It reports false where nothing is known: outside of Linux, for anything but TCP,
// and for a closed connection. The kernel counts in its ticks of 1 to 10 ms. A keepalive probe and its answer are no
// bytes. It costs a system call and the 280 bytes of the kernel's answer.
func SinceLastByte(conn net.Conn) (time.Duration, bool) {
	info, err := tcpInfo(conn)
	if err != nil {
		return 0, false
	}
	return time.Duration(info.Last_data_recv) * time.Millisecond, true
}

// Acked returns how many bytes the other end's kernel has acknowledged on the TCP socket at the bottom of conn, which has
// connected: its SYN counts as one. It still knows when the other end has closed the connection. It reports false where
// nothing is known, as SinceLastByte does, and for kernels that don't count (before Linux 4.1). It costs as much.
//
// A reset acknowledges nothing: what was received before it may be missing. Data and the end of the stream bring the count
// up to date.
func Acked(conn net.Conn) (int64, bool) {
	info, err := tcpInfo(conn)
	if err != nil || info.Bytes_acked == 0 {
		return 0, false
	}
	return int64(info.Bytes_acked), true
}

// Ended reports whether the other end has ended the stream on the socket at the bottom of conn, and everything before that
// was read. It is true as well after a reset that a read or a write has failed with. It reports false where nothing is
// known: outside of Linux, and for a closed connection.
func Ended(conn net.Conn) (ended bool) {
	_ = control(conn, func(fd int) {
		n, _, err := unix.Recvfrom(fd, make([]byte, 1), unix.MSG_PEEK|unix.MSG_DONTWAIT)
		ended = n == 0 && err == nil
	})
	return ended
}

// tcpInfo asks the kernel about the TCP socket at the bottom of conn.
func tcpInfo(conn net.Conn) (info *unix.TCPInfo, err error) {
	var failed error
	if err := control(conn, func(fd int) { info, failed = unix.GetsockoptTCPInfo(fd, unix.IPPROTO_TCP, unix.TCP_INFO) }); err != nil {
		return nil, err
	}
	return info, failed
}

// control calls f with the descriptor of the socket at the bottom of conn. It fails if there is none, or if it is closed.
func control(conn net.Conn, f func(fd int)) error {
	socket, ok := find[syscall.Conn](conn)
	if !ok {
		return net.ErrClosed
	}
	raw, err := socket.SyscallConn()
	if err != nil {
		return err
	}
	return raw.Control(func(fd uintptr) { f(int(fd)) })
}
