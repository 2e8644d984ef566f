// Package lifetime says when a relayed connection has lived long enough. It has four limits: the time without a byte, two
// limits on the whole session, and the time after one side has finished. It keeps no clock and looks at no socket: it is
// told the time and what has happened, and answers whether a limit has passed, or when it wants to be asked again.
package lifetime

import "time"

// Limits are the limits of a connection. 0 or less means that there is none.
type Limits struct {
	// Idle is how long no byte may arrive from either side.
	Idle time.Duration
	// Session and Max limit the connection from its start, whatever it does. The shorter one counts, and if they are
	// equal, Session.
	Session, Max time.Duration
	// HalfClose is how long the connection may go on after one side has finished, whatever it does.
	HalfClose time.Duration
}

// Expiry is the limit that has passed.
type Expiry uint8

const (
	// None means that no limit has passed.
	None Expiry = iota
	// Idle means that the connection was idle for too long.
	Idle
	// Session means that Limits.Session has passed.
	Session
	// Max means that Limits.Max has passed.
	Max
	// HalfClose means that one side went on for too long after the other had finished.
	HalfClose
)

// expiryNames has a name for each expiry.
var expiryNames = [...]string{None: "none", Idle: "idle", Session: "session", Max: "max", HalfClose: "half_close"}

// String returns the name of the expiry; "unknown" for a value that is none.
func (e Expiry) String() string {
	if int(e) >= len(expiryNames) {
		return "unknown"
	}
	return expiryNames[e]
}

// Activity is what is known about the bytes of a connection at one time.
type Activity struct {
	// Age is how long ago the last byte arrived from either side. Less than 0 means that this isn't known.
	Age time.Duration
	// Moved is the number of bytes that were moved so far, both ways together.
	Moved int64
}

// Watch is the lifetime of one connection. It is used by one goroutine at a time.
//
// Idle. Where the age of the last byte is known, Watch wants to be asked when that byte is 7/8 of the limit old, and at
// the limit. The connection is idle if no byte has arrived for as long as the limit, and none was moved between the two
// looks. If bytes were moved all the same, a slow reader is being served from what was buffered for it: then, and always
// where the age isn't known, Watch wants to be asked every 1/8 of the limit, and the connection is idle when nothing has
// moved for as long as the limit: that is seen up to 1/8 of the limit late, never early.
type Watch struct {
	limits  Limits
	start   time.Time
	expired Expiry
	// finished is when one side had finished; the zero time while none has.
	finished time.Time
	idle     idleWatch
}

// Start begins the lifetime, or a new one. The time before it doesn't count.
func (w *Watch) Start(l Limits, now time.Time) {
	*w = Watch{limits: l, start: now}
	if l.Idle > 0 {
		w.idle.begin(l.Idle, now)
	}
}

// HalfClosed says that one side has finished. Only the first call counts. Next has to be called after it, since there
// may be less to wait for.
func (w *Watch) HalfClosed(now time.Time) {
	if w.finished.IsZero() {
		w.finished = now
	}
}

// NeedsActivity says whether Next will look at the activity that it is given at this time. It spares the caller the
// question to the kernel.
func (w *Watch) NeedsActivity(now time.Time) bool {
	return w.expired == None && w.limits.Idle > 0 && !now.Before(w.idle.look)
}

// Next returns the limit that has passed; that answer is final. Else it returns None and how long to wait before the
// next call, more than 0; 0 means that there is nothing to wait for, until HalfClosed is called. Calls in between do no
// harm. If several limits have passed, Session and Max come before HalfClose, and HalfClose before Idle.
func (w *Watch) Next(now time.Time, a Activity) (e Expiry, wait time.Duration) {
	if w.expired == None {
		w.expired, wait = w.next(now, a)
	}
	return w.expired, wait
}

// next is Next while no limit has passed.
func (w *Watch) next(now time.Time, a Activity) (e Expiry, wait time.Duration) {
	if e, limit := w.hard(); e != None {
		left := w.start.Add(limit).Sub(now)
		if left <= 0 {
			return e, 0
		}
		wait = sooner(wait, left)
	}
	if w.limits.HalfClose > 0 && !w.finished.IsZero() {
		left := w.finished.Add(w.limits.HalfClose).Sub(now)
		if left <= 0 {
			return HalfClose, 0
		}
		wait = sooner(wait, left)
	}
	if w.limits.Idle > 0 {
		left := w.idle.next(now, a)
		if left <= 0 {
			return Idle, 0
		}
		wait = sooner(wait, left)
	}
	return None, wait
}

// hard returns the limit on the whole session that passes first, and None if there is no such limit.
func (w *Watch) hard() (Expiry, time.Duration) {
	session, longest := w.limits.Session, w.limits.Max
	switch {
	case session > 0 && (longest <= 0 || session <= longest):
		return Session, session
	case longest > 0:
		return Max, longest
	}
	return None, 0
}

// sooner returns the shorter of two waits. The first one is 0 as long as there is none.
func sooner(wait, left time.Duration) time.Duration {
	if wait == 0 {
		return left
	}
	return min(wait, left)
}
