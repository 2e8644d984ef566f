package forward

import (
	"errors"
	"io"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mholt/caddy-l4/layer4"
	"go.uber.org/zap"

	"github.com/caddy-sluice/sluice/internal/lifetime"
	"github.com/caddy-sluice/sluice/modules/session"
)

// halves is one end of a connection in memory whose two directions end one by one, as those of TCP do.
type halves struct {
	in, out net.Conn
	closed  atomic.Bool
}

// newHalves returns both ends of a connection.
func newHalves() (a, b *halves) {
	up1, up2 := net.Pipe()
	down1, down2 := net.Pipe()
	return &halves{in: down1, out: up1}, &halves{in: up2, out: down2}
}

func (h *halves) Read(p []byte) (int, error)  { return h.in.Read(p) }
func (h *halves) Write(p []byte) (int, error) { return h.out.Write(p) }
func (h *halves) CloseWrite() error           { return h.out.Close() }
func (h *halves) LocalAddr() net.Addr         { return h.in.LocalAddr() }
func (h *halves) RemoteAddr() net.Addr        { return h.in.RemoteAddr() }

func (h *halves) Close() error {
	h.closed.Store(true)
	return errors.Join(h.in.Close(), h.out.Close())
}

func (h *halves) SetDeadline(t time.Time) error {
	return errors.Join(h.in.SetDeadline(t), h.out.SetDeadline(t))
}
func (h *halves) SetReadDeadline(t time.Time) error  { return h.in.SetReadDeadline(t) }
func (h *halves) SetWriteDeadline(t time.Time) error { return h.out.SetWriteDeadline(t) }

// bubble is a session being relayed between two ends in memory.
type bubble struct {
	sess             *session.Session
	client, upstream *halves // the far ends
	start            time.Time
	// done is closed when the relay has ended, which took that long.
	done chan struct{}
	took time.Duration
	talk sync.WaitGroup
}

// prepared returns a transfer that may begin.
func (h *Handler) prepared(cx *layer4.Connection, sess *session.Session, upstream net.Conn) *transfer {
	t := new(transfer)
	h.prepare(cx, sess, t, upstream)
	return t
}

// relayed relays with these limits in a bubble and runs the test in it.
func relayed(t *testing.T, limits lifetime.Limits, test func(*testing.T, *bubble)) {
	t.Helper()
	h, _ := newHandler(t, "192.0.2.1:443")
	h.limits = limits
	synctest.Test(t, func(t *testing.T) {
		b := &bubble{start: time.Now(), done: make(chan struct{})}
		var front, back *halves
		b.client, front = newHalves()
		b.upstream, back = newHalves()
		cx := layer4.WrapConnection(front, nil, zap.NewNop())
		b.sess = session.Of(cx)
		go func() {
			defer close(b.done)
			h.relay(b.sess, h.prepared(cx, b.sess, back))
			b.took = time.Since(b.start)
			_, _ = front.Close(), back.Close()
		}()
		test(t, b)
		_, _ = b.client.Close(), b.upstream.Close()
		<-b.done
		b.talk.Wait()
	})
}

// chatter sends a byte each pause, from one end to the other, until the connection ends.
func (b *bubble) chatter(from, to *halves, pause time.Duration) {
	b.talk.Go(func() { _, _ = io.Copy(io.Discard, to) })
	b.talk.Go(func() {
		for {
			if _, err := from.Write([]byte{1}); err != nil {
				return
			}
			time.Sleep(pause) // the rate of the chatter, in the bubble's time
		}
	})
}

