package forward

import (
	"sync"
	"time"
)

// warnEvery is how often it is said that an upstream can't be connected to. While one is down, each client fails: a line
// for each would let anybody fill the log. The access log has them all.
const warnEvery = 10 * time.Second

// outage counts the connects that have failed since the last warning. The zero value is ready.
type outage struct {
	// mu guards the fields below.
	mu     sync.Mutex
	warned time.Time
	failed int
}

// fails notes a failure. It says whether it is time for a warning, and how many failures that is about.
func (o *outage) fails(now time.Time) (failures int, warn bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.failed++
	if !o.warned.IsZero() && now.Sub(o.warned) < warnEvery {
		return o.failed, false
	}
	failures = o.failed
	o.warned, o.failed = now, 0
	return failures, true
}
