package validaterequest

import (
	"bytes"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
)

// countedDown is the name of the variable of a request that says that it was counted down here.
const countedDown = "sluice.max_forwards"

// lastHop says whether a request for TRACE or OPTIONS is to be answered here, and counts it down if not (RFC 9110
// §7.6.2), once for all such handlers: they are one hop. A value that is no number is left alone.
func lastHop(r *http.Request) bool {
	if r.Method != http.MethodTrace && r.Method != http.MethodOptions {
		return false
	}
	values := r.Header["Max-Forwards"]
	if len(values) != 1 || caddyhttp.GetVar(r.Context(), countedDown) != nil {
		return false
	}
	left, err := strconv.ParseUint(strings.Trim(values[0], " \t"), 10, 64)
	if err != nil {
		return false
	}
	if left == 0 {
		return true
	}
	r.Header["Max-Forwards"] = []string{strconv.FormatUint(left-1, 10)}
	caddyhttp.SetVar(r.Context(), countedDown, true)
	return false
}

// answer answers a request that goes no further.
func answer(w http.ResponseWriter, r *http.Request) error {
	var body []byte
	if r.Method == http.MethodTrace {
		w.Header().Set("Content-Type", "message/http")
		body = echo(r)
	}
	w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	w.WriteHeader(http.StatusOK)
	_, err := w.Write(body)
	return err
}

// echo returns a request as it came, as far as it may be seen (RFC 9110 §9.3.8).
func echo(r *http.Request) []byte {
	var b bytes.Buffer
	b.WriteString(r.Method + " " + r.RequestURI + " " + r.Proto + "\r\n")
	if r.Host != "" {
		b.WriteString("Host: " + r.Host + "\r\n")
	}
	for _, name := range slices.Sorted(maps.Keys(r.Header)) {
		if isSecret(name) {
			continue
		}
		for _, value := range r.Header[name] {
			if !utf8.ValidString(value) {
				value = "[binary]"
			}
			b.WriteString(name + ": " + value + "\r\n")
		}
	}
	b.WriteString("\r\n")
	return b.Bytes()
}

// secretWords are in the names of headers by which clients prove who they are: Authorization, Cookie, X-Api-Key,
// X-Csrf-Token and so on. A header too many that is left out of an echo does no harm.
var secretWords = []string{"auth", "cookie", "token", "secret", "key", "session", "password", "credential", "signature", "cert", "csrf", "xsrf", "jwt"}

// isSecret says whether a header is left out of an echo.
func isSecret(name string) bool {
	name = strings.ToLower(name)
	return slices.ContainsFunc(secretWords, func(word string) bool { return strings.Contains(name, word) })
}
