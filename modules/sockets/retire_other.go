//go:build !linux

package sockets

import (
	"net"
	"time"
)

// Retire closes a socket that another one replaces.
func Retire(socket *net.TCPListener, _ time.Duration, _ func(net.Conn)) { _ = socket.Close() }
