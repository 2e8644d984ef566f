//go:build !linux

package listener

import "net"

// retire closes a socket that another one replaces.
func retire(socket *net.TCPListener, _ func(net.Conn)) { _ = socket.Close() }
