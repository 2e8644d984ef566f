package forward

import (
	"bytes"
	"io"
	"net"
	"strings"
	"testing"

	"github.com/mholt/caddy-l4/layer4"
	"go.uber.org/zap"

	"github.com/caddy-sluice/sluice/internal/replay"
	"github.com/caddy-sluice/sluice/internal/testkit/counts"
	"github.com/caddy-sluice/sluice/modules/session"
)

// large is more than sockets and pipes hold, and no two parts of it are alike.
func large() []byte {
	b := make([]byte, 8<<20)
	x := uint32(1)
	for i := range b {
		x = x*1664525 + 1013904223 // Knuth's linear congruence, for bytes that don't repeat
		b[i] = byte(x >> 24)
	}
	return b
}

// TestEcho sends through a connection and reads back the same.
func TestEcho(t *testing.T) {
	for name, data := range map[string][]byte{"T30_small": []byte("hello"), "T32_large_both_ways": large()} {
		t.Run(name, func(t *testing.T) {
			address, _ := echo(t)
			h, _ := newHandler(t, address)
			v := h.visit(t, "192.0.2.7")
			sent := make(chan error, 1)
			go func() {
				_, err := v.client.Write(data)
				_ = v.client.CloseWrite()
				sent <- err
			}()
			got, err := io.ReadAll(v.client)
			if err != nil || !bytes.Equal(got, data) {
				t.Errorf("got %d bytes, %v, want the %d sent", len(got), err, len(data))
			}
			if err := <-sent; err != nil {
				t.Error(err)
			}
			<-v.done
			if v.sess.CloseReason() != session.Completed || v.sess.BytesIn != int64(len(data)) || v.sess.BytesOut != int64(len(data)) {
				t.Errorf("got %v, %d in, %d out", v.sess.CloseReason(), v.sess.BytesIn, v.sess.BytesOut)
			}
		})
	}
}

// TestHalfClose has one side end its stream before the other has begun.
func TestHalfClose(t *testing.T) {
	data := large()[:1<<20]
	read := func(conn *net.TCPConn) ([]byte, error) { return io.ReadAll(conn) }
	speak := func(conn *net.TCPConn) {
		_, _ = conn.Write(data)
		_ = conn.CloseWrite()
	}
	for _, clientFirst := range []bool{true, false} {
		name := "Z117_upstream_first"
		if clientFirst {
			name = "T31_client_first"
		}
		t.Run(name, func(t *testing.T) {
			var got []byte
			address, done := backend(t, func(conn *net.TCPConn) {
				if !clientFirst {
					_ = conn.CloseWrite()
					got, _ = read(conn)
					return
				}
				_, _ = read(conn)
				speak(conn)
			})
			h, _ := newHandler(t, address)
			v := h.visit(t, "192.0.2.7")
			if clientFirst {
				_ = v.client.CloseWrite()
				got, _ = read(v.client)
			} else {
				_, _ = read(v.client)
				speak(v.client)
			}
			<-done
			<-v.done
			if !bytes.Equal(got, data) || v.sess.CloseReason() != session.Completed {
				t.Errorf("got %d bytes, %v, want %d, %v", len(got), v.sess.CloseReason(), len(data), session.Completed)
			}
		})
	}
}

// TestZ120_BufferedBytesFirst checks that what was read of a connection before goes first, and once.
func TestZ120_BufferedBytesFirst(t *testing.T) {
	got := wire(t, "", func(*layer4.Connection, *session.Session) {})
	if string(got) != "hello and more" {
		t.Errorf("got %q, want each byte once, in order", got)
	}
}

// TestT46_ReplayFailure has an upstream that resets the connection before it gets the first bytes.
func TestT46_ReplayFailure(t *testing.T) {
	connected := make(chan struct{}) // before, it would be the connect that fails
	address, done := backend(t, func(conn *net.TCPConn) {
		<-connected
		_, _ = conn.SetLinger(0), conn.Close()
	})
	h, _ := newHandler(t, address)
	_, server := newPair(t)
	cx := layer4.WrapConnection(replay.New(server, []byte("hello")), nil, zap.NewNop())
	sess := session.Of(cx)
	sess.OnHandover(func() { // between the connect and the first bytes
		close(connected)
		<-done
	})
	if err := h.Handle(cx, behind(t)); err != nil {
		t.Fatal(err)
	}
	if sess.CloseReason() != session.ReplayFailure || sess.BytesIn != 0 || sess.BytesOut != 0 {
		t.Errorf("got %v, %d in, %d out, want %v, 0, 0", sess.CloseReason(), sess.BytesIn, sess.BytesOut, session.ReplayFailure)
	}
}

// closedTotal is the metric of the sessions that have ended, before the reason.
const closedTotal = "caddy_sluice_session_closed_total "

// TestT48_OneCloseEvent checks that each way out of the handler ends the session once, for one reason.
func TestT48_OneCloseEvent(t *testing.T) {
	address, _ := echo(t)
	closed := listen(t)
	_ = closed.Close()
	busy := limited(t, address, "1")
	held := busy.visit(t, "192.0.2.7")
	held.served(t)
	open, _ := newHandler(t, address)
	down, _ := newHandler(t, closed.Addr().String())
	for _, tc := range []struct {
		handler *Handler
		end     func(*visit)
		want    session.CloseReason
	}{
		{open, func(v *visit) { _ = v.client.CloseWrite() }, session.Completed},
		{open, func(v *visit) { _, _ = v.client.SetLinger(0), v.client.Close() }, session.ClientGone},
		{open, func(v *visit) { v.served(t); v.sess.Stop(session.Killed); v.sess.Stop(session.Shutdown) }, session.Killed},
		{down, func(*visit) {}, session.ConnectFailure},
		{busy, func(v *visit) { _ = v.client.Close() }, session.ClusterLimit},
	} {
		t.Run(tc.want.String(), func(t *testing.T) {
			before := counts.Of(t, session.Register)
			v := tc.handler.visit(t, "192.0.2.7")
			tc.end(v)
			<-v.done
			total := 0.0
			change := counts.Of(t, session.Register).Since(before)
			for name, n := range change {
				if strings.HasPrefix(name, closedTotal) {
					total += n
				}
			}
			if total != 1 || change[closedTotal+tc.want.String()] != 1 || change["caddy_sluice_session_active"] != 0 {
				t.Errorf("got %v, want one end, %v", change, tc.want)
			}
		})
	}
	held.leave()
}

// TestZ115_Gauge opens and closes many connections.
func TestZ115_Gauge(t *testing.T) {
	address, _ := echo(t)
	h, _ := newHandler(t, address)
	before := counts.Of(t, session.Register)
	for range 1000 {
		v := h.visit(t, "192.0.2.7")
		v.leave()
		_ = v.client.Close()
	}
	change := counts.Of(t, session.Register).Since(before)
	if n := change["caddy_sluice_session_active"]; n != 0 {
		t.Errorf("got the gauge moved by %v, want it back", n)
	}
	if n := change[closedTotal+"completed"]; n != 1000 {
		t.Errorf("got %v closed, want 1000", n)
	}
}
