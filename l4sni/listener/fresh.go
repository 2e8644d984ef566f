package listener

import (
	"net"
	"net/http"
	"sync"
	"time"
)

const (
	// freshTime is how long after the hand-over a connection counts as fresh: time for a TLS handshake and the
	// request behind it, with a retransmission, on a busy machine. A browser's spare connections, without a request
	// for longer, don't hold up a reload.
	freshTime = 3 * time.Second
	// freshPoll is how often wait looks.
	freshPoll = 5 * time.Millisecond
)

// freshSet has the connections of which the HTTP server has not begun to answer a request. A server that is told to stop
// closes such a connection without an answer if it has not yet read the request, or has only just read it.
type freshSet struct {
	// mu guards since.
	mu    sync.Mutex
	since map[*plainConn]time.Time
}

func (s *freshSet) add(c *plainConn) {
	c.fresh.Store(s)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.since == nil {
		s.since = make(map[*plainConn]time.Time)
	}
	s.since[c] = time.Now()
}

func (s *freshSet) remove(c *plainConn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.since, c)
}

// busy says whether a connection in the set is fresh.
func (s *freshSet) busy() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, since := range s.since {
		if time.Since(since) < freshTime {
			return true
		}
	}
	return false
}

// wait returns when no connection in the set is fresh: after freshTime at the latest, since none is added any more.
func (s *freshSet) wait() {
	for s.busy() {
		time.Sleep(freshPoll)
	}
}

// stateChanged is called by the HTTP server when the state of a connection changes. Once a request is read, the next
// bytes written are its answer, and then the connection is not fresh any more. Not before: between the one and the
// other the server looks whether it is to stop.
func stateChanged(conn net.Conn, state http.ConnState) {
	c := trackedOf(conn)
	switch {
	case c == nil || state == http.StateNew:
	case state == http.StateActive:
		c.active.Store(true)
	default:
		c.forget()
	}
}

// trackedOf finds our connection inside the one that the HTTP server has, which may be a *tls.Conn around it.
func trackedOf(conn net.Conn) *plainConn {
	for {
		switch c := conn.(type) {
		case handed:
			return c.tracked()
		case interface{ NetConn() net.Conn }:
			conn = c.NetConn()
		default:
			return nil
		}
	}
}
