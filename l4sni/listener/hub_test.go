package listener

import (
	"errors"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"
)

// newListener returns a listener as listen makes it, without a socket.
func newListener(h *hub) *listener {
	return &listener{hub: h, logger: zap.NewNop(), conns: make(chan net.Conn), left: make(chan struct{}), closed: make(chan struct{})}
}

// enter puts l in line without a socket.
func (h *hub) enter(l *listener) *listener {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.listeners = append(h.listeners, l)
	return l
}

// shut is what Close does, without a socket.
func (l *listener) shut() {
	l.leave()
	close(l.closed)
}

// delivery is a delivery under way, which says whether a server took the connection.
func delivery(h *hub, conn handed, timeout time.Duration) <-chan bool {
	taken := make(chan bool, 1)
	go func() { taken <- h.deliver(conn, timeout) }()
	return taken
}

// TestCurrent checks which listener gets connections while they come and go.
func TestCurrent(t *testing.T) {
	h := new(hub)
	if got := h.current(); got != nil {
		t.Errorf("got %p in an empty hub, want none", got)
	}
	a, b, c := h.enter(newListener(h)), h.enter(newListener(h)), h.enter(newListener(h))
	for _, step := range []struct {
		leave, want *listener
	}{{nil, a}, {c, a}, {a, b}, {a, b}, {b, nil}} {
		h.leave(step.leave)
		if got := h.current(); got != step.want {
			t.Errorf("got %p, want %p", got, step.want)
		}
	}
}

// TestDeliver checks that a connection goes to the listener that has not left, and counts as fresh there.
func TestDeliver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := new(hub)
		old, latest := h.enter(newListener(h)), h.enter(newListener(h))
		old.leave()
		conn := newPlain(newFake(""))
		taken := delivery(h, conn, time.Second)
		if got, err := latest.Accept(); got != conn || err != nil {
			t.Errorf("got %v, %v, want the connection", got, err)
		}
		if !<-taken {
			t.Error("got not taken, want taken")
		}
		if !latest.fresh.busy() || old.fresh.busy() {
			t.Errorf("got fresh %v in the new and %v in the old, want true and false", latest.fresh.busy(), old.fresh.busy())
		}
	})
}

// TestDeliverWhileLeaving checks that a connection which waits at a listener that leaves goes to the next one.
func TestDeliverWhileLeaving(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := new(hub)
		leaves, stays := h.enter(newListener(h)), h.enter(newListener(h))
		conn := newPlain(newFake(""))
		taken := delivery(h, conn, time.Second)
		synctest.Wait()
		leaves.leave()
		synctest.Wait()
		if leaves.fresh.busy() {
			t.Error("got a fresh connection in the listener that left")
		}
		if got, err := stays.Accept(); got != conn || err != nil {
			t.Errorf("got %v, %v, want the connection", got, err)
		}
		if !<-taken || !stays.fresh.busy() {
			t.Error("got not taken or not fresh, want both")
		}
	})
}

// TestDeliverToNobody checks how long a delivery waits for a server that is not there.
func TestDeliverToNobody(t *testing.T) {
	for _, tc := range []struct {
		name  string
		setup func(*hub)
		want  time.Duration
	}{
		{"no_listener", func(*hub) {}, 0},
		{"nobody_accepts", func(h *hub) { h.enter(newListener(h)) }, 5 * time.Second},
		{"the_last_closes", func(h *hub) { time.AfterFunc(time.Second, h.enter(newListener(h)).shut) }, time.Second},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := new(hub)
				tc.setup(h)
				l := h.current()
				start := time.Now()
				if h.deliver(newPlain(newFake("")), 5*time.Second) {
					t.Error("got taken, want not")
				}
				if got := time.Since(start); got != tc.want {
					t.Errorf("got an answer after %v, want %v", got, tc.want)
				}
				if l != nil && len(l.fresh.since) != 0 {
					t.Error("got a fresh connection that was not taken")
				}
			})
		})
	}
}

// TestAccept checks that Accept ends with the listener, also when a connection is there at the same time.
func TestAccept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := new(hub)
		l := h.enter(newListener(h))
		failed := make(chan error)
		go func() {
			_, err := l.Accept()
			failed <- err
		}()
		synctest.Wait()
		l.shut()
		if err := <-failed; !errors.Is(err, net.ErrClosed) {
			t.Errorf("got %v, want %v", err, net.ErrClosed)
		}
		go func() { l.conns <- newFake("") }()
		synctest.Wait()
		for range 20 {
			if conn, err := l.Accept(); conn != nil || !errors.Is(err, net.ErrClosed) {
				t.Fatalf("got %v, %v, want %v", conn, err, net.ErrClosed)
			}
		}
		<-l.conns
	})
}
