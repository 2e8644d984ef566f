// Package sockopt sets and reads what the kernel knows about a TCP connection: keepalive, the user timeout, when
// the last byte arrived, how many were acknowledged, and whether there will be more. It finds the socket below wrappers
// that show what they wrap (NetConn).
package sockopt

import (
	"net"
	"time"
)

// KeepAlive says when a connection counts as dead. The zero value changes nothing.
type KeepAlive struct {
	// Interval is the time without traffic before the first probe, and the time between probes. After nine probes
	// without an answer the connection is dead. It is rounded up to a second. 0: leave as is. Negative: no probes.
	Interval time.Duration
	// UserTimeout is how long data that was sent, or a probe, may stay unacknowledged (TCP_USER_TIMEOUT, RFC 5482). It
	// is rounded up to a millisecond. 0 or less: leave as is. Linux only, no effect elsewhere.
	UserTimeout time.Duration
}

// probed is a connection that has keepalive probes: *net.TCPConn.
type probed interface {
	SetKeepAliveConfig(config net.KeepAliveConfig) error
}

// Apply sets the options on the TCP socket at the bottom of conn. There is nothing to do if there is none.
func (k KeepAlive) Apply(conn net.Conn) error {
	if k.Interval != 0 {
		if socket, ok := find[probed](conn); ok {
			if err := socket.SetKeepAliveConfig(k.config()); err != nil {
				return err
			}
		}
	}
	if k.UserTimeout > 0 {
		return setUserTimeout(conn, k.UserTimeout)
	}
	return nil
}

// config returns the interval in the words of package net, where -1 leaves a value as it is.
func (k KeepAlive) config() net.KeepAliveConfig {
	if k.Interval < 0 {
		return net.KeepAliveConfig{Idle: -1, Interval: -1, Count: -1}
	}
	return net.KeepAliveConfig{Enable: true, Idle: k.Interval, Interval: k.Interval}
}

// find returns the first connection that is a T, from conn down.
func find[T any](conn net.Conn) (found T, ok bool) {
	for conn != nil {
		if found, ok = conn.(T); ok {
			return found, true
		}
		wrapper, wraps := conn.(interface{ NetConn() net.Conn })
		if !wraps {
			break
		}
		conn = wrapper.NetConn()
	}
	return found, false
}
