//go:build !linux

package sockopt

import (
	"net"
	"time"
)

// setUserTimeout does nothing: the option is Linux's.
func setUserTimeout(net.Conn, time.Duration) error { return nil }

// SinceLastByte returns how long ago the last byte arrived. It reports false, since only Linux tells.
func SinceLastByte(net.Conn) (time.Duration, bool) { return 0, false }

// Acked returns how many bytes the other end has acknowledged. It reports false, since only Linux tells.
func Acked(net.Conn) (int64, bool) { return 0, false }

// Ended reports whether the other end has ended the stream. It reports false, since only Linux is asked.
func Ended(net.Conn) bool { return false }
