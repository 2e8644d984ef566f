package relay

import (
	"bytes"
	"errors"
	"io"
	"net"
	"syscall"
	"testing"
)

// The backend answers completely and closes, while the client goes on sending, which makes the backend's kernel reset
// the connection: at once if it has unread bytes, else behind the end of the stream. The client reads slowly.
func TestAnswerOutlivesReset(t *testing.T) {
	t.Run("reset at once", func(t *testing.T) { testAnswerOutlivesReset(t, true) })
	t.Run("end, then reset", func(t *testing.T) { testAnswerOutlivesReset(t, false) })
}

func testAnswerOutlivesReset(t *testing.T, unread bool) {
	answer := random(t, 3<<20)
	b := prepare(t, tcpPair, tcpPair).start(t)
	if unread {
		send(t, b.client, []byte("request"))
		eventually(t, "the request is there", func() bool { return b.Sent() == 7 })
	}
	go answerAndClose(t, b, answer)
	got, err := io.ReadAll(slow{b.client})
	// The client's own writing may have got the reset.
	if err != nil && !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("reading: %v", err)
	}
	if !bytes.Equal(got, answer) {
		t.Errorf("got %d bytes of the answer (%v), want %d", len(got), err, len(answer))
	}
	if end, err := b.wait(t); end != BackendAborted || b.Received() != int64(len(answer)) {
		t.Errorf("got %v (%v), received %d, want %v, %d", end, err, b.Received(), BackendAborted, len(answer))
	}
}

// answerAndClose closes the backend once the relay's kernel has the answer, and lets the client send until it can't.
func answerAndClose(t *testing.T, b *rig, answer []byte) {
	t.Helper()
	send(t, b.backend, answer)
	eventually(t, "the answer is out", func() bool { return !unacknowledged(b.backend.(*net.TCPConn)) })
	b.backend.Close()
	io.Copy(b.client, endless{})
}

// slow reads little at a time.
type slow struct{ io.Reader }

func (s slow) Read(b []byte) (int, error) { return s.Reader.Read(b[:min(len(b), 1000)]) }

func TestMaybeReset(t *testing.T) {
	tests := []struct {
		name string
		do   func(t *testing.T, near *net.TCPConn, far stream)
		want bool
	}{
		{"end of stream", func(t *testing.T, near *net.TCPConn, far stream) {
			closeWrite(t, far)
		}, false},
		{"reset that a write saw", func(t *testing.T, near *net.TCPConn, far stream) {
			abortConn(t, far)
			if _, err := near.Write([]byte("x")); !errors.Is(err, syscall.ECONNRESET) {
				t.Errorf("writing: got %v, want %v", err, syscall.ECONNRESET)
			}
		}, true},
		{"end of stream, then reset", func(t *testing.T, near *net.TCPConn, far stream) {
			far.Close()
			send(t, near, []byte("x"))
		}, false},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			near, far := tcpPair(t)
			test.do(t, near.(*net.TCPConn), far)
			receiveEnd(t, near)
			raw, err := near.(*net.TCPConn).SyscallConn()
			if err != nil {
				t.Fatal(err)
			}
			got := false
			raw.Control(func(fd uintptr) { got = maybeReset(int(fd)) })
			if got != test.want {
				t.Errorf("got %v, want %v", got, test.want)
			}
		})
	}
}
