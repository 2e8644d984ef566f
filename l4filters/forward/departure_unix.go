//go:build unix

package forward

import (
	"net"
	"syscall"
	"time"
)

// departureAfter is how long the dialing may take before somebody watches the client: most of it is over by then.
const departureAfter = 100 * time.Millisecond

// departure notices when a client resets its connection while nobody reads from it. The end of the client's stream is no
// departure: it may be a half-close.
type departure struct {
	conn  *net.TCPConn
	gone  func()
	timer *time.Timer
	done  chan struct{}
}

// watchDeparture calls gone, at most once, if the client resets conn. It reads nothing. Until stop has returned, nobody
// else may wait for data on conn. For anything but a TCP socket it does nothing.
func watchDeparture(conn net.Conn, gone func()) *departure {
	tcp, ok := conn.(*net.TCPConn)
	if !ok {
		return nil
	}
	d := &departure{conn: tcp, gone: gone, done: make(chan struct{})}
	d.timer = time.AfterFunc(departureAfter, d.run)
	return d
}

// run waits for a reset, on the timer's goroutine. stop ends it, by a deadline, and waits for it.
func (d *departure) run() {
	defer close(d.done)
	raw, err := d.conn.SyscallConn()
	if err != nil {
		return
	}
	reset := false
	_ = raw.Read(func(fd uintptr) bool {
		code, err := syscall.GetsockoptInt(int(fd), syscall.SOL_SOCKET, syscall.SO_ERROR)
		reset = err == nil && code != 0
		return reset || err != nil
	})
	if reset {
		d.gone()
	}
}

// stop ends the watch. gone is not running any more and will not be called.
func (d *departure) stop() {
	if d == nil || d.timer.Stop() {
		return
	}
	_ = d.conn.SetReadDeadline(time.Unix(1, 0))
	<-d.done
	_ = d.conn.SetReadDeadline(time.Time{})
}
