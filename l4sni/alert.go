package l4sni

import (
	"io"
	"net"
	"time"

	"github.com/caddy-sluice/sluice/internal/preread"
)

const (
	// drainBytes and drainTime bound what is read after an alert. They are enough for the rest of a hello and early
	// data that are in flight, and too little to be worth holding a connection for.
	drainBytes = 32 << 10
	drainTime  = time.Second
)

// Alert is a TLS alert.
type Alert struct {
	Name   string `json:"name"`
	Number byte   `json:"number"`
}

// AlertFor returns the alert for a reason, if it has one.
func AlertFor(r preread.Reason) (Alert, bool) {
	switch r {
	case preread.SNIUnmatched:
		return Alert{"unrecognized_name", 112}, true // RFC 6066 §3
	case preread.ALPNUnmatched:
		return Alert{"no_application_protocol", 120}, true // RFC 7301 §3.2
	}
	return Alert{}, false
}

// sendAlert tells a TLS client why it is refused, so that its user sees a reason. It then ends the stream and reads
// on a little: to close with unread bytes would turn the end into a reset, which could destroy the alert on its way.
func sendAlert(conn net.Conn, reason preread.Reason) {
	alert, ok := AlertFor(reason)
	if !ok || conn.SetDeadline(time.Now().Add(drainTime)) != nil {
		return
	}
	// A fatal alert in a record of its own: type, version, length, level, description (RFC 8446 §5.1, §6).
	if _, err := conn.Write([]byte{21, 3, 3, 0, 2, 2, alert.Number}); err != nil {
		return
	}
	if cw, ok := conn.(interface{ CloseWrite() error }); !ok || cw.CloseWrite() != nil {
		return
	}
	_, _ = io.CopyN(io.Discard, conn, drainBytes)
}
