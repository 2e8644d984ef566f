package listener

import (
	"crypto/tls"
	"net/http"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// TestFreshSet checks how long a connection counts as fresh, and that wait lasts as long.
func TestFreshSet(t *testing.T) {
	for _, tc := range []struct {
		name string
		used func(*plainConn) // after 100 ms
		want time.Duration
	}{
		{"silent", func(*plainConn) {}, freshTime},
		{"still_new", func(c *plainConn) { stateChanged(c, http.StateNew) }, freshTime},
		{"request_read", func(c *plainConn) { stateChanged(c, http.StateActive) }, freshTime},
		{"handshake_written", func(c *plainConn) { _, _ = c.Write([]byte("x")) }, freshTime},
		{"answered", func(c *plainConn) { stateChanged(c, http.StateActive); _, _ = c.Write([]byte("x")) }, 100 * time.Millisecond},
		{"answered_over_tls", func(c *plainConn) {
			stateChanged(tls.Server(c, &tls.Config{}), http.StateActive)
			_, _ = c.Write([]byte("x"))
		}, 100 * time.Millisecond},
		{"hijacked", func(c *plainConn) { stateChanged(c, http.StateHijacked) }, 100 * time.Millisecond},
		{"closed", func(c *plainConn) { _ = c.Close() }, 100 * time.Millisecond},
		{"another_one", func(*plainConn) { stateChanged(newFake(""), http.StateActive) }, freshTime},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var set freshSet
				start := time.Now()
				if set.wait(); time.Since(start) != 0 {
					t.Error("got a wait for an empty set")
				}
				conn := newPlain(newFake(""))
				set.add(conn)
				if !set.busy() {
					t.Error("got no fresh connection, want one")
				}
				time.AfterFunc(100*time.Millisecond, func() { tc.used(conn) })
				set.wait()
				if got := time.Since(start); got < tc.want || got > tc.want+freshPoll {
					t.Errorf("got a wait of %v, want %v to the next poll", got, tc.want)
				}
			})
		})
	}
}

// TestFreshSetEmpties checks that the set keeps no connection that has been used or closed.
func TestFreshSetEmpties(t *testing.T) {
	var set freshSet
	a, b := newPlain(newFake("")), newPlain(newFake(""))
	set.add(a)
	set.add(b)
	stateChanged(a, http.StateActive)
	_, _ = a.Write([]byte("HTTP/1.1 200 OK"))
	_ = b.Close()
	_ = b.Close()
	if len(set.since) != 0 {
		t.Errorf("got %d connections, want none", len(set.since))
	}
}

// TestFreshSetConcurrently checks that a connection may be closed from outside while it is being handed over.
func TestFreshSetConcurrently(t *testing.T) {
	var set freshSet
	conn := newPlain(newFake(""))
	var wait sync.WaitGroup
	wait.Go(func() { _ = conn.Close() })
	set.add(conn)
	wait.Wait()
	if _ = conn.Close(); len(set.since) != 0 {
		t.Errorf("got %d connections in the set after the last close, want 0", len(set.since))
	}
}