// TestLimits has a connection that is in use, or idle, until a limit passes.
func TestLimits(t *testing.T) {
	const ms = time.Millisecond
	for _, tc := range []struct {
		name   string
		limits lifetime.Limits
		busy   bool
		reason session.CloseReason
		least  time.Duration
		most   time.Duration
	}{
		{"T37_session_timeout_with_traffic", lifetime.Limits{Session: 500 * ms}, true, session.SessionTimeout, 500 * ms, 500 * ms},
		{"T38_session_timeout_idle", lifetime.Limits{Session: 500 * ms}, false, session.SessionTimeout, 500 * ms, 500 * ms},
		{"T39_max_duration", lifetime.Limits{Max: time.Second}, true, session.MaxDuration, time.Second, time.Second},
		{"T40_session_timeout_is_shorter", lifetime.Limits{Session: 500 * ms, Max: time.Second}, true, session.SessionTimeout, 500 * ms, 500 * ms},
		{"T40_max_duration_is_shorter", lifetime.Limits{Session: time.Second, Max: 500 * ms}, true, session.MaxDuration, 500 * ms, 500 * ms},
		{"hard_limit_before_idle", lifetime.Limits{Idle: time.Minute, Max: 800 * ms}, false, session.MaxDuration, 800 * ms, 800 * ms},
		{"idle_timeout", lifetime.Limits{Idle: 2 * time.Second}, false, session.IdleTimeout, 2 * time.Second, 2250 * ms},
		{"traffic_is_not_idle", lifetime.Limits{Idle: time.Second, Max: time.Minute}, true, session.MaxDuration, time.Minute, time.Minute},
	} {
		t.Run(tc.name, func(t *testing.T) {
			relayed(t, tc.limits, func(t *testing.T, b *bubble) {
				if tc.busy {
					b.chatter(b.client, b.upstream, 7*time.Millisecond)
					b.chatter(b.upstream, b.client, 11*time.Millisecond)
				}
				<-b.done
				b.expect(t, tc.reason, tc.least, tc.most)
				if moved := b.sess.BytesIn > 0 && b.sess.BytesOut > 0; moved != tc.busy {
					t.Errorf("got %d bytes in and %d out", b.sess.BytesIn, b.sess.BytesOut)
				}
			})
		})
	}
}

// expect checks why the relay has ended, and when.
func (b *bubble) expect(t *testing.T, reason session.CloseReason, least, most time.Duration) {
	t.Helper()
	if got := b.sess.CloseReason(); got != reason || b.took < least || b.took > most {
		t.Errorf("got %v after %v, want %v after %v to %v", got, b.took, reason, least, most)
	}
}

// TestHalfCloseTimeout has one side end its stream. The other may go on for as long as the limit, whatever it does.
func TestHalfCloseTimeout(t *testing.T) {
	const begin, limit = 3 * time.Second, 2 * time.Second
	for _, tc := range []struct {
		name string
		end  func(*bubble) (ends, goesOn *halves)
		busy bool
	}{
		{"Z118_upstream_ends_client_idle", func(b *bubble) (_, _ *halves) { return b.upstream, b.client }, false},
		{"upstream_ends_client_goes_on", func(b *bubble) (_, _ *halves) { return b.upstream, b.client }, true},
		{"client_ends_upstream_silent", func(b *bubble) (_, _ *halves) { return b.client, b.upstream }, false},
		{"client_ends_upstream_goes_on", func(b *bubble) (_, _ *halves) { return b.client, b.upstream }, true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			relayed(t, lifetime.Limits{HalfClose: limit, Idle: time.Hour}, func(t *testing.T, b *bubble) {
				time.Sleep(begin) // before it, the limit doesn't count
				ends, goesOn := tc.end(b)
				_ = ends.CloseWrite()
				if tc.busy {
					b.chatter(goesOn, ends, 100*time.Millisecond)
				}
				<-b.done
				b.expect(t, session.HalfCloseTimeout, begin+limit, begin+limit)
			})
		})
	}
}

// TestOff checks that a limit that is off never passes, and that no timer is left.
func TestOff(t *testing.T) {
	for _, limits := range []lifetime.Limits{{}, {Idle: -1, HalfClose: -1}} {
		relayed(t, limits, func(t *testing.T, b *bubble) {
			time.Sleep(365 * 24 * time.Hour)
			_ = b.client.CloseWrite()
			time.Sleep(365 * 24 * time.Hour)
			if got := b.sess.CloseReason(); got != session.Open {
				t.Errorf("got %v, want a connection that goes on", got)
			}
		})
	}
}

// TestBothEnds checks that a limit ends the stream to both sides.
func TestBothEnds(t *testing.T) {
	relayed(t, lifetime.Limits{Session: time.Second}, func(t *testing.T, b *bubble) {
		for name, end := range map[string]*halves{"client": b.client, "upstream": b.upstream} {
			if n, err := end.Read(make([]byte, 1)); err == nil {
				t.Errorf("%s: got %d bytes, want the end", name, n)
			}
		}
	})
}

