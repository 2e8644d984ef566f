package listener

import (
	"net"
	"reflect"

	"github.com/caddyserver/caddy/v2"
)

// caddyPkg is the package of Caddy's own listener types.
var caddyPkg = reflect.TypeFor[caddy.Config]().PkgPath()

// socketOf returns the TCP socket of a listener that Caddy made: a struct of its own around it, without a method that
// gives it out. It returns nil for any other listener, for example one of another listener wrapper, whose work must
// not be skipped.
func socketOf(ln net.Listener) *net.TCPListener {
	v := reflect.Indirect(reflect.ValueOf(ln))
	if v.Kind() != reflect.Struct || v.Type().PkgPath() != caddyPkg {
		return nil
	}
	field := v.FieldByName("Listener")
	if !field.IsValid() || !field.CanInterface() {
		return nil
	}
	socket, _ := reflect.TypeAssert[*net.TCPListener](field)
	return socket
}

// duplicate returns another listener on the same socket, which lives on when the first is closed.
func duplicate(socket *net.TCPListener) (*net.TCPListener, error) {
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
