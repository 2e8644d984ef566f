package relay

import (
	"bytes"
	"crypto/rand"
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"syscall"
	"testing"
	"time"
)

// patience bounds every wait for something that must happen.
const patience = 20 * time.Second

// stream is what the far ends of these tests are: sockets that can half-close.
type stream interface {
	net.Conn
	CloseWrite() error
}

// pair returns the near and the far end of a new connection.
type pair func(t testing.TB) (near net.Conn, far stream)

func tcpPair(t testing.TB) (net.Conn, stream) { return socketPair(t, "tcp", "127.0.0.1:0") }

func unixPair(t testing.TB) (net.Conn, stream) {
	return socketPair(t, "unix", filepath.Join(t.TempDir(), "s"))
}

func socketPair(t testing.TB, network, address string) (net.Conn, stream) {
	t.Helper()
	l, err := net.Listen(network, address)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	far, err := net.Dial(network, l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	near, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { far.Close(); near.Close() })
	setPatience(t, far)
	return near, far.(stream)
}

func setPatience(t testing.TB, c net.Conn) {
	t.Helper()
	if err := c.SetDeadline(time.Now().Add(patience)); err != nil {
		t.Fatal(err)
	}
}

// opaque hides everything but net.Conn.
type opaque struct{ net.Conn }

// shown is a wrapper that shows the connection beneath, for signals.
type shown struct{ opaque }

func (s shown) NetConn() net.Conn { return s.Conn }

// bareWrap is a wrapper that lets the bytes go around it.
type bareWrap struct {
	opaque
	ok bool
}

func (b bareWrap) BareConn() (net.Conn, bool) { return b.Conn, b.ok }

func shownPair(t testing.TB) (net.Conn, stream) {
	near, far := tcpPair(t)
	return shown{opaque{near}}, far
}

func opaquePair(t testing.TB) (net.Conn, stream) {
	near, far := tcpPair(t)
	return opaque{near}, far
}

func barePair(t testing.TB) (net.Conn, stream) {
	near, far := tcpPair(t)
	return bareWrap{opaque{near}, true}, far
}

// rig is one relay with both its far ends.
type rig struct {
	*Relay
	client, backend stream
	done            chan struct{}
	end             End
	err             error
}

// prepare makes a relay between two new connections, with a pool of its own. It checks that in the end neither
// goroutines nor descriptors nor pipes are left.
func prepare(t testing.TB, clients, backends pair) *rig {
	t.Helper()
	noLeaks(t)
	return connect(t, ownPipes(t), clients, backends)
}

// connect makes a relay between two new connections.
func connect(t testing.TB, pipes *pipePool, clients, backends pair) *rig {
	t.Helper()
	b := &rig{Relay: &Relay{pipes: pipes}, done: make(chan struct{})}
	b.Client, b.client = clients(t)
	b.Backend, b.backend = backends(t)
	return b
}

// start runs the relay; wait returns how it ended.
func (b *rig) start(t testing.TB) *rig {
	t.Helper()
	go func() {
		defer close(b.done)
		if b.end, b.err = b.Run(); b.end == Completed {
			b.Client.Close()
			b.Backend.Close()
		}
	}()
	t.Cleanup(func() {
		b.Stop()
		<-b.done
	})
	return b
}

func (b *rig) wait(t testing.TB) (End, error) {
	t.Helper()
	select {
	case <-b.done:
		return b.end, b.err
	case <-time.After(patience):
		t.Fatal("the relay doesn't end")
		return 0, nil
	}
}

func (b *rig) expect(t testing.TB, end End, sent, received int) {
	t.Helper()
	got, err := b.wait(t)
	if got != end {
		t.Errorf("end: got %v (%v), want %v", got, err, end)
	}
	if (err != nil) != (end != Completed && end != Stopped) {
		t.Errorf("error of end %v: got %v", got, err)
	}
	if b.Sent() != int64(sent) || b.Received() != int64(received) {
		t.Errorf("sent, received: got %d, %d, want %d, %d", b.Sent(), b.Received(), sent, received)
	}
}

// noLeaks checks, when everything else was cleaned up, that the goroutines and descriptors are those of before.
func noLeaks(t testing.TB) {
	t.Helper()
	goroutines, files := runtime.NumGoroutine(), openFiles()
	t.Cleanup(func() {
		eventually(t, "goroutines and descriptors are back to base", func() bool {
			return runtime.NumGoroutine() <= goroutines && openFiles() <= files
		})
	})
}

func openFiles() int {
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		return 0
	}
	return len(entries)
}

// eventually polls for a state of the kernel or the runtime that nothing announces.
func eventually(t testing.TB, what string, is func() bool) {
	t.Helper()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(patience); time.Now().Before(end); <-tick.C {
		if is() {
			return
		}
	}
	t.Fatalf("not in time: %s", what)
}

func send(t testing.TB, c net.Conn, b []byte) {
	t.Helper()
	if _, err := c.Write(b); err != nil {
		t.Errorf("sending: %v", err)
	}
}

func receive(t testing.TB, c net.Conn, want string) {
	t.Helper()
	got := make([]byte, len(want))
	if n, err := io.ReadFull(c, got); err != nil || string(got) != want {
		t.Errorf("receiving: got %q (%v), want %q", got[:n], err, want)
	}
}

func receiveEnd(t testing.TB, c net.Conn) {
	t.Helper()
	if n, err := c.Read(make([]byte, 1)); n != 0 || err != io.EOF {
		t.Errorf("receiving the end: got %d bytes and %v, want EOF", n, err)
	}
}

func closeWrite(t testing.TB, s stream) {
	t.Helper()
	if err := s.CloseWrite(); err != nil {
		t.Errorf("closing to write: %v", err)
	}
}

