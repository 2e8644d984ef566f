package sockopt

import (
	"errors"
	"io"
	"net"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// option reads an option of the socket at the bottom of conn.
func option(t *testing.T, conn net.Conn, level, name int) int {
	t.Helper()
	var value int
	var failed error
	if err := control(conn, func(fd int) { value, failed = unix.GetsockoptInt(fd, level, name) }); err != nil || failed != nil {
		t.Fatal(err, failed)
	}
	return value
}

// options are the values of a socket: keepalive on, idle time, interval, number of probes, user timeout.
type options struct{ on, idle, interval, count, user int }

func optionsOf(t *testing.T, conn net.Conn) options {
	t.Helper()
	return options{
		on:       option(t, conn, unix.SOL_SOCKET, unix.SO_KEEPALIVE),
		idle:     option(t, conn, unix.IPPROTO_TCP, unix.TCP_KEEPIDLE),
		interval: option(t, conn, unix.IPPROTO_TCP, unix.TCP_KEEPINTVL),
		count:    option(t, conn, unix.IPPROTO_TCP, unix.TCP_KEEPCNT),
		user:     option(t, conn, unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT),
	}
}

func TestOptionsOfTheSocket(t *testing.T) {
	client, _ := tcpPair(t)
	before := optionsOf(t, client)
	for _, tc := range []struct {
		name string
		set  KeepAlive
		want options
	}{
		{"nothing", KeepAlive{}, before},
		{"both", KeepAlive{7 * time.Second, 90 * time.Second}, options{1, 7, 7, 9, 90_000}},
		{"user_timeout_negative", KeepAlive{0, -1}, options{1, 7, 7, 9, 90_000}},
		{"rounded_up", KeepAlive{1500 * time.Millisecond, time.Millisecond + 1}, options{1, 2, 2, 9, 2}},
		{"off", KeepAlive{Interval: -1}, options{0, 2, 2, 9, 2}},
		{"on_again", KeepAlive{Interval: 3 * time.Second}, options{1, 3, 3, 9, 2}},
		{"longest", KeepAlive{UserTimeout: 1 << 62}, options{1, 3, 3, 9, 1<<31 - 1}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if err := tc.set.Apply(shown{client}); err != nil {
				t.Fatal(err)
			}
			if got := optionsOf(t, client); got != tc.want {
				t.Errorf("got %+v, want %+v", got, tc.want)
			}
		})
	}
}

func TestUserTimeoutOfAClosedConnection(t *testing.T) {
	client, _ := tcpPair(t)
	client.Close()
	if err := (KeepAlive{UserTimeout: time.Second}).Apply(client); !errors.Is(err, net.ErrClosed) {
		t.Errorf("got %v, want %v", err, net.ErrClosed)
	}
	if got, ok := SinceLastByte(client); ok {
		t.Errorf("got %v", got)
	}
}

