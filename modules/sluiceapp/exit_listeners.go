package sluiceapp

import (
	"net"
	"net/netip"
	"reflect"
	"slices"
	"unsafe"

	"github.com/caddyserver/caddy/v2"
	"github.com/mholt/caddy-l4/layer4"
)

// disown takes the listeners of these doors off the app's list, so that it finds none of them left to close.
func disown(app *layer4.App, doors []*door) {
	listeners := listenersOf(app)
	*listeners = slices.DeleteFunc(*listeners, func(ln net.Listener) bool {
		return slices.ContainsFunc(doors, func(d *door) bool { return d.listener == ln })
	})
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
