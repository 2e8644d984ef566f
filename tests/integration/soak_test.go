package integration

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

const (
	// soakVariable says how long the soak takes; soakDefault is for those who only run all tests.
	soakVariable = "SLUICE_SOAK"
	soakDefault  = 6 * time.Second
	soakClients  = 200
	soakReloads  = 20
	// soakPause is the longest pause of a client between two things that it does.
	soakPause = 500 * time.Millisecond
	// slowness is how many times as long as it was served a client pauses, too: a busy machine must not get behind by seconds,
	// or the proxy's timers end what is in order.
	slowness = 4
)

// soak is what the clients and the backend of the soak share.
type soak struct {
	*proxy
	until time.Time
	// in and out count what orderly clients have sent and received, backendIn and backendOut the same as the backend
	// saw it. Each connection says of itself whether it is orderly.
	in, out, backendIn, backendOut atomic.Int64
	orderly                        atomic.Int64
	kinds                          [kindsOfClient]atomic.Int64
}

// The kinds of clients. The kind and two lengths are what a client says first.
const (
	asks     = iota // sends, ends its stream, reads the answer to its end
	listens         // sends; the backend ends its stream first, and the client then its own
	resets          // sends and aborts
	isReset         // sends; the backend aborts
	vanishes        // connects and leaves without a byte
	stalls          // says half of what it should and nothing more, until the proxy ends it
	kindsOfClient
)

// order is the first 9 bytes of a client: its kind, how much more it sends, and how much it wants.
type order struct {
	kind       byte
	send, want uint32
}

func (o order) bytes() []byte {
	b := []byte{o.kind}
	b = binary.BigEndian.AppendUint32(b, o.send)
	return binary.BigEndian.AppendUint32(b, o.want)
}

const orderBytes = 9

// backend answers one connection.
func (s *soak) backend(c stream) {
	var head [orderBytes]byte
	if _, err := io.ReadFull(c, head[:]); err != nil {
		return
	}
	o := order{head[0], binary.BigEndian.Uint32(head[1:]), binary.BigEndian.Uint32(head[5:])}
	if o.kind == isReset {
		_ = c.(*net.TCPConn).SetLinger(0)
		return
	}
	if o.kind == resets {
		_, _ = io.Copy(io.Discard, c)
		return
	}
	got, err := io.CopyN(io.Discard, struct{ io.Reader }{c}, int64(o.send))
	if err != nil {
		return
	}
	sent, err := c.Write(make([]byte, o.want))
	if err != nil || c.CloseWrite() != nil {
		return
	}
	if n, err := io.Copy(io.Discard, struct{ io.Reader }{c}); n != 0 || err != nil {
		return
	}
	s.backendIn.Add(orderBytes + got)
	s.backendOut.Add(int64(sent))
}

// client is one client, which connects again and again.
func (s *soak) client(r *rand.Rand) {
	for time.Now().Before(s.until) {
		o := order{byte(r.IntN(kindsOfClient)), uint32(r.IntN(64 << 10)), uint32(r.IntN(64 << 10))}
		if r.IntN(10) == 0 {
			o.want = 1 << 20 // enough for a splice
		}
		s.kinds[o.kind].Add(1)
		begin := time.Now()
		if err := s.connect(o); err != nil {
			s.Errorf("kind %d: %v", o.kind, err)
			return
		}
		pause := time.Duration(r.Int64N(int64(soakPause)))
		if o.kind == asks || o.kind == listens {
			pause += slowness * time.Since(begin)
		}
		time.Sleep(pause) // shapes the load; nothing waits for it
	}
}

// connect is one connection of a client. It returns an error only if something went wrong that must not.
func (s *soak) connect(o order) error {
	conn, err := net.Dial("tcp", s.addr)
	if err != nil {
		return err
	}
	c := conn.(*net.TCPConn)
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(patience))
	switch o.kind {
	case vanishes:
		return nil
	case stalls:
		_, _ = c.Write(o.bytes()[:4])
		_, _ = io.Copy(io.Discard, struct{ io.Reader }{c})
		return nil
	case resets:
		_, _ = c.Write(append(o.bytes(), make([]byte, o.send)...))
		return c.SetLinger(0)
	case isReset:
		_, _ = c.Write(append(o.bytes(), make([]byte, o.send)...))
		_, _ = io.Copy(io.Discard, struct{ io.Reader }{c})
		return nil
	}
	return s.converse(c, o)
}