// TestSinceLastByte lets some time pass, has a byte arrive, and looks at both ends each time.
func TestSinceLastByte(t *testing.T) {
	client, server := tcpPair(t)
	const quiet = 60 * time.Millisecond
	waitForAge(t, client, quiet)
	if _, err := client.Write([]byte("x")); err != nil {
		t.Fatal(err)
	}
	if _, err := server.Read(make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
	received, ok := SinceLastByte(shown{server}) // before the other, which only grows meanwhile
	sent, _ := SinceLastByte(shown{client})
	if !ok || received >= sent || sent < quiet {
		t.Errorf("got %v at the receiver, %v at the sender (%v)", received, sent, ok)
	}
}

// waitForAge waits until the last byte of conn is that old. It fails after 10 seconds.
func waitForAge(t *testing.T, conn net.Conn, age time.Duration) {
	t.Helper()
	start := time.Now()
	for time.Since(start) < 10*time.Second {
		got, ok := SinceLastByte(conn)
		if !ok {
			t.Fatal("got no age")
		}
		// The kernel's ticks may be coarser than our clock.
		if passed := time.Since(start); got > passed+time.Second {
			t.Fatalf("got %v, after %v", got, passed)
		}
		if got >= age {
			return
		}
		<-time.After(5 * time.Millisecond)
	}
	t.Fatalf("got no age of %v in 10s", age)
}

// TestAcked has an endpoint that ends a connection on which it has answered once, and looks at what it has acknowledged of
// the next seven bytes.
func TestAcked(t *testing.T) {
	take := func(t *testing.T, server net.Conn) {
		t.Helper()
		if _, err := io.ReadFull(server, make([]byte, 7)); err != nil {
			t.Fatal(err)
		}
	}
	for _, tc := range []struct {
		name string
		// before is done before the bytes are sent, after when they are.
		before, after func(*testing.T, *net.TCPConn)
		want          int64
		end           error
	}{
		{
			name: "closed_while_idle", end: io.EOF,
			before: func(_ *testing.T, server *net.TCPConn) { server.Close() },
		},
		{
			name: "closed_after_reading", want: 7, end: io.EOF,
			after: func(t *testing.T, server *net.TCPConn) { take(t, server); server.Close() },
		},
		{
			name: "answered", want: 7,
			after: func(t *testing.T, server *net.TCPConn) { take(t, server); _, _ = server.Write([]byte("x")) },
		},
		{
			name: "reset_after_reading_acknowledges_nothing", end: syscall.ECONNRESET,
			after: func(t *testing.T, server *net.TCPConn) { take(t, server); _ = server.SetLinger(0); server.Close() },
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			client, server := tcpPair(t)
			exchange(t, client, server)
			begin, ok := Acked(shown{client})
			if !ok || begin != 1+int64(len("ping")) {
				t.Fatalf("got %d acknowledged, %v, want 5: the SYN and what was answered", begin, ok)
			}
			if tc.before != nil {
				tc.before(t, server.(*net.TCPConn))
			}
			_, _ = client.Write([]byte("request"))
			if tc.after != nil {
				tc.after(t, server.(*net.TCPConn))
			}
			_, err := client.Read(make([]byte, 1))
			got, ok := Acked(client)
			if !ok || got-begin != tc.want || !errors.Is(err, tc.end) {
				t.Errorf("got %d acknowledged, %v, and %v, want %d and %v", got-begin, ok, err, tc.want, tc.end)
			}
		})
	}
	t.Run("closed_here", func(t *testing.T) {
		client, server := tcpPair(t)
		exchange(t, client, server)
		client.Close()
		if got, ok := Acked(client); ok {
			t.Errorf("got %d", got)
		}
	})
}

// TestEnded looks at a connection before and after the other end closes it, with something to read and without, also when
// what was sent after that was answered by a reset. A reset alone is no end.
func TestEnded(t *testing.T) {
	client, server := tcpPair(t)
	exchange(t, client, server)
	if Ended(client) {
		t.Error("got an end of an open connection")
	}
	if _, err := server.Write([]byte("x")); err != nil {
		t.Fatal(err)
	}
	server.Close()
	if Ended(client) {
		t.Error("got an end before the last byte")
	}
	if _, err := io.ReadFull(client, make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if !Ended(shown{client}) {
			t.Error("got no end")
		}
		_, _ = client.Write([]byte("too late"))
	}
	client.Close()
	if Ended(client) {
		t.Error("got an end of a connection that is closed here")
	}

	client, server = tcpPair(t)
	exchange(t, client, server)
	_ = server.(*net.TCPConn).SetLinger(0)
	server.Close()
	if Ended(client) {
		t.Error("got an end of a connection that was reset")
	}
}

// exchange sends four bytes and gets an answer.
func exchange(t *testing.T, client, server net.Conn) {
	t.Helper()
	four := make([]byte, 4)
	for _, hop := range [][2]net.Conn{{client, server}, {server, client}} {
		_, err := hop[0].Write([]byte("ping"))
		if err == nil {
			_, err = io.ReadFull(hop[1], four)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

// TestUnixSocket has a connection with a descriptor, but without TCP.
func TestUnixSocket(t *testing.T) {
	listener, err := net.Listen("unix", filepath.Join(t.TempDir(), "s"))
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	conn, err := net.Dial("unix", listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if err := (KeepAlive{time.Second, time.Second}).Apply(conn); err != nil {
		t.Errorf("got %v", err)
	}
	if got, ok := SinceLastByte(conn); ok {
		t.Errorf("got %v", got)
	}
	if got, ok := Acked(conn); ok {
		t.Errorf("got %v", got)
	}
}

func BenchmarkSinceLastByte(b *testing.B) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	defer listener.Close()
	conn, err := net.Dial("tcp", listener.Addr().String())
	if err != nil {
		b.Fatal(err)
	}
	defer conn.Close()
	b.ReportAllocs()
	for b.Loop() {
		SinceLastByte(conn)
	}
}
