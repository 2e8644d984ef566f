package relay

import (
	"bytes"
	"errors"
	"io"
	"net"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
)

// sides returns both far ends, the client first if client is set.
func (b *rig) sides(client bool) (first, second stream) {
	if client {
		return b.client, b.backend
	}
	return b.backend, b.client
}

// bothSides runs a test for each side as the one that acts.
func bothSides(t *testing.T, test func(t *testing.T, client bool)) {
	t.Helper()
	t.Run("client", func(t *testing.T) { test(t, true) })
	t.Run("backend", func(t *testing.T) { test(t, false) })
}

func abortedBy(client bool) End {
	if client {
		return ClientAborted
	}
	return BackendAborted
}

func TestHalfClose(t *testing.T) {
	pairs := map[string]pair{"tcp": tcpPair, "unix": unixPair, "tls": tlsPair, "wrapper": shownPair}
	for name, p := range pairs {
		t.Run(name, func(t *testing.T) {
			bothSides(t, func(t *testing.T, client bool) { testHalfClose(t, p, client) })
		})
	}
}

func testHalfClose(t *testing.T, p pair, clientFirst bool) {
	b := prepare(t, p, p)
	told := make(chan struct{}, 2)
	b.OnHalfClose = func() { told <- struct{}{} }
	b.start(t)
	first, second := b.sides(clientFirst)
	if b.HalfClosed() {
		t.Error("half-closed before anything happened")
	}
	send(t, first, []byte("bye"))
	closeWrite(t, first)
	receive(t, second, "bye")
	receiveEnd(t, second)
	<-told
	if !b.HalfClosed() {
		t.Error("not half-closed")
	}
	send(t, second, []byte("one more"))
	receive(t, first, "one more")
	send(t, second, []byte(" thing"))
	receive(t, first, " thing")
	closeWrite(t, second)
	receiveEnd(t, first)
	if clientFirst {
		b.expect(t, Completed, 3, 14)
	} else {
		b.expect(t, Completed, 14, 3)
	}
	if len(told) != 0 {
		t.Error("told twice")
	}
}

// A connection that can't be half-closed gets muteGrace to finish the exchange.
func TestEndThatCannotBePassedOn(t *testing.T) {
	b := prepare(t, tcpPair, opaquePair).start(t)
	send(t, b.client, []byte("request"))
	closeWrite(t, b.client)
	receive(t, b.backend, "request")
	send(t, b.backend, []byte("response"))
	receive(t, b.client, "response")
	b.expect(t, Completed, 7, 8)
}

// pipes is a relay between two pipes of the standard library, which can't be half-closed.
func pipes() (r *Relay, client, backend net.Conn) {
	client, nearClient := net.Pipe()
	nearBackend, backend := net.Pipe()
	return &Relay{Client: nearClient, Backend: nearBackend, Prefix: []byte("pre")}, client, backend
}

// ends runs r and checks how, and when, it ends.
func ends(t *testing.T, r *Relay, end End, after time.Duration) {
	t.Helper()
	start := time.Now()
	got, err := r.Run()
	if took := time.Since(start); got != end || err != nil || took != after {
		t.Errorf("got %v (%v) after %v, want %v after %v", got, err, took, end, after)
	}
}

func TestPipesBothClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, client, backend := pipes()
		go func() {
			receive(t, backend, "prehello")
			send(t, backend, []byte("answer"))
			backend.Close()
		}()
		go func() {
			send(t, client, []byte("hello"))
			receive(t, client, "answer")
			client.Close()
		}()
		ends(t, r, Completed, 0)
		if r.Sent() != 8 || r.Received() != 6 {
			t.Errorf("sent, received: got %d, %d, want 8, 6", r.Sent(), r.Received())
		}
	})
}

func TestPipesOneCloses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, client, backend := pipes()
		go func() {
			receive(t, backend, "pre")
			client.Close()
		}()
		ends(t, r, Completed, muteGrace)
	})
}

