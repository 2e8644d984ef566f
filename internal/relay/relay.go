// Package relay moves bytes between two connections, both ways, until both are done or one breaks.
//
// A direction that waits on a plain socket holds neither a buffer nor a pipe: they are taken when data are there and given
// back when they have gone out. On Linux one that has waited for a while holds no goroutine either, and one that carries
// bulk data between plain sockets moves on to splice(2).
package relay

import (
	"fmt"
	"net"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"
)

// End says how a relay ended. The set is closed.
type End uint8

const (
	// Completed means that both sides ended their stream and every byte was delivered. A side that can't be told
	// of the other's end (see Run) counts as ended with it.
	Completed End = iota
	// ReplayFailed means that the prefix could not be written to the backend.
	ReplayFailed
	// ClientAborted means that the client reset the connection, or its connection broke.
	ClientAborted
	// BackendAborted means that the backend did.
	BackendAborted
	// Stopped means that Stop ended it.
	Stopped
)

// BareConn is implemented by a connection that wraps another one and knows whether the bytes may go around it.
type BareConn interface {
	// BareConn returns the connection beneath. ok is true if the wrapper holds no bytes of its own and, from now on,
	// neither changes nor needs to see those that pass. Run asks once, at its start.
	BareConn() (beneath net.Conn, ok bool)
}

// Relay is one pair of connections. Client and Backend must be set; it is used once and must not be copied.
type Relay struct {
	// Client and Backend are the two ends. The relay passes on half-closes and, on an abort, closes both with a
	// reset. The caller closes them when Run has returned, which also passes on the last end of a stream.
	Client, Backend net.Conn
	// ClientSocket is the socket beneath Client, if Client wraps it without showing it (see net.Conn wrappers with
	// NetConn). An abort resets it, so that a wrapper can't make a proper end of it.
	ClientSocket net.Conn
	// Prefix are bytes already read from the client. They go to the backend first and count as sent. Run sets it to
	// nil once they are written, so that an idle connection doesn't hold them.
	Prefix []byte
	// OnHalfClose, if set, is called once, as soon as one side has ended its stream while the other goes on. It must
	// not block; it may call Stop.
	OnHalfClose func()

	client, backend endpoint
	up, down        direction
	pipes           *pipePool
	wait            sync.WaitGroup
	stopped         atomic.Bool
	half            atomic.Bool

	// mu guards the fields below, and the deadlines of both ends, which Stop and the ending set.
	mu      sync.Mutex
	running bool
	aborted bool
	end     End
	err     error
	// panicked is the first panic of a goroutine of ours, with its stack.
	panicked string
}

// Run moves bytes until the end and returns how it ended, with the error that ended it, if one did. When it returns
// no goroutine of the relay is left.
//
// It starts by clearing the deadlines of both ends. The end of one side's stream is passed on with CloseWrite, and the
// other direction goes on. If the receiver has no CloseWrite, it can't be told: then the other direction gets
// muteGrace to finish and the relay is Completed. When one side aborts, what it had sent before still reaches the other
// side, for at most drainTime; then both ends are reset.
//
// The caller's goroutine only waits: it may have a deep stack already, and none of the work is to make it deeper.
func (r *Relay) Run() (End, error) {
	r.wait.Add(2)
	go r.begin()
	r.wait.Wait()
	return r.result()
}

// result is what Run returns. It is a function of its own because Run is on the stack for as long as the connection lasts.
func (r *Relay) result() (End, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.running = false
	if r.panicked != "" {
		panic(r.panicked)
	}
	return r.end, r.err
}

// begin is the goroutine of the direction to the backend, which starts the other one.
func (r *Relay) begin() {
	if !r.prepare() {
		r.wait.Add(-2)
		return
	}
	go r.pump(&r.down)
	r.pump(&r.up)
}

// prepare looks at both ends and reports whether there is something to do.
func (r *Relay) prepare() (ok bool) {
	defer r.catch()
	r.client.open(r.Client)
	r.backend.open(r.Backend)
	r.up.relay, r.up.src, r.up.dst, r.up.other = r, &r.client, &r.backend, &r.down
	r.down.relay, r.down.src, r.down.dst, r.down.other = r, &r.backend, &r.client, &r.up
	if r.pipes == nil {
		r.pipes = sharedPipes()
	}
	if r.ClientSocket != nil {
		r.client.tcp = findTCP(r.ClientSocket)
	}
	return r.start()
}

// catch keeps a panic, for Run to go on with it on the caller's goroutine, and ends the relay. It is deferred by what
// calls into the connections, which may be anybody's.
func (r *Relay) catch() {
	p := recover()
	if p == nil {
		return
	}
	r.mu.Lock()
	if r.panicked == "" {
		r.panicked = fmt.Sprintf("%v\n%s", p, debug.Stack())
	}
	r.mu.Unlock()
	r.Stop()
}

// Stop ends Run soon, with Stopped, from another goroutine. It may be called at any time and more than once. Before Run
// it makes Run return at once; after Run it does nothing.
func (r *Relay) Stop() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.stopped.Store(true)
	if r.running {
		past := time.Unix(1, 0)
		r.client.setDeadline(past)
		r.backend.setDeadline(past)
		r.up.wake()
		r.down.wake()
	}
}

// Reset closes both ends with a reset, as an abort does. It is called after Run, when Stop has cut a stream off in its
// middle, so that neither side takes the cut for the end of the other's stream.
func (r *Relay) Reset() {
	r.client.reset()
	r.backend.reset()
}

// Sent returns the number of bytes written to the backend so far, the prefix included. It may be called while Run runs.
func (r *Relay) Sent() int64 { return r.backend.taken.Load() }

// Received returns the number of bytes written to the client so far.
func (r *Relay) Received() int64 { return r.client.taken.Load() }

// HalfClosed reports whether one side has ended its stream, and that was passed on, while the other went on. It may be
// called while Run runs, and stays true.
func (r *Relay) HalfClosed() bool { return r.half.Load() }

// start reports whether Stop has not come first, and makes later calls of it effective.
func (r *Relay) start() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.stopped.Load() {
		r.end = Stopped
		return false
	}
	r.client.setDeadline(time.Time{})
	r.backend.setDeadline(time.Time{})
	r.up.watch()
	r.down.watch()
	r.running = true
	return true
}

// pump is the goroutine of a direction. It ends when the stream has, or when an ending closes the ends or lets their
// deadlines pass; Run waits for it. It also ends when the direction has parked: then resume goes on.
func (r *Relay) pump(d *direction) {
	if parked := r.move(d); !parked {
		r.wait.Done()
	}
}

// move is pump, and reports whether the direction has parked.
func (r *Relay) move(d *direction) (parked bool) {
	defer r.catch()
	out := r.replay(d)
	if out.err == nil {
		out = d.run(r.pipes)
	}
	if out.parked {
		return true // and d is another goroutine's
	}
	if out.err == nil {
		out = d.passEnd()
	}
	r.settle(d, out)
	return false
}

// resume is the goroutine of a direction that was parked.
func (r *Relay) resume(d *direction) {
	r.mu.Lock()
	if !r.stopped.Load() && !d.limited {
		d.watch()
	}
	r.mu.Unlock()
	r.pump(d)
}

// replay writes the prefix, if this is the direction to the backend.
func (r *Relay) replay(d *direction) outcome {
	if d != &r.up || len(r.Prefix) == 0 {
		return outcome{}
	}
	err := d.write(r.Prefix)
	r.Prefix = nil
	return outcome{at: replaying, err: err}
}
