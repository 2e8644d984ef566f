package sluiceapp

import (
	"net"
	"net/netip"
	"reflect"
	"slices"
	"strings"
	"unsafe"

	"github.com/caddyserver/caddy/v2"
	"github.com/mholt/caddy-l4/layer4"
	"go.uber.org/zap"
)

// disown takes the listeners of these doors off the app's list, so that it finds none of them left to close.
func disown(app *layer4.App, doors []*door) {
	listeners := listenersOf(app)
	*listeners = slices.DeleteFunc(*listeners, func(ln net.Listener) bool {
		return slices.ContainsFunc(doors, func(d *door) bool { return d.listener == ln })
	})
}

// closeListeners closes the listeners that an app has left. It would do so itself, but maybe only after the sessions were
// waited for, and until then new ones would begin.
func closeListeners(app *layer4.App, logger *zap.Logger) {
	listeners := listenersOf(app)
	if listeners == nil {
		return
	}
	for _, ln := range *listeners {
		if err := ln.Close(); err != nil {
			logger.Error("closing listener", zap.Error(err))
		}
	}
	*listeners = nil
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
	var named []*layer4.Server
	for _, server := range app.Servers {
		for _, listen := range server.Listen {
			na, err := caddy.ParseNetworkAddress(caddy.NewReplacer().ReplaceAll(listen, ""))
			if err != nil {
				continue
			}
			switch listensAt(na, at) {
			case yes:
				return server
			case perhaps:
				named = append(named, server)
			}
		}
	}
	// With several names on one port, it is not known which of them has the address.
	if named = slices.Compact(named); len(named) == 1 {
		return named[0]
	}
	return nil
}

// answer says whether something is the case.
type answer int

const (
	no answer = iota
	yes
	// perhaps is for the name of a host, which may have had any address when it was listened on.
	perhaps
)

// listensAt says whether a listener that was opened for na has the address at.
func listensAt(na caddy.NetworkAddress, at netip.AddrPort) answer {
	if !strings.HasPrefix(na.Network, "tcp") || uint(at.Port()) < na.StartPort || uint(at.Port()) > na.EndPort {
		return no
	}
	everywhere := at.Addr().IsUnspecified()
	ip, err := netip.ParseAddr(na.Host)
	switch {
	case na.Host == "" && everywhere, err == nil && ip.Unmap() == at.Addr().Unmap():
		return yes
	case na.Host != "" && err != nil && !everywhere:
		return perhaps
	}
	return no
}
