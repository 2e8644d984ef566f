// Package sockets gets at the sockets beneath Caddy's listeners, so that one can be closed without losing a connection.
package sockets

import (
	"net"
	"reflect"
	"strings"

	"github.com/caddyserver/caddy/v2"
)

// caddyPkg is the package of Caddy's own listener types.
var caddyPkg = reflect.TypeFor[caddy.Config]().PkgPath()

// Of returns the TCP socket of a listener that Caddy made: a struct of its own around it, without a method that
// gives it out. It returns nil for any other listener, for example one of another listener wrapper, whose work must
// not be skipped; and for a socket that Caddy was given (fd/), since others may be listening on it: what waits in its queue
// may be for them, and it is not ours to close.
func Of(ln net.Listener) *net.TCPListener {
	v := reflect.Indirect(reflect.ValueOf(ln))
	if v.Kind() != reflect.Struct || v.Type().PkgPath() != caddyPkg {
		return nil
	}
	if key := v.FieldByName("lnKey"); key.Kind() != reflect.String || strings.HasPrefix(key.String(), "fd") {
		return nil
	}
	field := v.FieldByName("Listener")
	if !field.IsValid() || !field.CanInterface() {
		return nil
	}
	socket, _ := reflect.TypeAssert[*net.TCPListener](field)
	return socket
}

// Duplicate returns another listener on the same socket, which lives on when the first is closed.
func Duplicate(socket *net.TCPListener) (*net.TCPListener, error) {
	file, err := socket.File()
	if err != nil {
		return nil, err
	}
	defer file.Close()
	twin, err := net.FileListener(file)
	if err != nil {
		return nil, err
	}
	return twin.(*net.TCPListener), nil
}
