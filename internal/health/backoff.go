package health

import (
	"math/bits"
	"time"
)

// Backoff says how long to wait before a retry: at random between nothing and an upper bound that doubles each time
// ("full jitter"). The zero value waits for nothing.
type Backoff struct {
	// Base is the upper bound before the first retry, Cap the largest one.
	Base, Cap time.Duration
}

// Upper returns the upper bound before the k-th retry; k is 1 or more.
func (b Backoff) Upper(k int) time.Duration {
	// A shift that loses bits doesn't give the value back. From 63 on the sign alone would be left.
	shift := max(k-1, 0)
	if shift >= 63 || b.Base<<shift>>shift != b.Base {
		return b.Cap
	}
	return min(b.Base<<shift, b.Cap)
}

// Delay returns how long to wait before the k-th retry: at least 1 ns and less than Upper(k), uniformly, as random is.
func (b Backoff) Delay(k int, random uint64) time.Duration {
	upper := b.Upper(k)
	if upper <= 0 {
		return 0
	}
	part, _ := bits.Mul64(random, uint64(upper))
	return max(time.Duration(part), 1)
}

// Timeouts are the limits on the time that a request takes. 0 or less means that there is none.
type Timeouts struct {
	// PerTry limits one attempt, from its begin to the first byte of the answer.
	PerTry time.Duration
	// Request limits the whole request, its retries and the waits between them included.
	Request time.Duration
}

// Expiry is the timeout that ends an attempt.
type Expiry uint8

const (
	// Never means that nothing does.
	Never Expiry = iota
	// ByTry means Timeouts.PerTry: the attempt has failed with Timeout, and may be retried.
	ByTry
	// ByRequest means Timeouts.Request: the attempt is Aborted, and it was the last one.
	ByRequest
)

// Attempt returns when an attempt that begins at now ends, and by which timeout, in a request that began at start. An
// attempt that can't be repeated has no PerTry: to stop it would help nobody. If both timeouts end it at the same time, it
// is the whole request's, which says nothing about the endpoint. A request whose begin isn't known, because no timeout
// was configured then, has none.
func (t Timeouts) Attempt(start, now time.Time, repeatable bool) (at time.Time, by Expiry) {
	if t.Request > 0 && !start.IsZero() {
		at, by = start.Add(t.Request), ByRequest
	}
	if try := now.Add(t.PerTry); t.PerTry > 0 && repeatable && (by == Never || try.Before(at)) {
		at, by = try, ByTry
	}
	return at, by
}

// Leaves says whether there is time left for an attempt that begins at now, in a request that began at start.
func (t Timeouts) Leaves(start, now time.Time) bool {
	return t.Request <= 0 || start.IsZero() || now.Before(start.Add(t.Request))
}
