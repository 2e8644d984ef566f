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
	if a.exitBy.IsZero() {
		return nil
	}
	if waitForSessions(a.exitBy) {
		return nil
	}
	a.logger.Info("ending sessions", zap.Int("sessions", session.Pending()), zap.Duration("shutdown_grace", a.grace))
	// One may have begun since, and one that is being handed over can't be stopped in this moment: look again.
	for until := time.Now().Add(endTime); session.StopAll(session.Shutdown) > 0 || session.Pending() > 0; time.Sleep(exitPoll) {
		if time.Now().After(until) {
			a.logger.Error("sessions have not ended", zap.Int("sessions", session.Pending()))
			return nil
		}
	}
	return nil
}

// waitForSessions returns when no session is left, or at the deadline. It reports whether none is left.
func waitForSessions(deadline time.Time) bool {
	for ; session.Pending() > 0; time.Sleep(exitPoll) {
		if time.Now().After(deadline) {
			return false
		}
	}
	return true
}

// Interface guards
var _ caddyevents.Handler = (*App)(nil)
