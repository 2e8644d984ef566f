// Package linger ends a connection so that its peer sees an end, and reads what it was told before.
package linger

import (
	"io"
	"net"
	"time"
)

// What is read after the end of our stream is bounded twice. That is enough for the rest of a hello and early data that
// are in flight, and too little to be worth holding a connection for.
const (
	// MaxBytes is how many bytes are read.
	MaxBytes = 32 << 10
	// MaxTime is how long all of it may take, last words included.
	MaxTime = time.Second
)

// End writes last, if there is anything, ends the stream to the peer, and reads on a little, at most 32 KiB or a second:
// to close with unread bytes would turn the end into a reset, which could destroy what is on its way. The caller then
// closes conn. It must be the socket itself, or a wrapper that holds no bytes; without CloseWrite nothing is read.
func End(conn net.Conn, last []byte) {
	if conn.SetDeadline(time.Now().Add(MaxTime)) != nil {
		return
	}
	if len(last) > 0 {
		if _, err := conn.Write(last); err != nil {
			return
		}
	}
	if cw, ok := conn.(interface{ CloseWrite() error }); !ok || cw.CloseWrite() != nil {
		return
	}
	_, _ = io.CopyN(io.Discard, conn, MaxBytes)
}
