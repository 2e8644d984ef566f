package lifetime

import (
	"testing"
	"time"
)

// kind is what happens to a connection.
type kind uint8

const (
	relayed  kind = iota // a byte arrives and is moved
	stalled              // a byte arrives and can't be moved
	drained              // a byte that arrived earlier is moved
	finished             // one side finishes
	asked                // somebody asks out of turn
	kinds
)

// event is something that happens to a connection, at a time since its start.
type event struct {
	at   time.Duration
	kind kind
}

// sim drives a Watch over a virtual connection, punctually.
type sim struct {
	limits Limits
	events []event
	// known says that the age of the last byte is known; before is its age at the start.
	known  bool
	before time.Duration

	watch Watch
	now   time.Duration
	moved int64
	// arrival and movement are when a byte arrived last, and was moved last.
	arrival, movement time.Duration
	// looks counts the times at which the activity was needed.
	looks int
}

// t0 is the start of all virtual connections.
var t0 = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

func (s *sim) time() time.Time { return t0.Add(s.now) }

func (s *sim) activity() Activity {
	if !s.known {
		return Activity{Age: -1, Moved: s.moved}
	}
	return Activity{Age: s.now - s.arrival, Moved: s.moved}
}

// run goes on until the watch has expired, or has nothing to wait for and nothing happens any more.
func (s *sim) run(t *testing.T) Expiry {
	t.Helper()
	s.arrival = -s.before
	s.watch.Start(s.limits, s.time())
	e, wait := s.ask(t)
	for e == None {
		wake := s.now + wait
		if len(s.events) == 0 && wait == 0 {
			break
		}
		if len(s.events) == 0 || wait != 0 && wake < s.events[0].at {
			s.now = wake
			e, wait = s.ask(t)
			continue
		}
		s.now = s.events[0].at
		if s.happen() || s.now == wake {
			e, wait = s.ask(t)
			continue
		}
		if wait != 0 {
			wait = wake - s.now
		}
	}
	return e
}

// happen has everything happen that happens now, and says whether that is a reason to ask.
func (s *sim) happen() (ask bool) {
	for len(s.events) > 0 && s.events[0].at == s.now {
		switch s.events[0].kind {
		case relayed:
			s.moved++
			s.arrival, s.movement = s.now, s.now
		case stalled:
			s.arrival = s.now
		case drained:
			s.moved++
			s.movement = s.now
		case finished:
			s.watch.HalfClosed(s.time())
			ask = true
		default:
			ask = true
		}
		s.events = s.events[1:]
	}
	return ask
}

// ask asks the watch, and checks what holds for every answer.
func (s *sim) ask(t *testing.T) (Expiry, time.Duration) {
	t.Helper()
	needed := s.watch.NeedsActivity(s.time())
	if needed {
		s.looks++
	}
	blind := s.watch
	e, wait := s.watch.Next(s.time(), s.activity())
	if !needed {
		if other, otherWait := blind.Next(s.time(), Activity{Age: 1 << 40, Moved: -1}); other != e || otherWait != wait {
			t.Fatalf("%v: got %v, %v with the activity, %v, %v without it, and it wasn't needed", s.now, e, wait, other, otherWait)
		}
	}
	if e == None {
		if wait < 0 || wait == 0 && s.waits() {
			t.Fatalf("%v: got nothing to wait for", s.now)
		}
		return e, wait
	}
	if wait != 0 || s.watch.NeedsActivity(s.time()) {
		t.Fatalf("%v: got %v, and %v to wait", s.now, e, wait)
	}
	again, wait := s.watch.Next(s.time().Add(time.Hour), Activity{Moved: s.moved + 1})
	if again != e || wait != 0 {
		t.Fatalf("%v: got %v, %v after %v", s.now, again, wait, e)
	}
	return e, 0
}

// waits says whether there is a limit that will pass some time.
func (s *sim) waits() bool {
	return s.limits.Idle > 0 || s.limits.Session > 0 || s.limits.Max > 0 || s.limits.HalfClose > 0 && !s.watch.finished.IsZero()
}
