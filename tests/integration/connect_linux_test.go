package integration

import (
	"net"
	"os"
	"syscall"
	"testing"
	"time"
)

// busyBackend returns a listener whose queue is full: the kernel drops the first packet of further connections, which
// are tried again after a second. free makes room.
func busyBackend(l *lab) (b *backend, free func()) {
	l.Helper()
	fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		l.Fatal(err)
	}
	file := os.NewFile(uintptr(fd), "listener")
	defer file.Close()
	if err := syscall.Bind(fd, &syscall.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}); err != nil {
		l.Fatal(err)
	}
	if err := syscall.Listen(fd, 1); err != nil {
		l.Fatal(err)
	}
	ln, err := net.FileListener(file)
	if err != nil {
		l.Fatal(err)
	}
	l.Cleanup(func() { ln.Close() })
	b = &backend{l, ln, ln.Addr().String()}
	var fillers []net.Conn
	for {
		c, err := net.DialTimeout("tcp", b.addr, 500*time.Millisecond)
		if err != nil {
			break
		}
		fillers = append(fillers, c)
	}
	return b, func() {
		for _, c := range fillers {
			b.accept().Close()
			c.Close()
		}
	}
}

// TestSlowConnect has a backend that takes longer to connect than the preread may take, and a client that has ended
// its stream by then.
func TestSlowConnect(t *testing.T) {
	l := newLab(t)
	b, free := busyBackend(l)
	p := l.start("sight\n preread {\n timeout 1s \n}\n" + routes(b.addr+" {\n connect_timeout 30s \n}", ""))
	sum := metricPrefix + "duration_seconds_sum"
	base, took := p.counts(), p.metric(sum)
	hello := named("known.test")
	c := p.dial()
	c.send(hello)
	c.end()
	p.await(base, counts{"active": 1, "routed_total": 1})
	// The preread's timeout passes: what would end the connection then must have its chance.
	time.Sleep(1200 * time.Millisecond)
	p.await(base, counts{"active": 1, "routed_total": 1})
	free()
	up := b.accept()
	up.expectEnd(hello)
	p.await(base, counts{"routed_total": 1, "duration_seconds_count": 1})
	if took = p.metric(sum) - took; took < 1.2 {
		t.Errorf("duration: got %vs, want the time to connect in it, over 1.2s", took)
	}
	up.send([]byte("late"))
	up.Close()
	c.expectEnd([]byte("late"))
	p.settle(base, 1, counts{"routed_total": 1})
	p.expectEnding("completed", len(hello), 4)
	p.quiet()
}

func TestConnectTimeout(t *testing.T) {
	l := newLab(t)
	b, free := busyBackend(l)
	defer free()
	p := l.start("sight\n sni_router {\n route known.test {\n forward " + b.addr + " {\n connect_timeout 300ms \n}\n}\n}")
	base := p.counts()
	begin := time.Now()
	c := p.dial()
	c.send(named("known.test"))
	c.expectClosed()
	p.between(time.Since(begin), 290*time.Millisecond, soon)
	p.settle(base, 1, counts{"routed_total": 1})
	p.expectEnding("connect_failure", 0, 0)
	if loud := p.loud(); len(loud) != 1 || loud[0].Level != "warn" {
		t.Errorf("log: got %v, want one warning", loud)
	}
}
