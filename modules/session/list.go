package session

import (
	"iter"
	"strconv"
	"sync"
	"time"
)

// live is the list of all sessions of the process. Sessions outlive the config that they began under, so it is not a
// config's.
var live = sync.OnceValue(func() *list { return new(list) })

// list has the sessions in the order in which they began.
type list struct {
	// mu guards the fields below, and the place of each session on the list.
	mu          sync.Mutex
	first, last *Session
	count       int
	lastID      uint64
}

func (l *list) add(s *Session) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if s.id == 0 {
		l.lastID++
		s.id = l.lastID
	}
	s.prev, s.next = l.last, nil
	if l.last != nil {
		l.last.next = s
	} else {
		l.first = s
	}
	l.last = s
	l.count++
	metrics.active.Inc()
}

func (l *list) remove(s *Session) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if s.prev != nil {
		s.prev.next = s.next
	} else {
		l.first = s.next
	}
	if s.next != nil {
		s.next.prev = s.prev
	} else {
		l.last = s.prev
	}
	s.prev, s.next = nil, nil
	l.count--
	metrics.active.Dec()
}

// all returns the sessions of this moment.
func (l *list) all() []*Session {
	l.mu.Lock()
	defer l.mu.Unlock()
	sessions := make([]*Session, 0, l.count)
	for s := l.first; s != nil; s = s.next {
		sessions = append(sessions, s)
	}
	return sessions
}

// All returns the sessions of this moment, the oldest first, one snapshot after the other.
func All() iter.Seq[Snapshot] {
	return func(yield func(Snapshot) bool) {
		for _, s := range live().all() {
			if !yield(s.Snapshot()) {
				return
			}
		}
	}
}

// Find returns the session with this ID; nil if it has ended.
func Find(id uint64) *Session {
	l := live()
	l.mu.Lock()
	defer l.mu.Unlock()
	for s := l.first; s != nil; s = s.next {
		if s.id == id {
			return s
		}
	}
	return nil
}

// Pending returns the number of sessions that are in handlers. Those that were handed over to Caddy's HTTP app, which
// has a shutdown of its own, don't count.
func Pending() int {
	pending := 0
	for _, s := range live().all() {
		if s.CloseReason() != HandedOver {
			pending++
		}
	}
	return pending
}

// StopAll stops the sessions that are pending and returns how many it stopped.
func StopAll(r CloseReason) int {
	stopped := 0
	for _, s := range live().all() {
		if s.CloseReason() != HandedOver && s.Stop(r) {
			stopped++
		}
	}
	return stopped
}

// Snapshot is what there is to say about a session at one moment.
type Snapshot struct {
	// ID names the session, for as long as the process runs.
	ID uint64 `json:"id"`
	// Start is when it began, Duration how long it has lasted, in seconds.
	Start    time.Time `json:"start"`
	Duration float64   `json:"duration"`
	// Client is the client's address, after a PROXY header; Peer is where the connection came from.
	Client   string `json:"client"`
	Peer     string `json:"peer"`
	Listener string `json:"listener"`
	// ServerName, ALPN and Pattern are what the preread found; empty without one.
	ServerName string `json:"server_name,omitempty"`
	ALPN       string `json:"alpn,omitempty"`
	Pattern    string `json:"pattern,omitempty"`
	// Cluster and Upstream say where the connection was forwarded to; empty before.
	Cluster  string `json:"cluster,omitempty"`
	Upstream string `json:"upstream,omitempty"`
	// BytesIn and BytesOut count what was delivered to the upstream and to the client. For a connection that was
	// handed over they are counted when it closes.
	BytesIn  int64 `json:"bytes_in"`
	BytesOut int64 `json:"bytes_out"`
	// Reason is why the connection is ending, or handed_over; empty while it goes on.
	Reason string            `json:"reason,omitempty"`
	Tags   map[string]string `json:"tags,omitempty"`
}

// Snapshot returns what there is to say about s. It may be called from any goroutine.
func (s *Session) Snapshot() Snapshot {
	s.mu.Lock()
	defer s.mu.Unlock()
	snap := Snapshot{
		ID: s.id, Start: s.Start, Duration: time.Since(s.Start).Seconds(),
		Client: s.Client.String(), Peer: s.Peer.String(), Listener: s.Listener.String(),
		Pattern: s.Pattern, Cluster: s.Cluster, Upstream: s.Upstream,
		BytesIn: s.BytesIn, BytesOut: s.BytesOut, Reason: s.end.String(), Tags: s.Tags,
	}
	if s.Hello != nil {
		snap.ServerName, snap.ALPN = s.Hello.ServerName, FormatALPN(s.Hello.ALPN)
	}
	if s.moved != nil {
		snap.BytesIn, snap.BytesOut = s.moved()
	}
	return snap
}

// ID returns the session's ID as text, for logs.
func (s *Session) ID() string { return strconv.FormatUint(s.id, 10) }