// converse is the conversation of an orderly client: every byte must arrive.
func (s *soak) converse(c *net.TCPConn, o order) error {
	sent, err := c.Write(append(o.bytes(), make([]byte, o.send)...))
	if err != nil {
		return fmt.Errorf("sending: %w", err)
	}
	if o.kind == asks {
		if err := c.CloseWrite(); err != nil {
			return fmt.Errorf("ending: %w", err)
		}
	}
	digest := sha256.New()
	got, err := io.Copy(digest, struct{ io.Reader }{c})
	if err != nil || got != int64(o.want) {
		return fmt.Errorf("receiving: got %d bytes, %w, want %d", got, err, o.want)
	}
	s.in.Add(int64(sent))
	s.out.Add(got)
	s.orderly.Add(1)
	return nil
}

// soakRoutes are the handlers of one config of the soak. They differ from config to config.
func soakRoutes(i int, backend string) string {
	return fmt.Sprintf(`access_log
		admission {
			max_connections 10000
			max_connections_per_ip %d
		}
		ip_acl {
			allow 127.0.0.0/8
		}
		forward %s {
			idle_timeout 3s
			session_timeout 1m
			max_duration %ds
			half_close_timeout 5s
		}`, 5000+i, backend, 100+i)
}

// soakTime says how long the soak takes.
func soakTime(t *testing.T) time.Duration {
	t.Helper()
	value := os.Getenv(soakVariable)
	if value == "" {
		return soakDefault
	}
	d, err := time.ParseDuration(value)
	if err != nil {
		t.Fatalf("%s: %v", soakVariable, err)
	}
	return d
}

// TestSoak has clients connect, stall, half-close and reset while the config is reloaded again and again. In the end
// nothing is left (the lab looks after goroutines and descriptors), and the bytes add up.
func TestSoak(t *testing.T) {
	took := soakTime(t)
	l := newLab(t)
	s := &soak{until: time.Now().Add(took)}
	b := l.backend()
	b.serve(s.backend)
	s.proxy = l.start(soakRoutes(0, b.addr))
	base := s.metrics()

	var wait sync.WaitGroup
	for i := range soakClients {
		r := rand.New(rand.NewPCG(1, uint64(i)))
		wait.Go(func() { s.client(r) })
	}
	for i := range soakReloads {
		time.Sleep(took / soakReloads) // the reloads are spread over the soak
		if err := s.route(soakRoutes(i+1, b.addr)); err != nil {
			t.Errorf("reload %d: %v", i, err)
		}
	}
	wait.Wait()

	const active = "caddy_sluice_session_active"
	// The last may wait still to be accepted.
	l.eventually("each connection has its line", func() (string, bool) {
		lines, _ := s.lines()
		return fmt.Sprintf("%d of %d", lines, s.connections()), lines >= s.connections()
	})
	l.eventually("no session is left", func() (string, bool) {
		left := s.metric(active)
		return fmt.Sprint(left), left == base[active]
	})
	for kind := range s.kinds {
		if s.kinds[kind].Load() == 0 {
			t.Errorf("got no client of kind %d", kind)
		}
	}
	if in, out := s.in.Load(), s.out.Load(); in != s.backendIn.Load() || out != s.backendOut.Load() || s.orderly.Load() == 0 {
		t.Errorf("got %d and %d bytes at clients, %d and %d at the backend, want the same", in, out, s.backendIn.Load(), s.backendOut.Load())
	}
	s.checkLog()
	s.checkMetrics(base)
}

// connections returns how many connections the clients have made.
func (s *soak) connections() (n int64) {
	for kind := range s.kinds {
		n += s.kinds[kind].Load()
	}
	return n
}

// lines returns how many lines the access log has, and how many of them are about connections that ended in order.
func (s *soak) lines() (all, completed int64) {
	for _, r := range records.find(func(r logRecord) bool { return r.Msg == "connection" && r.Logger == accessLogger }) {
		all++
		if strings.Contains(r.Line, `"reason":"completed"`) {
			completed++
		}
	}
	return all, completed
}

// checkLog checks that the access log has one line for each connection and that orderly ones add up in it, too.
func (s *soak) checkLog() {
	s.Helper()
	lines, completed := s.lines()
	if connections := s.connections(); lines != connections || completed < s.orderly.Load() {
		s.Errorf("got %d lines, %d completed, want %d and at least %d", lines, completed, connections, s.orderly.Load())
	}
}

// checkMetrics checks that all connections are in the counters, once each.
func (s *soak) checkMetrics(base map[string]float64) {
	s.Helper()
	var closed float64
	now := s.metrics()
	for series, value := range now {
		const prefix = "caddy_sluice_session_closed_total{"
		if strings.HasPrefix(series, prefix) {
			closed += value - base[series]
		}
	}
	if connections := s.connections(); closed != float64(connections) {
		s.Errorf("got %v connections closed, want %d", closed, connections)
	}
	const received = "caddy_sluice_session_received_bytes_total"
	if got := now[received] - base[received]; got < float64(s.in.Load()) {
		s.Errorf("got %v bytes received, want at least the %d of orderly clients", got, s.in.Load())
	}
}
