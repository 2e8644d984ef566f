package session

import (
	"errors"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mholt/caddy-l4/layer4"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"
)

// newConnection returns a connection in memory, which is closed when the test ends.
func newConnection(t *testing.T) *layer4.Connection {
	t.Helper()
	client, server := net.Pipe()
	t.Cleanup(func() { _, _ = client.Close(), server.Close() })
	return layer4.WrapConnection(server, nil, zap.NewNop())
}

// TestOf checks that a connection has one session, which begins with the first call.
func TestOf(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cx := newConnection(t)
		time.Sleep(time.Second)
		start := time.Now()
		first := Of(cx)
		time.Sleep(time.Second)
		if again := Of(cx.Wrap(cx.Conn)); again != first {
			t.Error("got another session, want the first")
		}
		if !first.Start.Equal(start) {
			t.Errorf("got start %v, want %v", first.Start, start)
		}
		if first.Client != cx.RemoteAddr() || first.Listener != cx.LocalAddr() {
			t.Errorf("got %v and %v, want the connection's addresses", first.Client, first.Listener)
		}
		if Of(newConnection(t)) == first {
			t.Error("got the session of another connection")
		}
	})
}

// TestEnd checks that the first reason stands.
func TestEnd(t *testing.T) {
	var s Session
	if got := s.CloseReason(); got != Open {
		t.Errorf("got %v, want open", got)
	}
	for _, r := range []CloseReason{Drained, Completed, Internal} {
		s.End(r)
		if got := s.CloseReason(); got != Drained {
			t.Errorf("after %v: got %v, want %v", r, got, Drained)
		}
	}
}

// TestHandover checks that what was set runs once, however often it is told.
func TestHandover(t *testing.T) {
	var s Session
	s.Handover() // nothing is set
	calls := 0
	s.OnHandover(func() {
		calls++
		s.Handover() // a call from inside changes nothing
	})
	if calls != 0 {
		t.Fatalf("got %d calls before the hand-over, want 0", calls)
	}
	for range 3 {
		s.Handover()
	}
	if calls != 1 {
		t.Errorf("got %d calls, want 1", calls)
	}
}

// TestHandoverReplaced checks that a function is not lost when another is set.
func TestHandoverReplaced(t *testing.T) {
	var s Session
	first, second := 0, 0
	s.OnHandover(func() { first++ })
	s.OnHandover(func() { second++ })
	s.Handover()
	if first != 1 || second != 1 {
		t.Errorf("got %d calls of the first and %d of the second, want 1 and 1", first, second)
	}
}

// faulty is a handler that panics with value, unless that is nil.
func faulty(s *Session, logger *zap.Logger, value any) error {
	defer s.Leave(logger)
	if value != nil {
		panic(value)
	}
	return errors.New("its own")
}

// TestLeavePanic checks what a panic becomes, and that nothing happens without one.
func TestLeavePanic(t *testing.T) {
	for _, tc := range []struct {
		name  string
		ended CloseReason // before
		value any
		want  CloseReason
		logs  int
	}{
		{"no_panic", Open, nil, Open, 0},
		{"panic", Open, "value", Internal, 1},
		{"panic_with_error", Open, errors.New("value"), Internal, 1},
		{"panic_after_the_end", Completed, "value", Completed, 1},
	} {
		t.Run(tc.name, func(t *testing.T) {
			core, logs := observer.New(zap.DebugLevel)
			s := Enter(newConnection(t))
			calls := 0
			s.OnHandover(func() { calls++ })
			s.End(tc.ended)
			err := faulty(s, zap.New(core), tc.value)
			if (err != nil) != (tc.value == nil) {
				t.Errorf("got error %v", err)
			}
			// Who counts connections under way is told of the end, with a panic or without.
			if got := s.CloseReason(); got != tc.want || calls != 1 {
				t.Errorf("got %v and %d hand-overs, want %v and 1", got, calls, tc.want)
			}
			if logs.Len() != tc.logs {
				t.Fatalf("got %d log entries, want %d", logs.Len(), tc.logs)
			}
			if tc.logs == 0 {
				return
			}
			entry := logs.All()[0]
			if entry.Level != zap.ErrorLevel || entry.ContextMap()["panic"] != "value" || entry.ContextMap()["stack"] == "" {
				t.Errorf("got %v with %v, want an error with the value and a stack", entry.Level, entry.ContextMap())
			}
		})
	}
}
