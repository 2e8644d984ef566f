package relay

import (
	"errors"
	"fmt"
	"os"
	"time"
)

const (
	// drainTime bounds how long an abort waits for bytes that its side had sent before: long enough for a receiver
	// a slow link away, short enough not to pile up connections whose other end is gone.
	drainTime = 5 * time.Second
	// muteGrace is what the rest of an exchange gets when the end of one side's stream can't be passed on.
	muteGrace = time.Second
)

// stage is what a direction was doing when it ended.
type stage uint8

const (
	reading stage = iota
	writing
	replaying
)

// outcome is how one direction ended: at the end of the stream if err is nil, else with err at that stage.
type outcome struct {
	at  stage
	err error
	// mute marks an end of stream that could not be passed on.
	mute bool
	// parked marks that this is no end at all: the direction waits without a goroutine.
	parked bool
}

// step is what remains to be done, without the lock, after a direction was settled.
type step uint8

const (
	nothing step = iota
	announce
	abort
)

// passEnd passes the end of d's stream on to its receiver.
func (d *direction) passEnd() outcome {
	d.over.Store(true)
	if d.dst.closer == nil {
		return outcome{mute: true}
	}
	if d.dst.raw != nil && d.other.over.Load() {
		// Nothing moves any more, and to close the socket, which the caller is about to do, says the same.
		return outcome{}
	}
	d.dst.shut.Store(true)
	err := d.dst.closer.CloseWrite()
	if err != nil && !d.other.over.Load() {
		return outcome{at: writing, err: err}
	}
	// A receiver that had ended its own stream and is gone by now has no use for the end of the other's.
	return outcome{}
}

// settle records how d ended and does what follows from it.
func (r *Relay) settle(d *direction, out outcome) {
	switch r.record(d, out) {
	case announce:
		r.half.Store(true)
		if r.OnHalfClose != nil {
			r.OnHalfClose()
		}
	case abort:
		r.abort()
	}
}

// record keeps how d ended; the first error decides how the relay does.
func (r *Relay) record(d *direction, out outcome) step {
	r.mu.Lock()
	defer r.mu.Unlock()
	if d.other.out.mute && !r.stopped.Load() && out.at == reading && isTimeout(out.err) {
		out = outcome{}
	}
	d.out, d.done = out, true
	// A backend that broke may be noticed by the other direction before the replay fails.
	first := r.end == Completed || r.end == BackendAborted && out.at == replaying
	if out.err != nil && first {
		r.end, r.err = r.name(d)
	}
	next := r.next(d)
	if next == abort {
		r.aborted = true
	}
	return next
}

// name says what d's error means for the relay.
func (r *Relay) name(d *direction) (End, error) {
	if r.stopped.Load() {
		return Stopped, nil
	}
	if d.out.at == replaying {
		return ReplayFailed, fmt.Errorf("replaying to backend: %w", d.out.err)
	}
	broken, verb := d.src, "reading from"
	if d.out.at == writing {
		broken, verb = d.dst, "writing to"
	}
	if broken == &r.client {
		return ClientAborted, fmt.Errorf("%s client: %w", verb, d.out.err)
	}
	return BackendAborted, fmt.Errorf("%s backend: %w", verb, d.out.err)
}

// next decides what follows after d has ended. A receiver that broke may have sent something before: the other
// direction gets the time to deliver that, and its end then aborts.
func (r *Relay) next(d *direction) step {
	switch {
	case r.end == Stopped, r.aborted:
		return nothing
	case d.out.err == nil && !d.other.done:
		return r.halfEnded(d)
	case r.end == Completed:
		return nothing
	case d.out.at != reading && !d.other.done:
		r.limit(d.other, drainTime)
		return nothing
	default:
		return abort
	}
}

// halfEnded follows on the end of d's stream while the other direction goes on.
func (r *Relay) halfEnded(d *direction) step {
	if !d.out.mute {
		return announce
	}
	r.limit(d.other, muteGrace)
	return nothing
}

// limit ends d after at most t. After Stop it ends at once anyway.
func (r *Relay) limit(d *direction, t time.Duration) {
	if r.stopped.Load() {
		return
	}
	at := time.Now().Add(t)
	d.limited = true
	_ = d.src.conn.SetReadDeadline(at)
	_ = d.dst.conn.SetWriteDeadline(at)
	d.wake()
}

// abort resets both ends, once the side that lives has what the other had sent.
func (r *Relay) abort() {
	r.mu.Lock()
	alive := &r.backend
	if r.end != ClientAborted {
		alive = &r.client
	}
	r.mu.Unlock()
	alive.awaitDelivery(&r.stopped)
	r.client.reset()
	r.backend.reset()
	r.up.wake()
	r.down.wake()
}

func isTimeout(err error) bool { return errors.Is(err, os.ErrDeadlineExceeded) }
