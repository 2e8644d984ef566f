package pipeline

import (
	"errors"
	"net/http"
	"time"
)

// setTimeouts says how long to wait for the client.
func (b *requestBody) setTimeouts() {
	server, ok := b.x.r.Context().Value(http.ServerContextKey).(*http.Server)
	if !ok || server.ReadTimeout <= 0 {
		return
	}
	b.latest = time.Now().Add(server.ReadTimeout)
	if server.ReadTimeout <= b.timeout {
		b.timeout = 0 // the server's deadline comes first
	}
}

// arm sets the time until which the client must have sent something, or that it may take as long as it likes, if nobody
// waits for it.
func (b *requestBody) arm(waits bool) error {
	b.x.mu.Lock()
	defer b.x.mu.Unlock()
	if b.closed {
		return errBodyClosed
	}
	b.over = b.eof
	if !b.answered {
		b.setDeadline(waits)
	}
	return nil
}

// setDeadline sets the deadline for reading, or takes it away. Where a pipeline in front reads from the client, it is that
// one which does so, for each piece: it may take many for one that comes here. Who calls it holds x.mu.
func (b *requestBody) setDeadline(waits bool) {
	limit := shorter(b.timeout, b.within)
	if !waits {
		limit = 0
	}
	if limit == 0 && b.until.IsZero() {
		return
	}
	b.until = time.Time{}
	if limit != 0 {
		b.until = earlier(time.Now().Add(limit), b.latest)
	}
	if b.outer != nil {
		b.outer.limit(limit)
		return
	}
	b.setReadDeadline(earlier(b.until, b.latest))
}

// setReadDeadline sets the deadline of the connection, or of the stream; zero is none. Who calls it holds x.mu.
func (b *requestBody) setReadDeadline(at time.Time) {
	// Where there are no deadlines there is nobody to wait for: tests, and requests made up inside Caddy.
	_ = http.NewResponseController(b.x.w).SetReadDeadline(at)
}

// limit has a pipeline in front, whose body a pipeline behind it reads, wait no longer than that for the client's next byte;
// 0 is as long as it likes. Who calls it holds the mutex of the pipeline behind it.
func (b *requestBody) limit(timeout time.Duration) {
	b.x.mu.Lock()
	defer b.x.mu.Unlock()
	b.within = timeout
	if !b.closed && b.err == nil && time.Now().Before(b.until) {
		b.setDeadline(true) // somebody waits on
	}
}

// deadline returns until when the client must have sent something; zero if nobody waits for it. Who calls it holds x.mu.
func (b *requestBody) deadline() time.Time {
	if b.outer == nil || b.until.IsZero() {
		return b.until
	}
	b.outer.x.mu.Lock()
	defer b.outer.x.mu.Unlock()
	return b.outer.deadline()
}

// earlier returns the earlier of two times, of which zero is none.
func earlier(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}

// shorter returns the shorter of two timeouts, of which 0 is none.
func shorter(a, b time.Duration) time.Duration {
	if a == 0 || b != 0 && b < a {
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
	b.setDeadline(false)
}

// leave is for when the handlers have returned: nobody reads the body any more, but for the server, which looks for the
// end of it so as to use the connection again. It returns why the body couldn't go on.
func (b *requestBody) leave() error {
	b.x.mu.Lock()
	defer b.x.mu.Unlock()
	b.closed = true
	if until := b.deadline(); b.err == nil {
		b.setDeadline(false)
		// Somebody waits for the client. If the deadline has passed for him, the server doesn't find the end either.
		if !until.IsZero() && !time.Now().Before(until) {
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
	until := b.deadline()
	return !until.IsZero() && !time.Now().Before(until)
}

// armRest has the server, which reads some of what is left of a body before it closes the connection, not wait for ever.
// Who calls it holds x.mu.
func (b *requestBody) armRest() {
	if b.closing && b.timeout > 0 && !b.over && !errors.Is(b.err, errStalled) {
		b.setReadDeadline(earlier(time.Now().Add(b.timeout), b.latest))
	}
}
