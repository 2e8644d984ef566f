package l4sni

import (
	"errors"
	"io"
	"net"
	"testing"
	"testing/synctest"

	"github.com/mholt/caddy-l4/layer4"
	"go.uber.org/zap"

	"github.com/caddy-sluice/sluice/internal/preread"
	"github.com/caddy-sluice/sluice/modules/session"
	"github.com/caddy-sluice/sluice/modules/sluiceapp"
)

// free returns how much of the memory for undecided connections is free, which it takes and gives back.
func free(app *sluiceapp.App) int {
	lo, hi := 0, int(app.PrereadMemory)
	for lo < hi {
		mid := (lo + hi + 1) / 2
		if !app.TakePreread(mid) {
			hi = mid - 1
			continue
		}
		app.GivePreread(mid)
		lo = mid
	}
	return lo
}

// watched is a connection that notes how much memory is free at each read.
type watched struct {
	script
	app   *sluiceapp.App
	free  []int
	fault bool
}

func (w *watched) Read(p []byte) (int, error) {
	w.free = append(w.free, free(w.app))
	if w.fault {
		panic("fault")
	}
	return w.script.Read(p)
}

// TestMemory checks what an undecided connection takes of the memory that all share: its window, at each size, and
// nothing once it is decided, whatever came of it.
func TestMemory(t *testing.T) {
	for _, tc := range []struct {
		name    string
		conn    script
		pending []byte
		held    []int
	}{
		{"decided_at_once", script{data: hello("a.example.com")}, nil, []int{1024}},
		{"not_tls", script{data: []byte("GET /")}, nil, []int{1024}},
		{"closed", script{data: longHello[:1500]}, nil, []int{1024, 3072, 3072}},
		{"too_large", script{data: longHello}, nil, []int{1024, 3072, 9216, 27648, 32768}},
		{"matched", script{data: longHello[5000:]}, longHello[:5000], []int{15000, 32768}},
		{"no_deadline", script{deadlineErr: net.ErrClosed}, nil, nil},
	} {
		t.Run(tc.name, func(t *testing.T) {
			p := capped(t, 32768)
			before := free(p.app)
			conn := &watched{script: tc.conn, app: p.app}
			read(p, conn, tc.pending)
			if got := free(p.app); got != before {
				t.Errorf("got %d free afterwards, want %d", got, before)
			}
			if len(conn.free) != len(tc.held) {
				t.Fatalf("got %d reads, want %d", len(conn.free), len(tc.held))
			}
			for i, f := range conn.free {
				if got := before - f; got != tc.held[i] {
					t.Errorf("read %d: got %d held, want %d", i, got, tc.held[i])
				}
			}
		})
	}
}

// TestMemoryAfterPanic checks that a fault takes no memory with it.
func TestMemoryAfterPanic(t *testing.T) {
	router, _ := newRouter(t, testRouter(""))
	app := router.reader.app
	before := free(app)
	cx := layer4.WrapConnection(&watched{app: app, fault: true}, nil, zap.NewNop())
	if err := router.Handle(cx, end); err != nil {
		t.Fatal(err)
	}
	if got := session.Of(cx).CloseReason(); got != session.Internal {
		t.Errorf("got %v, want %v", got, session.Internal)
	}
	if got := free(app); got != before {
		t.Errorf("got %d free, want %d", got, before)
	}
}

