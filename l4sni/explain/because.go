package explain

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/caddyserver/caddy/v2"

	"github.com/caddy-sluice/sluice/internal/clienthello"
	"github.com/caddy-sluice/sluice/internal/preread"
	"github.com/caddy-sluice/sluice/internal/snitable"
	"github.com/caddy-sluice/sluice/l4sni"
	"github.com/caddy-sluice/sluice/modules/session"
)

// because says in words why a router decided as it did.
func because(reason preread.Reason, m snitable.Match, r *reading, h *l4sni.Router) string {
	switch reason {
	case preread.None:
		return becausePattern(m.Pattern) + "; " + becauseProtocol(m, h)
	case preread.NotTLS:
		return fmt.Sprintf("the first byte is 0x%02x, not 0x16, that of a TLS handshake record", r.first)
	case preread.MalformedRecord:
		return "a record is longer than TLS allows, or of another type than the handshake"
	case preread.MalformedHandshake:
		return "the message is not a ClientHello, or its fields contradict each other"
	case preread.Fragmented:
		return becauseIncomplete(r)
	case preread.TooLarge:
		return fmt.Sprintf("the hello is not complete after max_bytes, %d", r.cfg.MaxBytes)
	case preread.NoSNI, preread.ECHOuterAbsent:
		return becauseNoName(r)
	case preread.SNIUnmatched:
		return "no pattern covers the name"
	case preread.ALPNUnmatched:
		return becausePattern(m.Pattern) + "; its routes take only " + protocolsOf(h, m.Pattern) +
			", and the client offers " + offered(r)
	case preread.ProxyHeaderInvalid:
		return "the peer must send a PROXY header, and these bytes can't become one"
	}
	return reason.String()
}

// becausePattern says why a pattern decides about the name.
func becausePattern(pattern string) string {
	form := "the name itself and everything below"
	switch {
	case strings.HasPrefix(pattern, "**."):
		form = "one label more, or several"
	case strings.HasPrefix(pattern, "*."):
		form = "exactly one label more"
	case !strings.HasPrefix(pattern, "."):
		return "the name itself is in the table"
	}
	return fmt.Sprintf("%s (%s) is the strongest pattern that covers the name", pattern, form)
}

// becauseProtocol says why, of the routes of a pattern, it is this one.
func becauseProtocol(m snitable.Match, h *l4sni.Router) string {
	if m.Protocol != "" {
		return formatProtocol(m.Protocol) + " is the first protocol in the client's list that a route of the pattern takes"
	}
	others := protocolsOf(h, m.Pattern)
	if others == "" {
		return "the route takes any protocol"
	}
	return "the route takes any protocol, and the client offers none that another route of the pattern takes: " + others
}

// becauseIncomplete says what is missing in a flight.
func becauseIncomplete(r *reading) string {
	text := "the PROXY header is incomplete; the rest of it"
	if r.missing > 0 {
		text = fmt.Sprintf("the hello is incomplete; at least %d more bytes", r.missing)
	}
	text += fmt.Sprintf(" must come within %v of the connection's start (timeout)", r.cfg.Timeout)
	if r.offset+r.read+r.missing > r.cfg.MaxBytes {
		text += fmt.Sprintf("; if they do, it is too_large (max_bytes is %d)", r.cfg.MaxBytes)
	}
	return text
}

// becauseNoName says why there is no name to route by.
func becauseNoName(r *reading) string {
	text := "the hello has no server name"
	if len(r.hello.ServerName) > 0 {
		text = quote(string(r.hello.ServerName)) + " is no name that a host can have, and counts as none"
	}
	if r.hello.ECH {
		text += "; there is an encrypted hello, which only its server can read"
	}
	return text
}

// offered names the client's protocols.
func offered(r *reading) string {
	if len(r.hello.ALPN) == 0 {
		return "none"
	}
	return session.FormatALPN(r.hello.ALPN)
}

// protocolsOf names the protocols that the routes of a pattern take, in the order of the config.
func protocolsOf(h *l4sni.Router, pattern string) string {
	repl := caddy.NewReplacer()
	var protocols []string
	for _, route := range h.Routes {
		if slices.ContainsFunc(route.Names, func(name string) bool {
			normalized, err := snitable.Normalize(repl.ReplaceAll(name, ""))
			return err == nil && normalized == pattern
		}) {
			protocols = append(protocols, route.ALPN...)
		}
	}
	for i, protocol := range protocols {
		protocols[i] = formatProtocol(protocol)
	}
	return strings.Join(protocols, ", ")
}

// formatProtocol renders one protocol as the placeholder {l4.sluice.alpn} does. It has at most 255 bytes.
func formatProtocol(name string) string {
	return session.FormatALPN(append(clienthello.Protocols{byte(len(name))}, name...))
}

// quote returns s as it is if every character of it can be seen for what it is, else with escapes.
func quote(s string) string {
	if quoted := strconv.QuoteToASCII(s); quoted != `"`+s+`"` {
		return quoted
	}
	return s
}

func quoteAll(list []string) string {
	quoted := make([]string, len(list))
	for i, s := range list {
		quoted[i] = quote(s)
	}
	return strings.Join(quoted, ", ")
}
