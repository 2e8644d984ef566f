package l4sni

import (
	"net"

	"github.com/caddy-sluice/sluice/internal/linger"
	"github.com/caddy-sluice/sluice/internal/preread"
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

// sendAlert tells a TLS client why it is refused, so that its user sees a reason, and ends the stream.
func sendAlert(conn net.Conn, reason preread.Reason) {
	alert, ok := AlertFor(reason)
	if !ok {
		return
	}
	// A fatal alert in a record of its own: type, version, length, level, description (RFC 8446 §5.1, §6).
	linger.End(conn, []byte{21, 3, 3, 0, 2, 2, alert.Number})
}
