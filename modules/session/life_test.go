package session

import (
	"net"
	"slices"
	"sync"
	"testing"

	"github.com/mholt/caddy-l4/layer4"
	"go.uber.org/zap"

	"github.com/caddy-sluice/sluice/internal/testkit/counts"
)

// closedCompleted is the name of a metric, as counts.Of has it.
const closedCompleted = "caddy_sluice_session_closed_total completed"

// TestLife checks that a session is on the list from the first handler to the last, and what happens at its end.
func TestLife(t *testing.T) {
	cx := newConnection(t)
	before, closed := onList(), counts.Of(t, Register)
	var order []string
	outer := Enter(cx)
	outer.OnEnd(func() { order = append(order, "outer") })
	inner := Enter(cx)
	inner.OnEnd(func() { order = append(order, "inner "+inner.CloseReason().String()) })
	if inner != outer || onList() != before+1 {
		t.Fatalf("got another session or %d on the list, want %d", onList(), before+1)
	}
	if got := Find(outer.id); got != outer {
		t.Errorf("got %v by its ID, want the session", got)
	}
	inner.End(Completed)
	inner.Leave(zap.NewNop())
	if len(order) != 0 || onList() != before+1 {
		t.Errorf("got %v and %d sessions before the end, want nothing and %d", order, onList(), before+1)
	}
	outer.Leave(zap.NewNop())
	if want := []string{"inner completed", "outer"}; !slices.Equal(order, want) {
		t.Errorf("got order %v, want %v", order, want)
	}
	if onList() != before || Find(outer.id) != nil {
		t.Errorf("got %d on the list, want %d", onList(), before)
	}
	if got := counts.Of(t, Register).Since(closed)[closedCompleted]; got != 1 {
		t.Errorf("got %v closed, want 1", got)
	}
}

// TestAgain checks a connection whose handlers of ours stand in two routes: the session goes on, under one ID, and
// counts once.
func TestAgain(t *testing.T) {
	cx := newConnection(t)
	closed := counts.Of(t, Register)
	first := Enter(cx)
	id := first.id
	first.Leave(zap.NewNop())
	second := Enter(cx)
	second.End(Completed)
	second.Leave(zap.NewNop())
	if second != first || second.id != id {
		t.Errorf("got another session or ID %d, want %d", second.id, id)
	}
	if got := counts.Of(t, Register).Since(closed)[closedCompleted]; got != 1 {
		t.Errorf("got %v closed, want 1", got)
	}
}

// TestHandedOver checks that a connection handed over ends when it is closed and its handlers have returned, whichever
// comes last.
func TestHandedOver(t *testing.T) {
	for _, tc := range []struct {
		name  string
		first bool // closed before the handlers have returned
	}{{"closed_last", false}, {"closed_first", true}} {
		t.Run(tc.name, func(t *testing.T) {
			s := Enter(newConnection(t))
			var ends int
			var in int64
			s.OnEnd(func() { ends, in = ends+1, s.BytesIn })
			if tc.first {
				s.Closed(7, 8)
			}
			s.End(HandedOver)
			if ends != 0 {
				t.Error("got its end while handlers have it")
			}
			s.Leave(zap.NewNop())
			if !tc.first {
				if ends != 0 || Find(s.id) != s {
					t.Error("got its end while it is open")
				}
				s.Closed(7, 8)
			}
			if ends != 1 || in != 7 || Find(s.id) != nil {
				t.Errorf("got %d ends with %d bytes in, want 1 with 7", ends, in)
			}
		})
	}
}

// TestNotAdmitted checks that a connection which was not admitted doesn't count as one.
func TestNotAdmitted(t *testing.T) {
	before := counts.Of(t, Register)
	s := Enter(newConnection(t))
	s.End(AdmissionProcess)
	s.Leave(zap.NewNop())
	if got := counts.Of(t, Register).Since(before); len(got) != 0 {
		t.Errorf("got %v counted, want nothing", got)
	}
}

