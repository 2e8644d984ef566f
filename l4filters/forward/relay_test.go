package forward

import (
	"errors"
	"io"
	"net"
	"testing"

	"github.com/mholt/caddy-l4/layer4"
	"go.uber.org/zap"

	"github.com/caddy-sluice/sluice/internal/relay"
	"github.com/caddy-sluice/sluice/internal/replay"
	"github.com/caddy-sluice/sluice/modules/session"
)

// backend accepts one connection and runs part on it.
func backend(t *testing.T, part func(*net.TCPConn)) (address string, done <-chan struct{}) {
	t.Helper()
	ln := listen(t)
	finished := make(chan struct{})
	go func() {
		defer close(finished)
		conn, err := ln.AcceptTCP()
		if err != nil {
			t.Error(err)
			return
		}
		defer conn.Close()
		part(conn)
	}()
	return ln.Addr().String(), finished
}

// TestT47_Relay checks a whole connection: what each side gets, what the session knows afterwards, and the line about it.
func TestT47_Relay(t *testing.T) {
	var got []byte
	address, done := backend(t, func(conn *net.TCPConn) {
		got, _ = io.ReadAll(conn) // until the half-close
		_, _ = conn.Write([]byte("answer, longer than the question"))
	})
	h, logs := newHandler(t, address)
	client, server := newPair(t)
	cx := layer4.WrapConnection(replay.New(server, []byte(" and preread")), []byte("matched"), zap.NewNop())
	sess := session.Of(cx)
	handed := 0
	sess.OnHandover(func() { handed++ })

	answer := make(chan string)
	go func() {
		_, _ = client.Write([]byte(" and more"))
		_ = client.CloseWrite()
		b, _ := io.ReadAll(client)
		answer <- string(b)
	}()
	if err := h.Handle(cx, behind(t)); err != nil {
		t.Fatal(err)
	}
	_ = server.Close()
	<-done

	const sent, answered = "matched and preread and more", "answer, longer than the question"
	if string(got) != sent {
		t.Errorf("got %q at the upstream, want %q", got, sent)
	}
	if got := <-answer; got != answered {
		t.Errorf("got answer %q, want %q", got, answered)
	}
	if sess.CloseReason() != session.Completed || handed != 1 {
		t.Errorf("got %v and %d hand-overs, want %v and 1", sess.CloseReason(), handed, session.Completed)
	}
	if sess.BytesIn != int64(len(sent)) || sess.BytesOut != int64(len(answered)) {
		t.Errorf("got %d bytes in, %d out, want %d, %d", sess.BytesIn, sess.BytesOut, len(sent), len(answered))
	}
	if sess.Upstream != address || sess.ConnectTime <= 0 || sess.RelayTime <= 0 {
		t.Errorf("got upstream %q, times %v and %v", sess.Upstream, sess.ConnectTime, sess.RelayTime)
	}
	if logs.Len() != 1 {
		t.Fatalf("got %d log entries, want 1", logs.Len())
	}
	entry := logs.All()[0]
	fields := entry.ContextMap()
	for name, want := range map[string]any{
		"remote": client.LocalAddr().String(), "upstream": address, "reason": "completed",
		"bytes_in": int64(len(sent)), "bytes_out": int64(len(answered)),
	} {
		if fields[name] != want {
			t.Errorf("got %s %v, want %v", name, fields[name], want)
		}
	}
	if _, failed := fields["error"]; entry.Level != zap.DebugLevel || failed {
		t.Errorf("got %v with error %v, want a line at debug without", entry.Level, fields["error"])
	}
}

// TestAbort checks who is named when one side resets its connection.
func TestAbort(t *testing.T) {
	reset := func(conn *net.TCPConn) { _, _ = conn.SetLinger(0), conn.Close() }
	for _, tc := range []struct {
		name            string
		client, backend func(*net.TCPConn)
		want            session.CloseReason
	}{
		{"client", reset, func(conn *net.TCPConn) { _, _ = io.Copy(io.Discard, conn) }, session.ClientGone},
		{"Z122_upstream", func(conn *net.TCPConn) { _, _ = io.Copy(io.Discard, conn) }, reset, session.Error},
	} {
		t.Run(tc.name, func(t *testing.T) {
			connected := make(chan struct{})
			address, done := backend(t, func(conn *net.TCPConn) {
				_, _ = io.ReadFull(conn, make([]byte, 5))
				close(connected)
				tc.backend(conn)
			})
			h, logs := newHandler(t, address)
			client, server := newPair(t)
			go func() {
				_, _ = client.Write([]byte("hello"))
				<-connected
				tc.client(client)
			}()
			cx := layer4.WrapConnection(server, nil, zap.NewNop())
			if err := h.Handle(cx, behind(t)); err != nil {
				t.Fatal(err)
			}
			<-done
			sess := session.Of(cx)
			if sess.CloseReason() != tc.want || sess.BytesIn != 5 {
				t.Errorf("got %v, %d bytes in, want %v, 5", sess.CloseReason(), sess.BytesIn, tc.want)
			}
			for _, entry := range logs.All() {
				if entry.Level > zap.DebugLevel {
					t.Errorf("got log entry %v %q, want none above debug", entry.Level, entry.Message)
				}
			}
		})
	}
}

// TestPanic checks that a fault in a connection ends this one only.
func TestPanic(t *testing.T) {
	address, done := backend(t, func(conn *net.TCPConn) { _, _ = io.Copy(io.Discard, conn) })
	h, logs := newHandler(t, address)
	cx := layer4.WrapConnection(pipe(t), nil, zap.NewNop())
	session.Of(cx).OnHandover(func() { panic(errors.New("fault")) })
	if err := h.Handle(cx, behind(t)); err != nil {
		t.Errorf("got error %v, want none", err)
	}
	if got := session.Of(cx).CloseReason(); got != session.Internal {
		t.Errorf("got %v, want %v", got, session.Internal)
	}
	if logs.FilterLevelExact(zap.ErrorLevel).Len() != 1 {
		t.Errorf("got %v, want one error", logs.All())
	}
	<-done // the connection to the upstream is closed
}

// TestEndReasons checks that each end of a relay has a reason.
func TestEndReasons(t *testing.T) {
	seen := make(map[session.CloseReason]bool)
	for end := relay.Completed; end <= relay.Stopped; end++ {
		reason, ok := endReasons[end]
		if !ok || reason == session.Open || seen[reason] {
			t.Errorf("end %d: got %q, want a reason of its own", end, reason)
		}
		seen[reason] = true
	}
}
