package pipeline

import (
	"errors"
	"net/http"
	"time"
)

// setTimeouts says how long to wait for the client.
func (b *requestBody) setTimeouts() {
	server, ok := b.x.r.Context().Value(http.ServerContextKey).(*http.Server)
	switch {
	case !ok || server.ReadTimeout <= 0:
	case server.ReadTimeout <= b.timeout:
		b.timeout = 0 // the server's deadline comes first
	default:
		b.latest = time.Now().Add(server.ReadTimeout)
	}
}

// arm sets the time until which the client must have sent something; 0 is to leave it as it was.
func (b *requestBody) arm(timeout time.Duration) error {
	b.x.mu.Lock()
	defer b.x.mu.Unlock()
	if b.closed {
		return errBodyClosed
	}
	b.over = b.eof
	if !b.answered {
		b.setDeadline(timeout)
	}
	return nil
}

// setDeadline sets the deadline for reading. Who calls it holds x.mu.
func (b *requestBody) setDeadline(timeout time.Duration) {
	if b.timeout == 0 {
		return
	}
	b.until = time.Time{}
	at := b.latest
	if timeout != 0 {
		at = earlier(earlier(time.Now().Add(timeout), b.latest), b.within)
		b.until = at
	}
	b.outer.limit(at)
	// Where there are no deadlines there is nobody to wait for: tests, and requests made up inside Caddy.
	_ = http.NewResponseController(b.x.w).SetReadDeadline(at)
}

// limit has a pipeline in front, whose body a pipeline behind it reads, wait no longer than until a time; zero is for as
// long as it likes. A nil body is none. Who calls it holds the mutex of the pipeline behind it.
func (b *requestBody) limit(at time.Time) {
	if b == nil {
		return
	}
	b.x.mu.Lock()
	defer b.x.mu.Unlock()
	b.within = at
	b.outer.limit(at)
}

// earlier returns the earlier of two times, of which zero is none.
func earlier(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}

// answer is for when the client has the header of its answer: from then on both may take their time, as with a stream in
// both directions. Also who waits for the client waits on.
func (b *requestBody) answer() {
	b.x.mu.Lock()
	defer b.x.mu.Unlock()
	if b.answered || b.closed {
		return
	}
	b.answered = true
	if !b.until.IsZero() {
		b.setDeadline(0)
	}
}

// leave is for when the handlers have returned: nobody reads the body any more, but for the server, which looks for the
// end of it so as to use the connection again. It returns why the body couldn't go on.
func (b *requestBody) leave() error {
	b.x.mu.Lock()
	defer b.x.mu.Unlock()
	b.closed = true
	if until := b.until; !until.IsZero() && b.err == nil {
		b.setDeadline(0)
		// Somebody waits for the client. If the deadline has passed for him, the server doesn't find the end either.
		if !time.Now().Before(until) {
			b.err = errStalled
		}
	}
	return b.err
}

// gaveOut reports whether the body couldn't go on for a reason for which the client gets an answer.
func (b *requestBody) gaveOut() bool {
	b.x.mu.Lock()
	defer b.x.mu.Unlock()
	if b.err != nil {
		return !errors.Is(b.err, errClientGone)
	}
	return !b.until.IsZero() && !time.Now().Before(b.until)
}

// armRest has the server, which reads some of what is left of a body before it closes the connection, not wait for ever.
// Who calls it holds x.mu.
func (b *requestBody) armRest() {
	if b.closing && !b.over && !errors.Is(b.err, errStalled) {
		b.setDeadline(b.timeout)
	}
}
