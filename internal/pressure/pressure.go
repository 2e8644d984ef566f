// Package pressure says whether the process has room for another connection: memory and open files. It looks at the
// system now and then, not for each connection, and is told the time.
package pressure

import (
	"sync"
	"time"
)

// Answer says whether there is room.
type Answer uint8

const (
	// Room means that there is.
	Room Answer = iota
	// Full means that there is none.
	Full
	// Unknown means that the system has not told for too long.
	Unknown
)

// trust is how long the last reading counts when there is no newer one. What is measured does not jump in that time.
const trust = 10 * time.Second

// sample is a reading, kept for a while. Its owner's mutex guards it.
type sample struct {
	read func() (uint64, error)
	// tried is when the system was asked last, good when it answered.
	tried, good time.Time
	value       uint64
}

// refresh asks the system if the last time was at least so long ago, and reports whether there is a new value.
func (s *sample) refresh(now time.Time, every time.Duration) bool {
	if !s.tried.IsZero() && now.Sub(s.tried) < every {
		return false
	}
	s.tried = now
	value, err := s.read()
	if err != nil {
		return false
	}
	s.value, s.good = value, now
	return true
}

// known says whether there is a value that still counts.
func (s *sample) known(now time.Time) bool { return !s.good.IsZero() && now.Sub(s.good) < trust }

// memoryEvery is how often memory is read: it costs some system calls.
const memoryEvery = time.Second

// Memory compares the memory in use with a limit. It is safe for concurrent use.
type Memory struct {
	// mu guards sample.
	mu     sync.Mutex
	sample sample
}

// NewMemory returns a Memory that reads the bytes in use from read, once a second at most.
func NewMemory(read func() (uint64, error)) *Memory {
	return &Memory{sample: sample{read: read}}
}

// Ask says whether no more than limit bytes are in use.
func (m *Memory) Ask(now time.Time, limit uint64) Answer {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.sample.refresh(now, memoryEvery)
	if !m.sample.known(now) {
		return Unknown
	}
	if m.sample.value > limit {
		return Full
	}
	return Room
}

const (
	// filesEvery is how often open files are counted. They can run out within a second.
	filesEvery = 100 * time.Millisecond
	// filesDoubt is how often they are counted while the last count and what was let in since make too many: most of
	// that may be over by now. It bounds what counting costs to less than a hundredth of the time.
	filesDoubt = 5 * time.Millisecond
	// filesPerConnection is what a connection needs: the client's socket and the upstream's.
	filesPerConnection = 2
)

// Files compares the number of open files with a limit. It is safe for concurrent use.
type Files struct {
	// mu guards the fields below.
	mu     sync.Mutex
	sample sample
	// taken is how many files those need that were let in since the last count.
	taken uint64
}

// NewFiles returns a Files that reads the number of open files from read, ten times a second, and more often only when
// there seem to be too many.
func NewFiles(read func() (uint64, error)) *Files {
	return &Files{sample: sample{read: read}}
}

// Take says whether a connection leaves no more than limit files open, and counts the connection if so. Since it may be
// refused for another reason later, or be over, the count may be too high until the next reading, but never too low.
func (f *Files) Take(now time.Time, limit uint64) Answer {
	f.mu.Lock()
	defer f.mu.Unlock()
	answer := f.ask(now, limit)
	if answer == Room {
		f.taken += filesPerConnection
	}
	return answer
}

// Ask is Take for what may need no file of its own, such as a request on a connection that is there: nothing is counted
// in advance.
func (f *Files) Ask(now time.Time, limit uint64) Answer {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.ask(now, limit)
}

// ask says whether there is room. The caller holds mu.
func (f *Files) ask(now time.Time, limit uint64) Answer {
	f.count(now, filesEvery)
	if f.full(limit) {
		f.count(now, filesDoubt)
	}
	if !f.sample.known(now) {
		return Unknown
	}
	if f.full(limit) {
		return Full
	}
	return Room
}

// count counts the open files if the last time was at least so long ago.
func (f *Files) count(now time.Time, every time.Duration) {
	if f.sample.refresh(now, every) {
		f.taken = 0
	}
}

// full says whether there is no room for one more connection.
func (f *Files) full(limit uint64) bool {
	return f.sample.value+f.taken+filesPerConnection > limit
}
