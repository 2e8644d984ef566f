package relay

import (
	"bytes"
	"errors"
	"io"
	"net"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
)

// sides returns both ends of b, the one named first first, and its own count before the other's.
func (b *bench) sides(client bool) (near, far stream) {
	if client {
		return b.client, b.backend
	}
	return b.backend, b.client
}

func shownPair(t testing.TB) (net.Conn, stream) {
	t.Helper()
	near, far := tcpPair(t)
	return shown{opaque{near}}, far
}

func opaquePair(t testing.TB) (net.Conn, stream) {
	t.Helper()
	near, far := tcpPair(t)
	return opaque{near}, far
}

func TestHalfClose(t *testing.T) {
	pairs := map[string]pair{"tcp": tcpPair, "unix": unixPair, "tls": tlsPair, "wrapper": shownPair}
	for name, p := range pairs {
		for _, clientFirst := range []bool{true, false} {
			side := map[bool]string{true: "client", false: "backend"}[clientFirst]
			t.Run(name+" "+side+" first", func(t *testing.T) {
				b := prepare(t, p, p)
				told := make(chan struct{}, 2)
				b.OnHalfClose = func() { told <- struct{}{} }
				b.start(t)
				first, second := b.sides(clientFirst)
				testHalfClose(t, b, first, second, told)
			})
		}
	}
}

func testHalfClose(t *testing.T, b *bench, first, second stream, told chan struct{}) {
	t.Helper()
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
	if end, err := b.wait(t); end != Completed || err != nil {
		t.Errorf("got %v (%v), want %v", end, err, Completed)
	}
	if len(told) != 0 {
		t.Error("told twice")
	}
	if got := b.Sent() + b.Received(); got != 17 {
		t.Errorf("bytes: got %d, want 17", got)
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

func TestPipesOfTheStandardLibrary(t *testing.T) {
	setup := func() (*Relay, net.Conn, net.Conn) {
		client, nearClient := net.Pipe()
		nearBackend, backend := net.Pipe()
		return &Relay{Client: nearClient, Backend: nearBackend, Prefix: []byte("pre")}, client, backend
	}
	t.Run("both close", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			r, client, backend := setup()
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
			end, err := r.Run()
			if end != Completed || err != nil || r.Sent() != 8 || r.Received() != 6 {
				t.Errorf("got %v (%v), sent %d, received %d", end, err, r.Sent(), r.Received())
			}
		})
	})
	t.Run("the client only", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			r, client, backend := setup()
			go func() {
				receive(t, backend, "pre")
				client.Close()
			}()
			start := time.Now()
			end, err := r.Run()
			if took := time.Since(start); end != Completed || err != nil || took != muteGrace {
				t.Errorf("got %v (%v) after %v, want %v after %v", end, err, took, Completed, muteGrace)
			}
		})
	})
	t.Run("stopped while idle", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			r, _, backend := setup()
			time.AfterFunc(time.Hour, r.Stop)
			go receive(t, backend, "pre")
			start := time.Now()
			end, err := r.Run()
			if took := time.Since(start); end != Stopped || err != nil || took != time.Hour {
				t.Errorf("got %v (%v) after %v, want %v after an hour", end, err, took, Stopped)
			}
		})
	})
}

// An abort arrives as one, behind everything that was sent before it.
func TestAbort(t *testing.T) {
	sizes := map[string]int{"idle": 0, "after a little": 5, "after much": 4 << 20}
	for name, size := range sizes {
		for _, client := range []bool{true, false} {
			side := map[bool]string{true: "client", false: "backend"}[client]
			t.Run(side+" "+name, func(t *testing.T) {
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
			})
		}
	}
}

