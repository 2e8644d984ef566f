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

// alerts are the TLS alert descriptions for the reasons that have one.
var alerts = map[preread.Reason]byte{
	preread.SNIUnmatched:  112, // unrecognized_name, RFC 6066 §3
	preread.ALPNUnmatched: 120, // no_application_protocol, RFC 7301 §3.2
}

// sendAlert tells a TLS client why it is refused, so that its user sees a reason. It then ends the stream and reads
// on a little: to close with unread bytes would turn the end into a reset, which could destroy the alert on its way.
func sendAlert(conn net.Conn, reason preread.Reason) {
	description, ok := alerts[reason]
	if !ok || conn.SetDeadline(time.Now().Add(drainTime)) != nil {
		return
	}
	// A fatal alert in a record of its own: type, version, length, level, description (RFC 8446 §5.1, §6).
	if _, err := conn.Write([]byte{21, 3, 3, 0, 2, 2, description}); err != nil {
		return
	}
	if cw, ok := conn.(interface{ CloseWrite() error }); !ok || cw.CloseWrite() != nil {
		return
	}
	_, _ = io.CopyN(io.Discard, conn, drainBytes)
}
