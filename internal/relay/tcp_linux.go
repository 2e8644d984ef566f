package relay

import "golang.org/x/sys/unix"

// tcpClose is TCP_CLOSE of the kernel's include/net/tcp_states.h.
const tcpClose = 7

// maybeReset reports whether a TCP socket that reads as ended was reset, if its stream to the peer was not ended by
// ourselves. The kernel reports a reset once, to whichever system call comes next; if that was a write, a read afterwards
// sees just the end of the stream. A FIN alone shuts one direction only. A reset behind a FIN is told apart, as EPIPE,
// until a write has seen it; then it counts as a reset alone, which the other side gets behind all bytes.
func maybeReset(fd int) bool {
	fds := []unix.PollFd{{Fd: int32(fd)}}
	if n, err := unix.Poll(fds, 0); err != nil || n == 0 || fds[0].Revents&unix.POLLHUP == 0 {
		return false
	}
	pending, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_ERROR)
	return err != nil || unix.Errno(pending) != unix.EPIPE
}

// unacknowledged reports whether a live connection has bytes, or the end of the stream, that its peer's kernel has not
// acknowledged.
func unacknowledged(c tcpSocket) bool {
	raw, err := c.SyscallConn()
	if err != nil {
		return false
	}
	var info *unix.TCPInfo
	var gerr error
	err = raw.Control(func(fd uintptr) {
		info, gerr = unix.GetsockoptTCPInfo(int(fd), unix.IPPROTO_TCP, unix.TCP_INFO)
	})
	if err != nil || gerr != nil || info.State == tcpClose {
		return false
	}
	return info.Unacked > 0 || info.Notsent_bytes > 0
}
