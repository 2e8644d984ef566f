//go:build !linux

package sockets

import "net"

// Retire closes a socket that another one replaces.
func Retire(socket *net.TCPListener, _ func(net.Conn)) { _ = socket.Close() }