// TestStopFromOutside checks that a connection is ended at once, for the reason that it was stopped for, with the
// counts that are true.
func TestStopFromOutside(t *testing.T) {
	for _, tc := range []struct {
		name   string
		reason session.CloseReason
	}{{"T42_shutdown", session.Shutdown}, {"killed", session.Killed}} {
		t.Run(tc.name, func(t *testing.T) {
			relayed(t, lifetime.Limits{Idle: time.Hour}, func(t *testing.T, b *bubble) {
				_, _ = b.client.Write(make([]byte, 1000))
				_, _ = io.ReadFull(b.upstream, make([]byte, 1000))
				_, _ = b.upstream.Write(make([]byte, 300))
				_, _ = io.ReadFull(b.client, make([]byte, 300))
				synctest.Wait()
				if live := b.sess.Snapshot(); live.BytesIn != 1000 || live.BytesOut != 300 {
					t.Errorf("while it runs: got %d bytes in, %d out, want 1000, 300", live.BytesIn, live.BytesOut)
				}
				if !b.sess.Stop(tc.reason) {
					t.Error("got a session that is ending already")
				}
				<-b.done
				b.expect(t, tc.reason, 0, 0)
				if after := b.sess.Snapshot(); after.BytesIn != 1000 || after.BytesOut != 300 {
					t.Errorf("afterwards: got %d bytes in, %d out, want 1000, 300", after.BytesIn, after.BytesOut)
				}
			})
		})
	}
}

// TestLateStop checks that to stop a session while it is at its end changes nothing.
func TestLateStop(t *testing.T) {
	relayed(t, lifetime.Limits{Session: time.Hour}, func(t *testing.T, b *bubble) {
		_, _ = b.client.CloseWrite(), b.upstream.CloseWrite()
		<-b.done
		if b.sess.Stop(session.Killed) || b.sess.CloseReason() != session.Completed {
			t.Errorf("got %v, want %v", b.sess.CloseReason(), session.Completed)
		}
	})
}

// TestIdleOfSockets has sockets, of which the kernel knows when the last byte came.
func TestIdleOfSockets(t *testing.T) {
	const idle = 1600 * time.Millisecond // also for a machine that is busy elsewhere
	h, _ := newHandler(t, "192.0.2.1:443")
	h.limits = lifetime.Limits{Idle: idle}
	client, front := newPair(t)
	upstream, back := newPair(t)
	cx := layer4.WrapConnection(front, nil, zap.NewNop())
	var last, ended time.Time
	done := make(chan struct{})
	go func() {
		defer close(done)
		h.relay(session.Of(cx), h.prepared(cx, session.Of(cx), back))
		ended = time.Now()
		_, _ = front.Close(), back.Close()
	}()
	// The connection is in use for longer than it may be idle.
	for range 10 {
		last = time.Now()
		_, _ = upstream.Write([]byte("tick"))
		if _, err := io.ReadFull(client, make([]byte, 4)); err != nil {
			t.Fatal(err)
		}
		time.Sleep(idle / 8) // the pauses of a connection in use
	}
	for name, end := range map[string]net.Conn{"client": client, "upstream": upstream} {
		if n, err := end.Read(make([]byte, 1)); err != io.EOF {
			t.Errorf("%s: got %d, %v, want the end of the stream", name, n, err)
		}
	}
	<-done
	if sess := session.Of(cx); sess.CloseReason() != session.IdleTimeout || sess.BytesOut != 40 {
		t.Errorf("got %v, %d bytes out, want %v, 40", sess.CloseReason(), sess.BytesOut, session.IdleTimeout)
	}
	// The kernel counts in ticks of up to 10 ms.
	if took := ended.Sub(last); took < idle-10*time.Millisecond {
		t.Errorf("got an end %v after the last byte, want %v", took, idle)
	}
}

// TestCutIsReset checks on sockets that a hard limit doesn't look like the end of the other side's stream.
func TestCutIsReset(t *testing.T) {
	h, _ := newHandler(t, "192.0.2.1:443")
	h.limits = lifetime.Limits{Max: 50 * time.Millisecond}
	client, front := newPair(t)
	upstream, back := newPair(t)
	cx := layer4.WrapConnection(front, nil, zap.NewNop())
	h.relay(session.Of(cx), h.prepared(cx, session.Of(cx), back))
	for name, end := range map[string]net.Conn{"client": client, "upstream": upstream} {
		_ = end.SetReadDeadline(time.Now().Add(10 * time.Second))
		n, err := end.Read(make([]byte, 1))
		if err == nil || err == io.EOF || errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("%s: got %d, %v, want a reset", name, n, err)
		}
	}
}

// TestExpiryReasons checks that each limit has a reason of its own.
func TestExpiryReasons(t *testing.T) {
	seen := make(map[session.CloseReason]bool)
	for e := lifetime.Idle; e <= lifetime.HalfClose; e++ {
		reason, ok := expiryReasons[e]
		if !ok || seen[reason] {
			t.Errorf("%v: got %q, want a reason of its own", e, reason)
		}
		seen[reason] = true
	}
}