// TestStop checks what becomes of a session that is stopped from outside.
func TestStop(t *testing.T) {
	t.Run("closes_the_connection", func(t *testing.T) {
		s := Enter(newConnection(t))
		defer s.Leave(zap.NewNop())
		if !s.Stop(Killed) || s.Stop(Shutdown) || s.CloseReason() != Killed {
			t.Errorf("got %v, want it stopped once, as killed", s.CloseReason())
		}
		if _, err := s.conn.Read(make([]byte, 1)); err == nil {
			t.Error("got no error from the connection, want it closed")
		}
	})
	t.Run("in_its_own_way", func(t *testing.T) {
		s := Enter(newConnection(t))
		defer s.Leave(zap.NewNop())
		calls := 0
		s.OnStop(func() { calls++ })
		if !s.Stop(Shutdown) || calls != 1 {
			t.Errorf("got %d calls, want 1", calls)
		}
		s.OnStop(func() { calls++ }) // set too late: it runs at once
		if calls != 2 {
			t.Errorf("got %d calls, want 2", calls)
		}
	})
	t.Run("over", func(t *testing.T) {
		s := Enter(newConnection(t))
		defer s.Leave(zap.NewNop())
		s.End(Completed)
		s.OnStop(func() { t.Error("got a call, want none") })
		if s.Stop(Killed) || s.CloseReason() != Completed {
			t.Errorf("got %v, want it left alone", s.CloseReason())
		}
	})
	t.Run("handed_over", func(t *testing.T) {
		s := Enter(newConnection(t))
		closed := 0
		s.OnStop(func() { closed++ })
		s.End(HandedOver)
		s.Leave(zap.NewNop())
		if StopAll(Shutdown); closed != 0 {
			t.Error("got it stopped with the others, want it left to the HTTP app")
		}
		if !s.Stop(Killed) || closed != 1 || s.CloseReason() != HandedOver {
			t.Errorf("got %d closes and %v, want 1 and %v", closed, s.CloseReason(), HandedOver)
		}
		s.Closed(0, 0)
		if s.Stop(Killed) {
			t.Error("got it stopped after it was closed")
		}
	})
}

// TestConcurrently checks that sessions begin, end, are looked at and stopped at the same time.
func TestConcurrently(t *testing.T) {
	before := onList()
	var wait sync.WaitGroup
	for range 8 {
		wait.Go(func() {
			for range 200 {
				s := Enter(newConnection(t))
				s.Set(func() { s.Client, s.Upstream = &net.TCPAddr{Port: 1}, "u" })
				s.OnMoved(func() (int64, int64) { return 1, 2 })
				s.End(Completed)
				s.Leave(zap.NewNop())
			}
		})
	}
	wait.Go(func() {
		for range 50 {
			for snap := range All() {
				if s := Find(snap.ID); s != nil {
					s.Stop(Killed)
				}
			}
			_ = Pending()
		}
	})
	wait.Wait()
	if got := onList(); got != before {
		t.Errorf("got %d sessions left, want %d", got, before)
	}
}

// TestPanicAtTheEnd checks that a fault in one thing that is done at the end doesn't keep the others from being done.
func TestPanicAtTheEnd(t *testing.T) {
	s := Enter(newConnection(t))
	done := false
	s.OnEnd(func() { done = true })
	s.OnEnd(func() { panic("fault") })
	s.Leave(zap.NewNop())
	if !done || Find(s.id) != nil {
		t.Error("got something left undone")
	}
}

// TestClosedAfterStop checks a connection that an HTTP server has got just when it was stopped from outside: it was never
// handed over, its end came with the last handler, and that somebody closes it later changes nothing.
func TestClosedAfterStop(t *testing.T) {
	other := Enter(newConnection(t))
	defer other.Leave(zap.NewNop())
	before, closed := onList(), counts.Of(t, Register)
	s := Enter(newConnection(t))
	ends := 0
	s.OnEnd(func() { ends++ })
	s.Stop(Killed)
	s.End(HandedOver)
	s.Leave(zap.NewNop())
	s.Closed(7, 8)
	if ends != 1 || onList() != before || Find(other.id) != other {
		t.Errorf("got %d ends, %d sessions on the list, want 1 and %d", ends, onList(), before)
	}
	if got := counts.Of(t, Register).Since(closed)["caddy_sluice_session_closed_total killed"]; got != 1 {
		t.Errorf("got %v closed, want 1", got)
	}
}

// proxied is a connection behind a handler that is not ours and has read a PROXY header.
type proxied struct {
	net.Conn
	client net.Addr
}

func (p proxied) RemoteAddr() net.Addr { return p.client }

// TestFollow checks that the client is the one that the connection has, also if a handler of somebody else's has found it
// out between two of ours.
func TestFollow(t *testing.T) {
	for name, look := range map[string]func(*layer4.Connection) *Session{"inside": Inside, "enter": Enter} {
		t.Run(name, func(t *testing.T) {
			cx := newConnection(t)
			s := Enter(cx)
			defer s.Leave(zap.NewNop())
			peer, client := s.Client, &net.TCPAddr{IP: net.IPv4(192, 0, 2, 1), Port: 1}
			if look(cx); s.Client != peer {
				t.Errorf("got client %v, want %v", s.Client, peer)
			}
			look(cx.Wrap(proxied{cx.Conn, client}))
			if s.Client != client || s.Peer != peer {
				t.Errorf("got client %v, peer %v, want %v and %v", s.Client, s.Peer, client, peer)
			}
			if look(cx.Wrap(proxied{cx.Conn, nil})); s.Client != client {
				t.Errorf("got client %v of a connection that has none, want %v", s.Client, client)
			}
		})
	}
}

// onList returns how many sessions there are.
func onList() int { return len(live().all()) }
