package forward

import (
	"net"
	"os"
	"syscall"
	"testing"
	"time"

	"github.com/caddy-sluice/sluice/modules/session"
)

// blackhole returns the address of a listener whose queue is full: the kernel drops the first packet of each connection.
func blackhole(t *testing.T) string {
	t.Helper()
	fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	file := os.NewFile(uintptr(fd), "listener")
	defer file.Close()
	if err := syscall.Bind(fd, &syscall.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Listen(fd, 0); err != nil {
		t.Fatal(err)
	}
	ln, err := net.FileListener(file)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = ln.Close() })
	for {
		conn, err := net.DialTimeout("tcp", ln.Addr().String(), 200*time.Millisecond)
		if err != nil {
			return ln.Addr().String()
		}
		t.Cleanup(func() { _ = conn.Close() })
	}
}

// TestZ119_Blackhole has endpoints that never answer: each gets its share of the time, and all together no more than
// there is.
func TestZ119_Blackhole(t *testing.T) {
	hole, list := blackhole(t), servers(t, 1)
	for _, tc := range []struct {
		name, config, settings string
		want                   session.CloseReason
		least, most            time.Duration
	}{
		{"Z119_next_endpoint", endpoints(hole, list[0].address), `,"connect_timeout":"4s"`, session.Completed, 2 * time.Second, 3500 * time.Millisecond},
		{
			"Z119_per_try_timeout", endpoints(hole, list[0].address) + `,"per_try_timeout":"200ms"`, ``,
			session.Completed, 200 * time.Millisecond, 1900 * time.Millisecond,
		},
		{
			"Z119_request_timeout", endpoints(hole, list[0].address) + `,"request_timeout":"300ms"`, ``,
			session.ConnectFailure, 300 * time.Millisecond, 1900 * time.Millisecond,
		},
		{"Z119_all", endpoints(hole, blackhole(t)), `,"connect_timeout":"500ms"`, session.ConnectFailure, 500 * time.Millisecond, 1900 * time.Millisecond},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := start(t, tc.config+first, tc.settings)
			v := s.visit(t, "192.0.2.7")
			if tc.want == session.Completed {
				v.at(t)
				v.leave()
			}
			<-v.done
			if got := v.sess.CloseReason(); got != tc.want {
				t.Errorf("got %v, want %v", got, tc.want)
			}
			if took := v.sess.ConnectTime; took < tc.least || took > tc.most {
				t.Errorf("got %v to connect, want %v to %v", took, tc.least, tc.most)
			}
			s.wantIdle(t)
		})
	}
}
