package sluiceapp

import (
	"errors"
	"net"
	"sync"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/mholt/caddy-l4/layer4"
	"go.uber.org/zap"

	"github.com/caddy-sluice/sluice/modules/sockets"
)

const (
	// doorLook is how often it is looked whether somebody waits at a door, doorPatience for how long somebody may wait
	// before nobody is thought to be there: a loop that lives accepts in microseconds, and that of a busy machine in
	// milliseconds.
	doorLook     = time.Second
	doorPatience = 200 * time.Millisecond
	doorPoll     = 20 * time.Millisecond
	// settleReload and settleExit are what handshakes that have begun get to end when a door is closed: a round trip in a
	// region, and one around half the world. Meanwhile, those that begin at this door are delayed by a second, which
	// counts for little at an exit and for more at a reload.
	settleReload = 10 * time.Millisecond
	settleExit   = 200 * time.Millisecond
	// acceptPause is the pause after a failed accept, for example at the limit of open files.
	acceptPause = 10 * time.Millisecond
)

// door is a listener of the layer4 app. It is watched: when somebody waits and is not let in, whatever the reason, we
// accept in place of the app.
type door struct {
	listener net.Listener
	// twin is the same socket, which lives on when the app's listener is closed.
	twin    *net.TCPListener
	handler layer4.Handler
	logger  *zap.Logger
	// ours is set once we accept. Then close waits for the goroutine that does.
	ours    bool
	accepts sync.WaitGroup
}

// openDoors returns the doors of an app that has started. Those of which the socket can't be had are not among them.
func openDoors(app *layer4.App, logger *zap.Logger) []*door {
	listeners := listenersOf(app)
	if listeners == nil {
		return nil
	}
	var doors []*door
	for _, ln := range *listeners {
		if d := openDoor(app, ln, logger); d != nil {
			doors = append(doors, d)
		}
	}
	return doors
}

func openDoor(app *layer4.App, ln net.Listener, logger *zap.Logger) *door {
	socket, server := sockets.Of(ln), serverAt(app, ln.Addr())
	if socket == nil || server == nil {
		return nil
	}
	twin, err := sockets.Duplicate(socket)
	if err != nil {
		return nil
	}
	handler := server.Routes.Compile(logger, time.Duration(server.MatchingTimeout), layer4.HandlerFunc(pass))
	return &door{listener: ln, twin: twin, handler: handler, logger: logger}
}

// pass is what stands behind the last route of a layer4 server: nothing.
func pass(*layer4.Connection) error { return nil }

// watchDoors is a goroutine of the app, which stops it and waits for it before the doors are closed.
func (a *App) watchDoors(stop <-chan struct{}, done chan<- struct{}) {
	defer close(done)
	ticker := time.NewTicker(doorLook)
	defer ticker.Stop()
	for {
		select {
		case <-stop:
			return
		case <-ticker.C:
		}
		for _, d := range a.doors {
			if !d.ours && d.isDeserted() {
				d.logger.Warn("layer4 server does not accept connections, accepting them in its place",
					zap.String("listener", d.listener.Addr().String()))
				d.ours = true
				d.accepts.Go(d.accept)
			}
		}
	}
}

// isDeserted says whether there is always somebody who waits at the door. That may be so with a loop that lives but can't
// keep up: then there are two, which does no harm.
func (d *door) isDeserted() bool {
	for waited := time.Duration(0); waited < doorPatience; waited += doorPoll {
		if !sockets.Waiting(d.twin) {
			return false
		}
		time.Sleep(doorPoll)
	}
	return true
}

// accept runs until the door is closed.
func (d *door) accept() {
	for {
		conn, err := d.twin.Accept()
		switch {
		case err == nil:
			go d.handle(conn)
		case errors.Is(err, net.ErrClosed):
			return
		default:
			time.Sleep(acceptPause)
		}
	}
}

// closeDoors closes all doors, at once.
func closeDoors(doors []*door) {
	settle := settleReload
	if caddy.Exiting() {
		settle = settleExit
	}
	var wait sync.WaitGroup
	for _, d := range doors {
		wait.Go(func() { d.close(settle) })
	}
	wait.Wait()
}

// close closes the listener and handles what waits in its queue.
func (d *door) close(settle time.Duration) {
	// The app's loop ends by this, and the queue is all that there is left to look after.
	if err := d.listener.Close(); err != nil {
		d.logger.Error("closing listener", zap.Error(err))
	}
	sockets.Retire(d.twin, settle, d.handle)
	d.accepts.Wait()
}

// handle does with one connection what the layer4 app does.
func (d *door) handle(conn net.Conn) {
	defer conn.Close()
	cx := layer4.WrapConnection(conn, nil, d.logger)
	if err := d.handler.Handle(cx); err != nil {
		d.logger.Error("handling connection", zap.String("remote", cx.RemoteAddr().String()), zap.Error(err))
	}
}
