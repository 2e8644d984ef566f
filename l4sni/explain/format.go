package explain

import (
	"fmt"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// formatText renders answers for people.
func formatText(answers []answer) string {
	var b strings.Builder
	for i, a := range answers {
		if i > 0 {
			b.WriteByte('\n')
		}
		fmt.Fprintf(&b, "%s\n", a.Path)
		line(&b, "listen", strings.Join(a.Listen, ", "))
		line(&b, "if", strings.Join(a.Conditions, "; and "))
		line(&b, "behind", strings.Join(a.Behind, ", "))
		if a.NotReached != "" {
			line(&b, "verdict", "not reached: "+a.NotReached)
			continue
		}
		a.formatHello(&b)
		line(&b, "verdict", a.verdict())
		line(&b, "because", a.Because)
	}
	return b.String()
}

// line writes one line, unless there is nothing to say.
func line(b *strings.Builder, label, text string) {
	if text != "" {
		fmt.Fprintf(b, "  %-8s %s\n", label, text)
	}
}

func (a *answer) formatHello(b *strings.Builder) {
	if a.Hello == nil {
		line(b, "hello", fmt.Sprintf("none in %d bytes", a.Bytes))
		return
	}
	line(b, "hello", fmt.Sprintf("%d bytes, records: %d, versions: %s",
		a.Hello.Size, a.Hello.Records, strings.Join(a.Hello.Versions, ", ")))
	line(b, "name", orNone(a.Hello.ServerName, strconv.QuoteToASCII(a.Hello.ServerName)))
	alpn := strings.Join(a.Hello.ALPN, ",")
	line(b, "alpn", orNone(alpn, alpn))
	if a.Hello.ECH {
		line(b, "ech", "yes")
	}
}

// orNone returns text, or "none" when there is no value.
func orNone(value, text string) string {
	if value == "" {
		return "none"
	}
	return text
}

// verdict says in one line where the connection goes.
func (a *answer) verdict() string {
	handlers := quoteAll(a.Handlers)
	switch a.Action {
	case actionRoute:
		protocol := "any"
		if a.Protocol != "" {
			protocol = a.Protocol
		}
		return fmt.Sprintf("route %d (%s), alpn %s → %s", *a.Route, a.Pattern, protocol, handlers)
	case actionFallback:
		return fmt.Sprintf("rejected: %s → fallback %d → %s", a.Reason, *a.Fallback, handlers)
	case actionHandedOver:
		return fmt.Sprintf("rejected: %s → handed over to Caddy's own sites", a.Reason)
	}
	text := fmt.Sprintf("rejected: %s → closed", a.Reason)
	if a.Alert != nil {
		text += fmt.Sprintf(", with TLS alert %s (%d)", a.Alert.Name, a.Alert.Number)
	}
	return text
}

// escapeJSON writes every character of JSON that is not ASCII as \uXXXX, which means the same: what a client sent
// must not reach a terminal as it is.
func escapeJSON(encoded []byte) []byte {
	var escaped []byte
	for _, r := range string(encoded) {
		switch {
		case r < utf8.RuneSelf && r != 0x7f:
			escaped = append(escaped, byte(r))
		case r > 0xffff:
			high, low := utf16.EncodeRune(r)
			escaped = fmt.Appendf(escaped, `\u%04x\u%04x`, high, low)
		default:
			escaped = fmt.Appendf(escaped, `\u%04x`, r)
		}
	}
	return escaped
}
