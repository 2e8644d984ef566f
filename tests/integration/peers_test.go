package integration

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"net"
	"path/filepath"
	"sync"
	"syscall"
	"time"
)

// stream is a connection whose sides can be closed one by one.
type stream interface {
	net.Conn
	CloseWrite() error
}

// peer is one end of a connection that a test drives itself. Each wait on it is bounded by patience.
type peer struct {
	*lab
	stream
}

// Close ends the connection; it is for cleanups too.
func (c *peer) Close() { _ = c.stream.Close() }

func (l *lab) peer(c net.Conn) *peer {
	l.Helper()
	p := &peer{l, c.(stream)}
	l.Cleanup(p.Close)
	if err := c.SetDeadline(time.Now().Add(patience)); err != nil {
		l.Fatal(err)
	}
	return p
}

// dial connects to the proxy.
func (p *proxy) dial() *peer {
	p.Helper()
	c, err := net.Dial("tcp", p.addr)
	if err != nil {
		p.Fatal(err)
	}
	return p.peer(c)
}

// send writes all of the data.
func (c *peer) send(data ...[]byte) {
	c.Helper()
	for _, b := range data {
		if _, err := c.stream.Write(b); err != nil {
			c.Fatalf("sending: %v", err)
		}
	}
}

// push sends from a goroutine of its own and then does what follows, if anything.
func (c *peer) push(wait *sync.WaitGroup, data []byte, then func()) {
	wait.Go(func() {
		if _, err := c.stream.Write(data); err != nil {
			c.Errorf("sending: %v", err)
		}
		if then != nil {
			then()
		}
	})
}

// end ends the stream to the other side.
func (c *peer) end() {
	c.Helper()
	if err := c.CloseWrite(); err != nil {
		c.Errorf("ending the stream: %v", err)
	}
}

// abort closes the connection with a reset.
func (c *peer) abort() {
	c.Helper()
	if err := c.stream.(*net.TCPConn).SetLinger(0); err != nil {
		c.Fatal(err)
	}
	c.Close()
}

// expect reads exactly these bytes.
func (c *peer) expect(want []byte) {
	c.Helper()
	got := make([]byte, len(want))
	n, err := io.ReadFull(c.stream, got)
	if err != nil {
		c.Fatalf("receiving: got %d bytes and %v, want %d bytes", n, err, len(want))
	}
	if !bytes.Equal(got, want) {
		c.Fatalf("receiving %d bytes: they differ from what was sent, from byte %d on", len(want), common(got, want))
	}
}

// expectEnd reads exactly these bytes and then the end of the stream.
func (c *peer) expectEnd(want []byte) {
	c.Helper()
	got, err := io.ReadAll(c.stream)
	if err != nil || !bytes.Equal(got, want) {
		c.Fatalf("receiving: got %d bytes (%.60x) and %v, want %d bytes (%.60x) and the end of the stream",
			len(got), got, err, len(want), want)
	}
}

// expectReset reads whatever comes until the connection is reset.
func (c *peer) expectReset() {
	c.Helper()
	if n, err := io.Copy(io.Discard, c.stream); !errors.Is(err, syscall.ECONNRESET) {
		c.Fatalf("receiving: got %d bytes and %v, want a reset", n, err)
	}
}

// expectClosed checks that the connection is over without a byte, whether with a FIN or a reset: a socket closed with
// unread bytes in it resets.
func (c *peer) expectClosed() {
	c.Helper()
	got, err := io.ReadAll(c.stream)
	if len(got) > 0 || err != nil && !errors.Is(err, syscall.ECONNRESET) {
		c.Fatalf("receiving: got %d bytes (%.60x) and %v, want none and an end", len(got), got, err)
	}
}

// common returns how many bytes from the start are the same.
func common(a, b []byte) int {
	n := 0
	for n < len(a) && n < len(b) && a[n] == b[n] {
		n++
	}
	return n
}

// backend is a listener whose connections the test takes and drives itself.
type backend struct {
	*lab
	ln   net.Listener
	addr string
}

