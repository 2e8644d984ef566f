package sluiceapp

import (
	"net"
	"net/netip"
	"reflect"
	"time"
	"unsafe"

	"github.com/caddyserver/caddy/v2"
	"github.com/mholt/caddy-l4/layer4"
	"go.uber.org/zap"

	"github.com/caddy-sluice/sluice/modules/sockets"
)

// retire closes the listeners of a layer4 app whose sockets can be had, and handles what waits in their queues. The app
// then finds none of them left to close.
func retire(app *layer4.App, logger *zap.Logger) {
	listeners := listenersOf(app)
	if listeners == nil {
		return
	}
	kept := (*listeners)[:0]
	for _, ln := range *listeners {
		if !retireOne(app, ln, logger) {
			kept = append(kept, ln)
		}
	}
	*listeners = kept
}

// retireOne closes one listener and reports whether it did.
func retireOne(app *layer4.App, ln net.Listener, logger *zap.Logger) bool {
	socket := sockets.Of(ln)
	server := serverAt(app, ln.Addr())
	if socket == nil || server == nil {
		return false
	}
	twin, err := sockets.Duplicate(socket)
	if err != nil {
		return false
	}
	// The app's loop ends by this, and the queue is all that there is left to look after.
	if err := ln.Close(); err != nil {
		logger.Error("closing listener", zap.Error(err))
	}
	handler := server.Routes.Compile(logger, time.Duration(server.MatchingTimeout), layer4.HandlerFunc(pass))
	sockets.Retire(twin, func(conn net.Conn) { handle(conn, handler, logger) })
	return true
}

// pass is what stands behind the last route of a layer4 server: nothing.
func pass(*layer4.Connection) error { return nil }

// handle does with one connection what the layer4 app does.
func handle(conn net.Conn, handler layer4.Handler, logger *zap.Logger) {
	defer conn.Close()
	cx := layer4.WrapConnection(conn, nil, logger)
	if err := handler.Handle(cx); err != nil {
		logger.Error("handling connection", zap.String("remote", conn.RemoteAddr().String()), zap.Error(err))
	}
}

// listenersOf returns the list of an app's listeners, which has no name outside of caddy-l4; nil if the list isn't what
// it was in the version that this was written for.
func listenersOf(app *layer4.App) *[]net.Listener {
	field := reflect.ValueOf(app).Elem().FieldByName("listeners")
	if !field.IsValid() || field.Type() != reflect.TypeFor[[]net.Listener]() {
		return nil
	}
	return (*[]net.Listener)(unsafe.Pointer(field.UnsafeAddr())) //nolint:gosec // the type was checked
}

// serverAt returns the server that listens on an address; nil if that can't be told.
func serverAt(app *layer4.App, addr net.Addr) *layer4.Server {
	tcp, ok := addr.(*net.TCPAddr)
	if !ok {
		return nil
	}
	at := tcp.AddrPort()
	for _, server := range app.Servers {
		for _, listen := range server.Listen {
			na, err := caddy.ParseNetworkAddress(caddy.NewReplacer().ReplaceAll(listen, ""))
			if err == nil && listensAt(na, at) {
				return server
			}
		}
	}
	return nil
}

// listensAt says whether a listener that was opened for na has the address at.
func listensAt(na caddy.NetworkAddress, at netip.AddrPort) bool {
	if uint(at.Port()) < na.StartPort || uint(at.Port()) > na.EndPort {
		return false
	}
	if na.Host == "" {
		return at.Addr().IsUnspecified()
	}
	ip, err := netip.ParseAddr(na.Host)
	return err != nil && !at.Addr().IsUnspecified() || err == nil && ip.Unmap() == at.Addr().Unmap()
}