// TestNoMemory has too little memory left for the first window, for the second, and for bytes that a matcher has read.
func TestNoMemory(t *testing.T) {
	for _, tc := range []struct {
		name    string
		left    int
		pending []byte
		reads   int
	}{
		{"first_window", 1023, nil, 0},
		{"second_window", 3071, nil, 1},
		{"matched", 4999, longHello[:5000], 0},
	} {
		t.Run(tc.name, func(t *testing.T) {
			router, logs := newRouter(t, testRouter(`,"fallback":[{"handle":[{"handler":"probe","name":"fallback"}]}]`))
			app := router.reader.app
			taken := free(app) - tc.left
			app.TakePreread(taken)
			defer app.GivePreread(taken)
			conn := &script{data: longHello[len(tc.pending):]}
			cx := layer4.WrapConnection(conn, tc.pending, zap.NewNop())
			before := count(t)
			if err := router.Handle(cx, end); err != nil {
				t.Fatal(err)
			}
			checkPath(t, cx)
			checkQuiet(t, logs)
			checkCounts(t, before, counts{"duration_seconds": 1})
			if got := session.Of(cx).CloseReason(); got != session.AdmissionPrereadMemory || len(conn.asked) != tc.reads {
				t.Errorf("got %v after %d reads, want %v after %d", got, len(conn.asked), session.AdmissionPrereadMemory, tc.reads)
			}
			if got := free(app); got != tc.left {
				t.Errorf("got %d free, want %d", got, tc.left)
			}
		})
	}
}

// TestMemoryIsJustEnough has exactly the memory that a hello takes.
func TestMemoryIsJustEnough(t *testing.T) {
	p := capped(t, 32768)
	taken := free(p.app) - windowSize
	p.app.TakePreread(taken)
	defer p.app.GivePreread(taken)
	r := read(p, &script{data: hello("a.example.com")}, nil)
	r.check(t, preread.Routed, preread.None)
}

// TestStopped stops a connection from outside while it is being read: it is not the client who has left, and no
// fallback gets it.
func TestStopped(t *testing.T) {
	for _, pre := range []string{"", "{}", `{"proxy_protocol":{"from":["192.0.2.0/24"]}}`} {
		for _, sent := range [][]byte{nil, longHello[:100]} {
			synctest.Test(t, func(t *testing.T) {
				router, logs := newRouter(t, testRouter(`,"fallback":[{"handle":[{"handler":"probe","name":"fallback"}]}]`))
				handlers := chain{router}
				if pre != "" {
					h, _ := newPreread(t, pre)
					handlers = chain{h, router}
				}
				client, server := newDuplex(t)
				cx := layer4.WrapConnection(server, nil, zap.NewNop())
				before := count(t)
				done := make(chan error)
				go func() { done <- handlers.handle(cx, end) }()
				if pre != `{"proxy_protocol":{"from":["192.0.2.0/24"]}}` {
					_, _ = client.Write(sent)
				}
				synctest.Wait()
				sess := session.Of(cx)
				if !sess.Stop(session.Killed) {
					t.Error("got a session that is ending already")
				}
				if err := <-done; err != nil {
					t.Fatal(err)
				}
				checkPath(t, cx)
				checkCounts(t, before, counts{"duration_seconds": 1})
				if got := sess.CloseReason(); got != session.Killed || sess.Reason != preread.None || logs.Len() > 0 {
					t.Errorf("got %v, reason %v and log entries %v, want %v, none and none", got, sess.Reason, logs.All(), session.Killed)
				}
				if _, err := client.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
					t.Errorf("got %v, want the end", err)
				}
			})
		}
	}
}

// TestStoppedBefore has a connection that was stopped before it comes to a handler.
func TestStoppedBefore(t *testing.T) {
	router, _ := newRouter(t, testRouter(`,"fallback":[{"handle":[{"handler":"probe","name":"fallback"}]}]`))
	pre, _ := newPreread(t, "{}")
	for _, read := range []bool{false, true} {
		for _, h := range []layer4.NextHandler{router, pre} {
			conn := &stoppable{script: script{data: hello("a.example.com")}}
			cx := layer4.WrapConnection(conn, nil, zap.NewNop())
			sess := session.Of(cx)
			sess.Preread = read
			sess.Stop(session.Killed)
			if err := h.Handle(cx, end); err != nil {
				t.Fatal(err)
			}
			checkPath(t, cx)
			if len(conn.asked) > 0 {
				t.Errorf("%T: got %d reads, want none", h, len(conn.asked))
			}
		}
	}
}

// stoppable is a script that can be closed.
type stoppable struct{ script }

func (*stoppable) Close() error { return nil }