// abortConn resets c.
func abortConn(t testing.TB, c net.Conn) {
	t.Helper()
	if err := c.(*net.TCPConn).SetLinger(0); err != nil {
		t.Error(err)
	}
	c.Close()
}

// receiveReset reads all there is and expects a reset behind it.
func receiveReset(t testing.TB, c net.Conn) []byte {
	t.Helper()
	got, err := io.ReadAll(c)
	if !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("receiving a reset: got %v after %d bytes", err, len(got))
	}
	return got
}

func random(t testing.TB, n int) []byte {
	t.Helper()
	b := make([]byte, n)
	if _, err := rand.Read(b); err != nil {
		t.Fatal(err)
	}
	return b
}

// exchange sends data and its end from each side at once, and checks what arrives.
func exchange(t testing.TB, b *rig, up, down []byte) {
	t.Helper()
	done := make(chan struct{})
	go func() {
		defer close(done)
		transfer(t, b.client, b.backend, up)
	}()
	transfer(t, b.backend, b.client, down)
	<-done
}

func transfer(t testing.TB, from, to stream, data []byte) {
	t.Helper()
	go func() {
		send(t, from, data)
		closeWrite(t, from)
	}()
	got, err := io.ReadAll(to)
	if err != nil {
		t.Errorf("receiving: %v", err)
	}
	if !bytes.Equal(got, data) {
		t.Errorf("got %d other bytes, want %d", len(got), len(data))
	}
}

func TestBulkBothWays(t *testing.T) {
	tests := []struct {
		name              string
		clients, backends pair
	}{
		{"tcp to tcp", tcpPair, tcpPair},
		{"unix to unix", unixPair, unixPair},
		{"tcp to unix", tcpPair, unixPair},
		{"unix to tcp", unixPair, tcpPair},
		{"tls to tcp", tlsPair, tcpPair},
		{"tcp to tls", tcpPair, tlsPair},
		{"wrapper to tcp", shownPair, tcpPair},
		{"tcp to wrapper", tcpPair, shownPair},
		{"bare wrapper to tcp", barePair, tcpPair},
	}
	const size = 10 << 20
	up, down := random(t, size), random(t, size)
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			b := prepare(t, test.clients, test.backends).start(t)
			exchange(t, b, up, down)
			b.expect(t, Completed, size, size)
		})
	}
}

func TestEcho(t *testing.T) {
	for name, p := range map[string]pair{"tcp": tcpPair, "unix": unixPair, "tls": tlsPair} {
		t.Run(name, func(t *testing.T) { testEcho(t, p) })
	}
}

func testEcho(t *testing.T, clients pair) {
	b := prepare(t, clients, tcpPair).start(t)
	for range 100 {
		send(t, b.client, []byte("ping"))
		receive(t, b.backend, "ping")
		send(t, b.backend, []byte("answer"))
		receive(t, b.client, "answer")
	}
	closeWrite(t, b.client)
	receiveEnd(t, b.backend)
	closeWrite(t, b.backend)
	receiveEnd(t, b.client)
	b.expect(t, Completed, 400, 600)
}

// The backend speaks first, and the client never does before that: nothing may wait for client data.
func TestServerFirst(t *testing.T) {
	b := prepare(t, tcpPair, tcpPair).start(t)
	send(t, b.backend, []byte("220 hello\r\n"))
	receive(t, b.client, "220 hello\r\n")
	b.backend.Close()
	receiveEnd(t, b.client)
	b.client.Close()
	b.expect(t, Completed, 0, 11)
}

func TestPrefixAlone(t *testing.T) {
	b := prepare(t, tcpPair, tcpPair)
	b.Prefix = []byte("hello")
	b.start(t)
	receive(t, b.backend, "hello")
	b.Stop()
	b.expect(t, Stopped, 5, 0)
	if b.Prefix != nil {
		t.Error("the prefix is still held")
	}
}

// Much data come right behind the prefix, and the end of the stream right behind them.
func TestPrefixAndMore(t *testing.T) {
	prefix, more := []byte("hello, preread "), random(t, 1<<20)
	b := prepare(t, tcpPair, tcpPair)
	b.Prefix = prefix
	go func() {
		send(t, b.client, more)
		closeWrite(t, b.client)
	}()
	b.start(t)
	got, err := io.ReadAll(b.backend)
	if err != nil || !bytes.Equal(got, append(slices.Clip(prefix), more...)) {
		t.Errorf("got %d bytes (%v), want %d", len(got), err, len(prefix)+len(more))
	}
	closeWrite(t, b.backend)
	b.expect(t, Completed, len(prefix)+len(more), 0)
}

// A backend that speaks first and doesn't read is heard though the prefix is stuck.
func TestPrefixDoesNotBlockTheBackend(t *testing.T) {
	b := prepare(t, tcpPair, tcpPair)
	b.Prefix = random(t, 16<<20) // more than the sockets hold
	b.start(t)
	send(t, b.backend, []byte("banner"))
	receive(t, b.client, "banner")
	b.Stop()
	if end, _ := b.wait(t); end != Stopped {
		t.Errorf("got %v, want %v", end, Stopped)
	}
}

// Whatever was preread, a deadline that was set for it must not cut the session.
func TestOldDeadlinesAreCleared(t *testing.T) {
	b := prepare(t, tcpPair, tcpPair)
	past := time.Unix(1, 0)
	b.Client.SetDeadline(past)
	b.Backend.SetDeadline(past)
	b.start(t)
	send(t, b.client, []byte("ping"))
	receive(t, b.backend, "ping")
	send(t, b.backend, []byte("pong"))
	receive(t, b.client, "pong")
	b.Stop()
	b.expect(t, Stopped, 4, 4)
}