func TestPipesStoppedWhileIdle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, _, backend := pipes()
		time.AfterFunc(time.Hour, r.Stop)
		go receive(t, backend, "pre")
		ends(t, r, Stopped, time.Hour)
	})
}

// An abort arrives as one, behind everything that was sent before it.
func TestAbort(t *testing.T) {
	for name, size := range map[string]int{"idle": 0, "after a little": 5, "after much": 4 << 20} {
		t.Run(name, func(t *testing.T) {
			bothSides(t, func(t *testing.T, client bool) { testAbort(t, client, size) })
		})
	}
}

func testAbort(t *testing.T, client bool, size int) {
	b := prepare(t, tcpPair, tcpPair).start(t)
	from, to := b.sides(client)
	data := random(t, size)
	go func() {
		send(t, from, data)
		eventually(t, "all is passed on", func() bool { return b.Sent()+b.Received() == int64(size) })
		abortConn(t, from)
	}()
	if got := receiveReset(t, to); !bytes.Equal(got, data) {
		t.Errorf("got %d bytes before the reset, want %d", len(got), size)
	}
	if client {
		b.expect(t, ClientAborted, size, 0)
	} else {
		b.expect(t, BackendAborted, 0, size)
	}
}

// A reset that a write runs into must not look like the end of the stream to the read of the same socket.
func TestAbortWhileBothSend(t *testing.T) {
	bothSides(t, func(t *testing.T, client bool) {
		for range 30 {
			testAbortWhileBothSend(t, client)
		}
	})
}

func testAbortWhileBothSend(t *testing.T, client bool) {
	b := prepare(t, tcpPair, tcpPair).start(t)
	from, to := b.sides(client)
	go io.Copy(from, endless{})
	errs := make(chan error, 2)
	pass := func(w io.Writer, r io.Reader) {
		_, err := io.Copy(w, r)
		errs <- err
	}
	go pass(to, endless{})
	go pass(io.Discard, to)
	if _, err := io.CopyN(io.Discard, from, 1<<20); err != nil {
		t.Fatal(err)
	}
	abortConn(t, from)
	// The first of both calls gets the reset; after an end of stream it would be EPIPE.
	if err := errors.Join(<-errs, <-errs); !errors.Is(err, syscall.ECONNRESET) {
		t.Fatalf("the other side gets %v, want a reset", err)
	}
	if end, err := b.wait(t); end != abortedBy(client) {
		t.Fatalf("got %v (%v), want %v", end, err, abortedBy(client))
	}
}

// endless is a stream of zeros.
type endless struct{}

func (endless) Read(b []byte) (int, error) { return len(b), nil }

// A TLS client must not get a proper goodbye for a response that was cut off.
func TestAbortBehindTLS(t *testing.T) {
	b := prepare(t, tlsPair, tcpPair).start(t)
	send(t, b.backend, []byte("half a response"))
	receive(t, b.client, "half a response")
	abortConn(t, b.backend)
	receiveReset(t, b.client)
	b.expect(t, BackendAborted, 0, 15)
}

// unclosable can't be half-closed because it is gone.
type unclosable struct{ opaque }

func (unclosable) CloseWrite() error { return syscall.ENOTCONN }

// A side that had ended its stream and left is no abort; one that left while it could still send is.
func TestEndForOneWhoLeft(t *testing.T) {
	bothSides(t, func(t *testing.T, client bool) {
		b := prepare(t, tcpPair, tcpPair)
		b.Client = unclosable{opaque{b.Client}}
		b.start(t)
		first, second := b.sides(client)
		closeWrite(t, first)
		if client {
			receiveEnd(t, second)
			closeWrite(t, second)
			b.expect(t, Completed, 0, 0)
			return
		}
		eventually(t, "the failure is known", func() bool {
			b.mu.Lock()
			defer b.mu.Unlock()
			return b.Relay.end == ClientAborted
		})
		second.Close()
		b.expect(t, ClientAborted, 0, 0)
	})
}

