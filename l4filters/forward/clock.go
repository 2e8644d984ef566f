package forward

import (
	"net"
	"sync"
	"time"

	"github.com/caddy-sluice/sluice/internal/lifetime"
	"github.com/caddy-sluice/sluice/internal/relay"
	"github.com/caddy-sluice/sluice/internal/sockopt"
)

// clock stops a relay when one of its limits has passed. It has one timer, whose function asks for the time of the next
// look and sets it again; in between there is no goroutine.
type clock struct {
	relay *relay.Relay

	// mu guards the fields below.
	mu      sync.Mutex
	watch   lifetime.Watch
	timer   *time.Timer
	over    bool
	expired lifetime.Expiry
}

// begin starts the limits.
func (c *clock) begin(r *relay.Relay, limits lifetime.Limits) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.relay = r
	now := time.Now()
	c.watch.Start(limits, now)
	// Most connections are over before there is a need to ask the kernel.
	c.plan(now, lifetime.Activity{Age: -1})
}

// tick is the timer's function. end waits for it.
func (c *clock) tick() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.look()
}

// halfClosed starts the limit that begins when one side has finished. The relay calls it.
func (c *clock) halfClosed() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.watch.HalfClosed(time.Now())
	c.look()
}

// end stops the clock and says which limit it has stopped the relay for, if it has.
func (c *clock) end() lifetime.Expiry {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.over = true
	if c.timer != nil {
		c.timer.Stop()
	}
	return c.expired
}

// look finds out whether a limit has passed. The caller holds mu.
func (c *clock) look() {
	if c.over || c.expired != lifetime.None {
		return
	}
	now := time.Now()
	var a lifetime.Activity
	if c.watch.NeedsActivity(now) {
		a = lifetime.Activity{Age: age(c.relay), Moved: c.relay.Sent() + c.relay.Received()}
	}
	c.plan(now, a)
}

// plan stops the relay or sets the timer for the next look. The caller holds mu.
func (c *clock) plan(now time.Time, a lifetime.Activity) {
	expired, wait := c.watch.Next(now, a)
	switch {
	case expired != lifetime.None:
		c.expired = expired
		c.relay.Stop()
	case wait <= 0:
	case c.timer == nil:
		c.timer = time.AfterFunc(wait, c.tick)
	default:
		c.timer.Reset(wait)
	}
}

// age returns how long ago the last byte arrived from either side; -1 if one of them isn't known.
func age(r *relay.Relay) time.Duration {
	age := time.Duration(-1)
	for i, conn := range [...]net.Conn{r.ClientSocket, r.Backend} {
		since, known := sockopt.SinceLastByte(conn)
		if !known {
			return -1
		}
		if i == 0 || since < age {
			age = since
		}
	}
	return age
}
