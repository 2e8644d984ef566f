package lifetime

import (
	"slices"
	"testing"
	"time"
)

// FuzzWatch has a random schedule. Laws: the answer is that of the model, at the time of the model, where the model
// knows it; it is never early and never later than allowed where bytes move that didn't just arrive; three waits for the
// next look at the activity take 7/8 of the idle limit or more.
func FuzzWatch(f *testing.F) {
	f.Add([]byte{1, 80, 0, 0, 0, 0})
	f.Add([]byte{1, 80, 0, 0, 0, 200, 75, 0, 5, 3})
	f.Add([]byte{1, 80, 200, 200, 10, 0, 75, 1, 5, 3})
	f.Add([]byte{1, 80, 0, 0, 0, 0, 75, 2, 10, 2, 10, 2})
	f.Add([]byte{0, 80, 0, 0, 90, 0, 75, 0, 5, 3, 10, 2})
	f.Add([]byte{3, 3, 0, 0, 0, 0, 1, 0, 1, 0, 1, 4})
	f.Add([]byte{0, 90, 0, 100, 0, 0, 80, 0, 70, 2, 60, 2})
	f.Fuzz(func(t *testing.T, data []byte) {
		s, ok := decode(data)
		if !ok {
			return
		}
		events := s.events
		got := s.run(t)
		if got == Idle {
			checkIdle(t, &s)
		}
		e, at := model(&s, events)
		exact := s.known && !slices.ContainsFunc(events, func(e event) bool { return e.kind == drained })
		switch {
		case exact && (got != e || e != None && s.now != at):
			t.Fatalf("got %v at %v, want %v at %v", got, s.now, e, at)
		case e != None && (got == None || s.now > at):
			t.Fatalf("got %v at %v, want something at %v at the latest", got, s.now, at)
		case got != None && got != Idle && got != e:
			t.Fatalf("got %v at %v, want %v at %v or idle before it", got, s.now, e, at)
		}
		// A look finds a byte younger than 7/8, one finds it that old, one is at the limit: a byte just before the third and
		// one just after it have the three begin again.
		if periods := int(s.now/max(s.limits.Idle-max(s.limits.Idle/8, 1), 1)) + 1; exact && s.looks > 3*periods {
			t.Fatalf("got %d looks in %d times 7/8 of the idle limit", s.looks, periods)
		}
	})
}

// decode reads a schedule: whether the age is known (bit 0) and the unit of time (bit 1), four limits, the age at the
// start, then events, each with the time since the one before.
func decode(data []byte) (s sim, ok bool) {
	if len(data) < 6 {
		return s, false
	}
	unit := time.Millisecond
	if data[0]&2 != 0 {
		unit = 1
	}
	duration := func(i int) time.Duration { return time.Duration(data[i]) * unit }
	s = sim{known: data[0]&1 != 0, limits: Limits{duration(1), duration(2), duration(3), duration(4)}, before: duration(5)}
	if s.limits.Idle > 0 {
		// With less, a look and a byte just after it can fall on the instant of the look before.
		s.limits.Idle = max(s.limits.Idle, 3)
	}
	at := time.Duration(0)
	for i := 6; i+1 < len(data); i += 2 {
		at += duration(i)
		s.events = append(s.events, event{at, kind(data[i+1]) % kinds})
	}
	return s, true
}

// checkIdle: nothing has arrived for the limit, if the age is known; nothing was moved for it, if it is not.
func checkIdle(t *testing.T, s *sim) {
	t.Helper()
	since := s.movement
	if s.known {
		since = max(s.arrival, 0)
	}
	if s.now-since < s.limits.Idle {
		t.Fatalf("got idle at %v, %v after the last byte", s.now, s.now-since)
	}
}

// model looks at the whole schedule at once. It returns what passes first, and when. Where the idle limit depends on what
// is moved, that is the latest time at which it may pass.
func model(s *sim, events []event) (first Expiry, at time.Duration) {
	earliest := func(e Expiry, limit, from time.Duration) {
		if limit > 0 && (first == None || from+limit < at) {
			first, at = e, from+limit
		}
	}
	earliest(Session, s.limits.Session, 0)
	earliest(Max, s.limits.Max, 0)
	if i := slices.IndexFunc(events, func(e event) bool { return e.kind == finished }); i >= 0 {
		earliest(HalfClose, s.limits.HalfClose, events[i].at)
	}
	last, slack := time.Duration(0), time.Duration(0)
	for _, e := range events {
		if e.at > last+s.limits.Idle+slack {
			break
		}
		last, slack = alive(s, e, last, slack)
	}
	if !s.known {
		slack = max(s.limits.Idle/8, 1)
	}
	if s.limits.Idle > 0 {
		earliest(Idle, s.limits.Idle+slack, last)
	}
	return first, at
}

// alive returns from when on the idle time counts after an event, and by how much it may be exceeded.
func alive(s *sim, e event, last, slack time.Duration) (time.Duration, time.Duration) {
	switch {
	case s.known && (e.kind == relayed || e.kind == stalled):
		return e.at, 0
	case e.kind == drained, !s.known && e.kind == relayed:
		return e.at, max(s.limits.Idle/8, 1)
	}
	return last, slack
}
