package sluiceapp

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyevents"
	"github.com/mholt/caddy-l4/layer4"
	"go.uber.org/zap"

	"github.com/caddy-sluice/sluice/modules/session"
)

const (
	// endTime is what the handlers of sessions that are ended get to return. They have nothing to wait for but a
	// farewell to the client, of a second at most.
	endTime = 3 * time.Second
	// exitPoll is how often it is looked whether sessions are left. It is the longest that an exit is held up for
	// nothing.
	exitPoll = 10 * time.Millisecond
	// quietTime is how long there must have been no session before an exit: a connection that was just accepted takes a
	// moment to become one, and a socket whose session has ended takes one to be closed.
	quietTime = 200 * time.Millisecond
)

// watchStop has Caddy tell when this config is about to stop. It is the one moment that is known to lie before the stop
// of any app: those follow in random order.
func (a *App) watchStop(ctx caddy.Context) error {
	events, err := ctx.App("events")
	if err != nil {
		return fmt.Errorf("getting events app: %w", err)
	}
	return events.(*caddyevents.App).On("stopping", a)
}

// Start looks for the layer4 app, which is provisioned by now.
func (a *App) Start() error {
	app, err := a.ctx.AppIfConfigured("layer4")
	if errors.Is(err, caddy.ErrNotConfigured) {
		return nil
	}
	if err != nil {
		return err
	}
	a.layer4 = app.(*layer4.App)
	return nil
}

// Handle implements caddyevents.Handler for the event that the config is about to stop, which is after the next one
// has started. The layer4 app's listeners are closed here and now, with all connections in their queues handled: when
// it closes them itself, the kernel resets those.
func (a *App) Handle(context.Context, caddy.Event) error {
	if a.layer4 != nil {
		retire(a.layer4, a.logger)
	}
	if caddy.Exiting() {
		a.exitBy = time.Now().Add(a.grace)
	}
	return nil
}

// Stop ends the sessions if the process exits. They get the rest of the grace to end by themselves. A reload leaves them
// alone: they go on with the handlers that they have.
func (a *App) Stop() error {
	if a.exitBy.IsZero() || awaitQuiet(a.exitBy, session.Pending) {
		return nil
	}
	a.logger.Info("ending sessions", zap.Int("sessions", session.Pending()), zap.Duration("shutdown_grace", a.grace))
	stop := func() int { return session.StopAll(session.Shutdown) + session.Pending() }
	if !awaitQuiet(time.Now().Add(endTime), stop) {
		a.logger.Error("sessions have not ended", zap.Int("sessions", session.Pending()))
	}
	return nil
}

// awaitQuiet returns when count has been zero for a while, or at the deadline. It reports whether it is zero.
func awaitQuiet(deadline time.Time, count func() int) bool {
	for since := time.Now(); ; time.Sleep(exitPoll) {
		now := time.Now()
		switch {
		case count() > 0:
			since = now
			if now.After(deadline) {
				return false
			}
		case now.Sub(since) >= quietTime:
			return true
		}
	}
}

// Interface guards
var _ caddyevents.Handler = (*App)(nil)
