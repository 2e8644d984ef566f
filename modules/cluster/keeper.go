package cluster

import (
	"context"
	"time"

	"go.uber.org/zap"

	"github.com/caddy-sluice/sluice/internal/health"
)

// The events that the cluster emits through Caddy's events app.
const (
	eventUp      = "cluster.endpoint.up"
	eventDown    = "cluster.endpoint.down"
	eventEjected = "cluster.endpoint.ejected"
	eventPanic   = "cluster.panic"
)

// keep tells the operator what has changed, and ends what goes on at unhealthy endpoints. It looks when it is woken, and
// when time alone changes something.
func (c *Cluster) keep(ctx context.Context) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	c.state.news.begin()
	defer c.state.news.end()
	c.announce()
	c.watchAll(time.Now())
	if c.set.checker == nil {
		c.state.forgetDue()
	}
	var events []health.Event
	for {
		select {
		case <-ctx.Done():
			return
		case <-c.state.wake:
		case <-timer.C:
		}
		timer.Stop()
		var until time.Time
		if until, events = c.look(events); !until.IsZero() {
			timer.Reset(max(time.Until(until), time.Millisecond))
		}
	}
}

// look tells about all that has changed by now, and returns when time alone changes something next; zero if it doesn't. It
// uses the memory of buf, and returns it.
func (c *Cluster) look(buf []health.Event) (until time.Time, _ []health.Event) {
	h := c.state.health
	for {
		now := time.Now()
		h.View(now) // makes the events of what has changed by time alone
		buf = c.tellAll(buf)
		// This comes after the events were taken: whatever changes later makes one, and wakes the keeper.
		roster, view := c.state.look(now)
		if until = view.Until(); !h.EventsReady() {
			c.tellLasting(view.Stance())
			c.tellTier(roster.serving(view))
			return until, buf
		}
	}
}

// tellLasting tells of a stance of which no event has told: a cluster that is empty from the start doesn't change.
func (c *Cluster) tellLasting(stance health.Stance) {
	if stance != health.Normal && !c.state.lacking {
		c.tellStance(stance, stance)
	}
}

// tellAll tells about all that has changed. It uses the memory of buf, and returns it.
func (c *Cluster) tellAll(buf []health.Event) []health.Event {
	buf = c.state.health.Events(buf[:0])
	for i := range buf {
		c.tell(&buf[i])
	}
	return buf
}

// tell tells about one change.
func (c *Cluster) tell(event *health.Event) {
	if event.Key == "" {
		c.tellStance(event.Stances[0], event.Stances[1])
		return
	}
	c.state.mu.Lock()
	e := c.state.endpoints[event.Key]
	c.state.mu.Unlock()
	if e == nil {
		return
	}
	before, after := event.Reasons[0], event.Reasons[1]
	name := ""
	switch {
	case after == health.Ejected:
		name = eventEjected
	case before.Available() && !after.Available():
		name = eventDown
	case !before.Available() && after.Available():
		name = eventUp
	}
	c.state.watch(c, e, after)
	c.log(e, before, after)
	if name != "" {
		c.announce(notice{e.text, name, map[string]any{
			"cluster": c.name, "endpoint": e.text, "reason": after.String(), "before": before.String(), "cause": e.cause(after),
		}})
	}
}

// log writes a line about an endpoint. Only what was available and isn't any more is a warning. An end that was expected,
// that of a slow start, is for those who debug.
func (c *Cluster) log(e *Endpoint, before, after health.Reason) {
	fields := []zap.Field{zap.String("endpoint", e.text), zap.Stringer("state", after), zap.Stringer("before", before)}
	if cause := e.cause(after); cause != "" {
		fields = append(fields, zap.String("cause", cause))
	}
	switch {
	case after == health.Drained, after == health.TurnedOff:
		c.logger.Info("endpoint taken out by hand", fields...)
	case !after.Available() && !before.Available(): // such as the rest of an ejection, after a check that has passed
		c.logger.Info("endpoint is still not available", fields...)
	case !after.Available():
		c.logger.Warn("endpoint is not available", fields...)
	case !before.Available():
		c.logger.Info("endpoint is available", fields...)
	default:
		c.logger.Debug("endpoint has changed", fields...)
	}
}

// tellStance tells how the cluster takes the number of endpoints by now.
func (c *Cluster) tellStance(before, after health.Stance) {
	fields := []zap.Field{zap.Stringer("stance", after)}
	if before != after {
		fields = append(fields, zap.Stringer("before", before))
	}
	switch after {
	case health.FailOpen:
		c.logger.Error("too few endpoints are available: using all, whatever is known about their health", fields...)
	case health.Refusing:
		c.logger.Error("too few endpoints are available: refusing", fields...)
	case health.Empty:
		// Somebody wants it so, or discovery has told why.
		why := "all were taken out by hand"
		if len(c.state.roster.Load().endpoints) == 0 {
			why = "there is none"
		}
		c.logger.Warn("no endpoint can be used: "+why, fields...)
	default:
		// At the first start there were no endpoints before, and nobody was told.
		if c.state.lacking {
			c.logger.Info("enough endpoints are available", fields...)
		}
	}
	c.state.lacking = after != health.Normal
	if c.state.lacking {
		c.announce(notice{"", eventPanic, map[string]any{"cluster": c.name, "stance": after.String(), "before": before.String()}})
	}
}