func (l *lab) backend() *backend {
	l.Helper()
	return l.listen("tcp", "127.0.0.1:0")
}

// unixBackend listens on a unix socket; its addr is written as Caddy does.
func (l *lab) unixBackend() *backend {
	l.Helper()
	path := filepath.Join(l.dir, "backend")
	b := l.listen("unix", path)
	b.addr = "unix/" + path
	return b
}

func (l *lab) listen(network, addr string) *backend {
	l.Helper()
	ln, err := net.Listen(network, addr)
	if err != nil {
		l.Fatal(err)
	}
	l.Cleanup(func() { ln.Close() })
	return &backend{l, ln, ln.Addr().String()}
}

// accept waits for the next connection.
func (b *backend) accept() *peer {
	b.Helper()
	type deadliner interface{ SetDeadline(time.Time) error }
	if err := b.ln.(deadliner).SetDeadline(time.Now().Add(patience)); err != nil {
		b.Fatal(err)
	}
	c, err := b.ln.Accept()
	if err != nil {
		b.Fatalf("waiting for a connection: %v", err)
	}
	return b.peer(c)
}

// serve hands all connections to f, each in a goroutine, and closes them when f returns. The goroutines end with the
// test.
func (b *backend) serve(f func(stream)) {
	var wait sync.WaitGroup
	wait.Go(func() {
		for {
			c, err := b.ln.Accept()
			if err != nil {
				return
			}
			wait.Go(func() {
				defer c.Close()
				_ = c.SetDeadline(time.Now().Add(patience))
				f(c.(stream))
			})
		}
	})
	b.Cleanup(func() {
		b.ln.Close()
		wait.Wait()
	})
}

// digester is a backend that reads to the end of the stream and then answers with its tag and a digest of all bytes.
// It returns its address.
func (l *lab) digester(tag string) string {
	l.Helper()
	b := l.backend()
	b.serve(func(c stream) {
		h := sha256.New()
		n, err := io.Copy(h, c)
		if err == nil {
			fmt.Fprintf(c, "%s %d %x", tag, n, h.Sum(nil))
		}
	})
	return b.addr
}

// digest is what the digester with this tag answers to these bytes.
func digest(tag string, data ...[]byte) string {
	all := bytes.Join(data, nil)
	return fmt.Sprintf("%s %d %x", tag, len(all), sha256.Sum256(all))
}

// echo is a backend that sends back what it receives. It hides the sockets' shortcut for copies, which would leave a
// pipe behind until the garbage is collected.
func (l *lab) echo() string {
	l.Helper()
	b := l.backend()
	b.serve(func(c stream) { _, _ = io.Copy(struct{ io.Writer }{c}, struct{ io.Reader }{c}) })
	return b.addr
}

// ask sends the parts, with a pause between them, ends the stream and returns the answer. It may be called from any
// goroutine. The pause shapes the traffic, so that the proxy reads the parts one by one; nothing waits for it.
func (p *proxy) ask(pause time.Duration, parts ...[]byte) (string, error) {
	c, err := net.Dial("tcp", p.addr)
	if err != nil {
		return "", err
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(patience))
	for i, part := range parts {
		if i > 0 {
			time.Sleep(pause)
		}
		if _, err := c.Write(part); err != nil {
			return "", err
		}
	}
	if err := c.(*net.TCPConn).CloseWrite(); err != nil {
		return "", err
	}
	answer, err := io.ReadAll(c)
	return string(answer), err
}

// expectAnswer asks and checks the answer.
func (p *proxy) expectAnswer(want string, parts ...[]byte) {
	p.Helper()
	if got, err := p.ask(0, parts...); err != nil || got != want {
		p.Errorf("answer: got %q, %v, want %q", got, err, want)
	}
}

// pattern returns n bytes that don't repeat soon, so that a lost, doubled or swapped block shows.
func pattern(n int) []byte {
	data := make([]byte, n)
	x := uint32(2463534242)
	for i := range data {
		x ^= x << 13
		x ^= x >> 17
		x ^= x << 5
		data[i] = byte(x)
	}
	return data
}
