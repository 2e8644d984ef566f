package clusterproxy

import (
	"crypto/sha1" //nolint:gosec // RFC 6455 section 4.2.2 asks for it
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"golang.org/x/net/http/httpguts"
)

// websocket is the one protocol that every client may switch to.
const websocket = "websocket"

// The header fields of a switch to another protocol.
const (
	upgradeHeader    = "Upgrade"
	connectionHeader = "Connection"
)

// websocketGUID is what the answer to a key is made with (RFC 6455 section 1.3).
const websocketGUID = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"

var errUnasked = errors.New("101 Switching Protocols, which wasn't asked for")

// mayUpgrade says whether a client may switch to what it asks for: exactly one protocol, and one that is allowed.
func (h *Handler) mayUpgrade(fields []string) bool {
	if len(fields) != 1 {
		return false
	}
	return strings.EqualFold(fields[0], websocket) ||
		slices.ContainsFunc(h.AllowUpgrade, func(name string) bool { return strings.EqualFold(fields[0], name) })
}

// isForeign says whether a request is to switch to another protocol than WebSocket. Go's transport would send it over a
// pooled connection of HTTP/2 too, which has no such thing; a new connection doesn't offer HTTP/2.
func isForeign(r *http.Request) bool {
	asked := r.Header[upgradeHeader]
	return len(asked) > 0 && !strings.EqualFold(asked[0], websocket)
}

// checkSwitch says whether an answer with the status 101 is one to the request.
func checkSwitch(r *http.Request, res *http.Response) error {
	asked, got := r.Header[upgradeHeader], res.Header[upgradeHeader]
	if len(asked) != 1 || len(got) != 1 || !strings.EqualFold(asked[0], got[0]) {
		return errUnasked
	}
	if !httpguts.HeaderValuesContainsToken(res.Header[connectionHeader], upgradeHeader) {
		return fmt.Errorf("101 Switching Protocols without Connection: %s", upgradeHeader)
	}
	if !strings.EqualFold(got[0], websocket) {
		return nil
	}
	accept := res.Header.Get("Sec-Websocket-Accept")
	if key := field(r.Header, "Sec-WebSocket-Key"); accept == "" || key != "" && accept != acceptOf(key) {
		return errors.New("101 Switching Protocols with a Sec-WebSocket-Accept that doesn't fit")
	}
	return nil
}

// field returns a header field, whichever way Caddy's handler spells its name.
func field(h http.Header, name string) string {
	if values := h[name]; len(values) > 0 {
		return values[0]
	}
	return h.Get(name)
}

// acceptOf returns the answer to a key (RFC 6455 section 4.2.2).
func acceptOf(key string) string {
	sum := sha1.Sum([]byte(key + websocketGUID)) //nolint:gosec // see above
	return base64.StdEncoding.EncodeToString(sum[:])
}
