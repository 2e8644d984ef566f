package listener

import (
	"crypto/tls"
	"encoding/json"
	"net"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"go.uber.org/zap"
)

// behindTLS is what is said of a wrapper that gets what TLS has left: a route for TLS takes no connection there.
const behindTLS = "TLS is ended before this wrapper sees the connection: write `tls` behind `sluice` in listener_wrappers"

// endsTLS reports whether a server ends TLS before a wrapper of ours: it does so in front of all wrappers unless `tls` says
// where. To write `tls` first is an error.
func endsTLS(server *caddyhttp.Server) bool {
	ends := false
	for _, raw := range server.ListenerWrappersRaw {
		var w struct {
			Wrapper string `json:"wrapper"`
		}
		_ = json.Unmarshal(raw, &w) // Caddy says what is wrong
		switch w.Wrapper {
		case "sluice":
			ends = len(server.TLSConnPolicies) > 0
		case "tls":
			ends = false
		}
	}
	return ends
}

// warnOfTLS says, once, that TLS was ended before conn came here.
func (l *listener) warnOfTLS(conn net.Conn) {
	if _, ended := conn.(interface{ ConnectionState() tls.ConnectionState }); ended {
		l.ended.Do(func() { l.logger.Warn(behindTLS, zap.String("address", l.Addr().String())) })
	}
}
