package relay

import (
	"io"
	"net"
	"syscall"
	"testing"
	"time"
)

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

// brokenBackend fails reads at once, and writes when it is closed.
type brokenBackend struct {
	opaque
	closed chan struct{}
}

func (b *brokenBackend) Read([]byte) (int, error) { return 0, syscall.ECONNRESET }

func (b *brokenBackend) Write([]byte) (int, error) {
	<-b.closed
	return 0, net.ErrClosed
}

func (b *brokenBackend) Close() error {
	close(b.closed)
	return b.opaque.Close()
}

// The replay failed also if the reading direction was the first to see it.
func TestReplayFailsBehindRead(t *testing.T) {
	b := prepare(t, tcpPair, tcpPair)
	b.Backend = &brokenBackend{opaque{b.Backend}, make(chan struct{})}
	b.Prefix = []byte("hello")
	b.start(t)
	receiveReset(t, b.client)
	b.expect(t, ReplayFailed, 0, 0)
}

// deafBackend refuses every write, and has an answer once it is asked to give it.
type deafBackend struct {
	opaque
	refused, answer, closed chan struct{}
	answered                bool
}

func (d *deafBackend) Write([]byte) (int, error) {
	close(d.refused)
	return 0, syscall.EPIPE
}

func (d *deafBackend) Read(b []byte) (int, error) {
	select {
	case <-d.answer:
	case <-d.closed:
		return 0, net.ErrClosed
	}
	if d.answered {
		return 0, io.EOF
	}
	d.answered = true
	return copy(b, "go away"), nil
}

func (d *deafBackend) Close() error {
	close(d.closed)
	return d.opaque.Close()
}

// A backend that can't be written to is heard to the end before the relay aborts.
func TestAnswerAfterFailedWrite(t *testing.T) {
	b := prepare(t, tcpPair, tcpPair)
	d := &deafBackend{opaque{b.Backend}, make(chan struct{}), make(chan struct{}), make(chan struct{}), false}
	b.Backend = d
	b.start(t)
	send(t, b.client, []byte("request"))
	<-d.refused
	select {
	case <-d.closed:
		t.Error("the backend was closed before it could answer")
	case <-time.After(20 * time.Millisecond):
	}
	close(d.answer)
	receive(t, b.client, "go away")
	b.expect(t, BackendAborted, 0, 7)
}