func TestStopBeforeRun(t *testing.T) {
	b := prepare(t, tcpPair, tcpPair)
	b.Prefix = []byte("hello")
	b.Stop()
	b.Stop()
	if end, err := b.Run(); end != Stopped || err != nil || b.Sent() != 0 {
		t.Errorf("got %v (%v), sent %d, want %v, nothing sent", end, err, b.Sent(), Stopped)
	}
	send(t, b.Client, []byte("still usable"))
	receive(t, b.client, "still usable")
}

func TestStopAfterRun(t *testing.T) {
	b := prepare(t, tcpPair, tcpPair)
	closeWrite(t, b.client)
	closeWrite(t, b.backend)
	if end, err := b.Run(); end != Completed || err != nil {
		t.Errorf("got %v (%v), want %v", end, err, Completed)
	}
	b.Stop()
	if err := b.Client.SetReadDeadline(time.Time{}); err != nil {
		t.Errorf("the relay closed the client: %v", err)
	}
}

func TestStopByMany(t *testing.T) {
	b := prepare(t, tcpPair, tcpPair).start(t)
	for range 10 {
		go b.Stop()
	}
	b.expect(t, Stopped, 0, 0)
}

func TestStopHalfClosed(t *testing.T) {
	bothSides(t, func(t *testing.T, client bool) {
		b := prepare(t, tcpPair, tcpPair)
		b.OnHalfClose = b.Stop
		b.start(t)
		first, _ := b.sides(client)
		closeWrite(t, first)
		b.expect(t, Stopped, 0, 0)
	})
}

// Stop in the middle of bulk, on the way up and down: what is counted is what arrived.
func TestStopMidBulk(t *testing.T) {
	for name, p := range map[string]pair{"tcp": tcpPair, "unix": unixPair, "wrapper": shownPair} {
		t.Run(name, func(t *testing.T) { testStopMidBulk(t, p) })
	}
}

func testStopMidBulk(t *testing.T, p pair) {
	b := prepare(t, p, p).start(t)
	go io.Copy(b.client, endless{})
	go io.Copy(b.backend, endless{})
	arrived := make(chan int64, 1)
	go func() {
		n, _ := io.Copy(io.Discard, b.backend)
		arrived <- n
	}()
	eventually(t, "much is sent", func() bool { return b.Sent() > 8<<20 })
	b.Stop()
	if end, err := b.wait(t); end != Stopped || err != nil {
		t.Errorf("got %v (%v), want %v", end, err, Stopped)
	}
	if err := findCloser(b.Backend).CloseWrite(); err != nil {
		t.Error(err)
	}
	if n := <-arrived; n != b.Sent() {
		t.Errorf("sent: got %d, but %d arrived", b.Sent(), n)
	}
}

// A receiver that doesn't read stops the sender, and nothing is lost when it reads again.
func TestSlowReceiver(t *testing.T) {
	for name, p := range map[string]pair{"tcp": tcpPair, "unix": unixPair, "wrapper": opaquePair} {
		t.Run(name, func(t *testing.T) { testSlowReceiver(t, p) })
	}
}

func testSlowReceiver(t *testing.T, p pair) {
	const (
		all  = 128 << 20
		most = all / 2 // what the sockets of both hops and a pipe hold, generously
	)
	b := prepare(t, p, p).start(t)
	var sent atomic.Int64
	go func() {
		chunk := make([]byte, 64<<10)
		for sent.Load() < all {
			n, err := b.client.Write(chunk)
			if sent.Add(int64(n)); err != nil {
				t.Errorf("sending: %v", err)
				return
			}
		}
	}()
	last, same := int64(0), 0
	eventually(t, "the sender is stopped", func() bool {
		now := sent.Load()
		if same++; now != last || now == 0 {
			last, same = now, 0
		}
		return same == 100
	})
	if last > most {
		t.Errorf("%d bytes were taken for a receiver that doesn't read", last)
	}
	if n, err := io.CopyN(io.Discard, b.backend, all); err != nil {
		t.Errorf("received %d (%v), want %d", n, err, all)
	}
	eventually(t, "all is counted", func() bool { return b.Sent() == all })
}
