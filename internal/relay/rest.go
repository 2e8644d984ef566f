package relay

import "time"

// restAfter is how long a direction waits on its goroutine before it parks: longer than the pauses of a connection in
// use, since to park and to come back costs as much as some messages.
const restAfter = 100 * time.Millisecond

// rested is what became of a direction whose read has failed.
type rested uint8

const (
	// broken means that it stays failed: it was no timeout, or the timeout is an ending's.
	broken rested = iota
	// awake means that the direction goes on waiting on its goroutine.
	awake
	// asleep means that it has parked. Its goroutine must not touch it any more.
	asleep
)

// watch has the read of src time out, so that it can be seen whether the direction is in use. The caller holds the
// relay's mu.
func (d *direction) watch() {
	if canPark && d.src.raw != nil {
		_ = d.src.conn.SetReadDeadline(time.Now().Add(restAfter))
	}
}

// rest decides what to do about a failed read.
func (d *direction) rest(err error) rested {
	if !canPark || !isTimeout(err) {
		return broken
	}
	d.relay.mu.Lock()
	defer d.relay.mu.Unlock()
	if d.relay.stopped.Load() || d.limited {
		return broken
	}
	if d.moved {
		d.moved = false
		d.watch()
		return awake
	}
	_ = d.src.conn.SetReadDeadline(time.Time{})
	d.dropPipe() // which it has if the time was up before the read had begun
	if sharedLot().park(d) {
		return asleep
	}
	return awake // for good: without a place to park there is no use in looking again
}

// wake has the direction go on if it is parked, since what it waits for may not come any more.
func (d *direction) wake() {
	if canPark && sharedLot().leave(d) {
		go d.relay.resume(d)
	}
}