// A reset that a write runs into must not look like the end of the stream to the read of the same socket.
func TestAbortWhileBothSend(t *testing.T) {
	for _, client := range []bool{true, false} {
		side := map[bool]string{true: "client", false: "backend"}[client]
		t.Run(side, func(t *testing.T) {
			for range 30 {
				b := prepare(t, tcpPair, tcpPair).start(t)
				from, to := b.sides(client)
				go io.Copy(from, endless{})
				errs := make(chan error, 2)
				go func() {
					_, err := io.Copy(to, endless{})
					errs <- err
				}()
				go func() {
					_, err := io.Copy(io.Discard, to)
					errs <- err
				}()
				if _, err := io.CopyN(io.Discard, from, 1<<20); err != nil {
					t.Fatal(err)
				}
				abortConn(t, from)
				// The first of both calls gets the reset; after an end of stream it would be EPIPE.
				if err := errors.Join(<-errs, <-errs); !errors.Is(err, syscall.ECONNRESET) {
					t.Fatalf("the other side gets %v, want a reset", err)
				}
				want := map[bool]End{true: ClientAborted, false: BackendAborted}[client]
				if end, err := b.wait(t); end != want {
					t.Fatalf("got %v (%v), want %v", end, err, want)
				}
			}
		})
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

func TestReplayFails(t *testing.T) {
	b := prepare(t, tcpPair, tcpPair)
	send(t, b.backend, []byte("go away"))
	abortConn(t, b.backend)
	b.Prefix = []byte("hello")
	b.start(t)
	if got := receiveReset(t, b.client); string(got) != "go away" {
		t.Errorf("got %q, want %q", got, "go away")
	}
	b.expect(t, ReplayFailed, 0, 7)
}

func TestStop(t *testing.T) {
	t.Run("before Run", func(t *testing.T) {
		b := prepare(t, tcpPair, tcpPair)
		b.Prefix = []byte("hello")
		b.Stop()
		b.Stop()
		if end, err := b.Run(); end != Stopped || err != nil || b.Sent() != 0 {
			t.Errorf("got %v (%v), sent %d, want %v, nothing sent", end, err, b.Sent(), Stopped)
		}
		send(t, b.Client, []byte("still usable"))
		receive(t, b.client, "still usable")
	})
	t.Run("after Run", func(t *testing.T) {
		b := prepare(t, tcpPair, tcpPair).start(t)
		closeWrite(t, b.client)
		closeWrite(t, b.backend)
		b.expect(t, Completed, 0, 0)
		b.Stop()
		b.expect(t, Completed, 0, 0)
	})
	t.Run("idle, by many", func(t *testing.T) {
		b := prepare(t, tcpPair, tcpPair).start(t)
		for range 10 {
			go b.Stop()
		}
		b.expect(t, Stopped, 0, 0)
	})
	t.Run("half closed", func(t *testing.T) {
		b := prepare(t, tcpPair, tcpPair)
		b.OnHalfClose = b.Stop
		b.start(t)
		closeWrite(t, b.client)
		b.expect(t, Stopped, 0, 0)
	})
}

// Stop in the middle of bulk, on the way up and down: what is counted is what arrived.
func TestStopMidBulk(t *testing.T) {
	for name, p := range map[string]pair{"tcp": tcpPair, "unix": unixPair, "wrapper": shownPair} {
		t.Run(name, func(t *testing.T) {
			b := prepare(t, p, p).start(t)
			go io.Copy(b.client, endless{})
			go io.Copy(b.backend, endless{})
			got := make(chan int64, 2)
			count := func(c net.Conn) {
				n, _ := io.Copy(io.Discard, c)
				got <- n
			}
			go count(b.backend)
			eventually(t, "much is sent", func() bool { return b.Sent() > 8<<20 })
			b.Stop()
			if end, err := b.wait(t); end != Stopped || err != nil {
				t.Errorf("got %v (%v), want %v", end, err, Stopped)
			}
			if err := findCloser(b.Backend).CloseWrite(); err != nil {
				t.Error(err)
			}
			if n := <-got; n != b.Sent() {
				t.Errorf("sent: got %d, but %d arrived", b.Sent(), n)
			}
		})
	}
}

// A receiver that doesn't read stops the sender, and nothing is lost when it reads again.
func TestSlowReceiver(t *testing.T) {
	for name, p := range map[string]pair{"tcp": tcpPair, "unix": unixPair, "wrapper": opaquePair} {
		t.Run(name, func(t *testing.T) {
			const most = 64 << 20 // several times what the sockets hold on both sides
			b := prepare(t, p, p).start(t)
			sent := make(chan int64, 1)
			go func() {
				n, _ := io.CopyN(b.client, endless{}, most)
				sent <- n
			}()
			last := int64(-1)
			eventually(t, "the sender is stopped", func() bool {
				now := b.Sent()
				still := now == last && now > 0
				last = now
				return still
			})
			if last > most/2 {
				t.Errorf("%d bytes went out to nobody", last)
			}
			n, err := io.CopyN(io.Discard, b.backend, most)
			if n != most || err != nil || <-sent != most {
				t.Errorf("received %d (%v), want %d", n, err, most)
			}
		})
	}
}
