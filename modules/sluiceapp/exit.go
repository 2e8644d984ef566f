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

	"github.com/caddy-sluice/sluice/modules/cluster"
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

// Caddy's events about a config: that all of it has started, and that it is about to stop.
const (
	eventStarted  = "started"
	eventStopping = "stopping"
)

// watchConfig has Caddy tell when all of this config has started, and when it is about to stop. These are the moments
// that are known to lie after the start and before the stop of any app: those happen in random order.
func (a *App) watchConfig(ctx caddy.Context) error {
	app, err := ctx.App("events")
	if err != nil {
		return fmt.Errorf("getting events app: %w", err)
	}
	events := app.(*caddyevents.App)
	return errors.Join(events.On(eventStarted, a), events.On(eventStopping, a))
}

// Start starts the clusters.
func (a *App) Start() error {
	if err := a.findLayer4(); err != nil {
		return err
	}
	return cluster.StartAll(a.clusters)
}

// findLayer4 looks for the layer4 app, which is provisioned by the time of the start.
func (a *App) findLayer4() error {
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

// Handle implements caddyevents.Handler.
func (a *App) Handle(_ context.Context, event caddy.Event) error {
	switch event.Name() {
	case eventStarted:
		a.started()
	case eventStopping:
		a.stopping()
	}
	return nil
}

// started begins to look after the layer4 app's listeners.
func (a *App) started() {
	if a.layer4 == nil {
		return
	}
	if a.doors = openDoors(a.layer4, a.logger); len(a.doors) > 0 {
		a.stopWatch, a.watchDone = make(chan struct{}), make(chan struct{})
		go a.watchDoors(a.stopWatch, a.watchDone)
	}
}

// stopping is called after the next config, if there is one, has started. The layer4 app's listeners are closed here and
// now, with all connections in their queues handled: when it closes them itself, the kernel resets those.
func (a *App) stopping() {
	if caddy.Exiting() {
		a.exitBy = time.Now().Add(a.grace)
	}
	if len(a.doors) > 0 {
		close(a.stopWatch)
		<-a.watchDone
		disown(a.layer4, a.doors)
		closeDoors(a.doors)
	}
	if caddy.Exiting() && a.layer4 != nil {
		closeListeners(a.layer4, a.logger)
	}
}

// Stop stops the clusters. If the process exits it ends the sessions before, which get the rest of the grace to end by
// themselves. A reload leaves them alone: they go on with the handlers that they have.
func (a *App) Stop() error {
	a.endSessions()
	cluster.StopAll(a.clusters)
	return nil
}

// endSessions ends the sessions if the process exits.
func (a *App) endSessions() {
	if a.exitBy.IsZero() || awaitQuiet(a.exitBy, session.Pending) {
		return
	}
	a.logger.Info("ending sessions", zap.Int("sessions", session.Pending()), zap.Duration("shutdown_grace", a.grace))
	stop := func() int { return session.StopAll(session.Shutdown) + session.Pending() }
	if !awaitQuiet(time.Now().Add(endTime), stop) {
		a.logger.Error("sessions have not ended", zap.Int("sessions", session.Pending()))
	}
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
