package forward

import (
	"fmt"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/mholt/caddy-l4/layer4"
	"go.uber.org/zap"

	"github.com/caddy-sluice/sluice/internal/testkit/hellos"
	"github.com/caddy-sluice/sluice/modules/session"
)

// TestT22_NoPeek checks that without a preread nothing waits for a hello: its first byte reaches the upstream before the
// client sends the second one, and all of them arrive as they are.
func TestT22_NoPeek(t *testing.T) {
	flight := hellos.Find("go-1.26-pq").Bytes
	arrived := make(chan struct{})
	var got []byte
	address, done := backend(t, func(conn *net.TCPConn) {
		first := make([]byte, 1)
		_, _ = io.ReadFull(conn, first)
		close(arrived)
		rest, _ := io.ReadAll(conn)
		got = append(first, rest...)
	})
	h, _ := newHandler(t, address)
	client, server := newPair(t)
	go func() {
		_, _ = client.Write(flight[:1])
		select {
		case <-arrived:
		case <-time.After(20 * time.Second):
			t.Error("the first byte is held back")
		}
		_, _ = client.Write(flight[1:])
		_ = client.CloseWrite()
	}()
	cx := layer4.WrapConnection(server, nil, zap.NewNop())
	if err := h.Handle(cx, behind(t)); err != nil {
		t.Fatal(err)
	}
	<-done
	if string(got) != string(flight) {
		t.Errorf("got %d bytes that are not the %d sent", len(got), len(flight))
	}
	if sess := session.Of(cx); sess.Preread || sess.Hello != nil || sess.CloseReason() != session.Completed {
		t.Errorf("got preread %v, hello %v, %v, want false, none, %v", sess.Preread, sess.Hello, sess.CloseReason(), session.Completed)
	}
}

// TestS15_LogOfRouted checks that the line about a connection stays short and free of what the client wrote.
func TestS15_LogOfRouted(t *testing.T) {
	const most = 512
	address, done := backend(t, func(conn *net.TCPConn) { _, _ = io.Copy(io.Discard, conn) })
	h, logs := newHandler(t, address)
	client, server := newPair(t)
	_ = client.CloseWrite()
	cx := layer4.WrapConnection(server, nil, zap.NewNop())
	sess := session.Of(cx)
	sess.Preread, sess.Routed = true, true
	sess.Pattern, sess.Protocol = "*.pattern.example.com", strings.Repeat("hostile", 30)
	sess.Hello = &session.Hello{ServerName: strings.Repeat("hostile.", 512), ALPN: []byte(strings.Repeat("\x07hostile", 512))}
	if err := h.Handle(cx, behind(t)); err != nil {
		t.Fatal(err)
	}
	<-done
	if logs.Len() != 1 {
		t.Fatalf("got %d log entries, want 1", logs.Len())
	}
	line := fmt.Sprint(logs.All()[0].Message, logs.All()[0].ContextMap())
	if len(line) > most || strings.Contains(line, "hostile") {
		t.Errorf("got a line of %d bytes, want at most %d without the client's words: %.200s", len(line), most, line)
	}
}
