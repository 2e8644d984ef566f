package clusterproxy

import (
	"net/http"
	"strings"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"golang.org/x/net/http/httpguts"

	"github.com/caddy-sluice/sluice/modules/reserved"
)

// headerOf returns what goes out in the place of a request's header, or nil if it may stay as it is: a switch to another
// protocol must be allowed, what `validate_request` reserves stays here, and a client can't have removed what Caddy's
// handler adds to.
func (h *Handler) headerOf(r *http.Request) http.Header {
	strip := len(r.Header[upgradeHeader]) > 0 && !h.mayUpgrade(r.Header[upgradeHeader])
	names := reservedIn(r)
	held := names.In(r.Header)
	nominated := nominatesOurs(r.Header[connectionHeader])
	if !strip && !held && !nominated {
		return nil
	}
	header := r.Header.Clone()
	if strip { // without it, Caddy's handler drops the Connection token too
		delete(header, upgradeHeader)
	}
	if held {
		names.RemoveFrom(header)
	}
	if nominated {
		header[connectionHeader] = withoutOurs(header[connectionHeader])
	}
	return header
}

// reservedIn returns the names that are reserved in a request.
func reservedIn(r *http.Request) reserved.Names {
	if names, ok := caddyhttp.GetVar(r.Context(), reserved.Var).(*reserved.Names); ok {
		return *names
	}
	return nil
}

// tidyTrailer removes from a trailer what belongs into a header (RFC 9110 section 6.5.1), and reserved names. Those that a
// client has announced are looked at before; it can send others.
func tidyTrailer(trailer http.Header, names reserved.Names) {
	for name := range trailer {
		if !httpguts.ValidTrailerHeader(name) || names.Has(name) {
			delete(trailer, name)
		}
	}
}

// forwardedPrefix is what the names of headers begin with that say what a proxy was asked.
const forwardedPrefix = "X-Forwarded-"

// isOurs says whether a header belongs to the proxies on the way, so that a client has no say in it by nominating it in
// Connection (RFC 9110 section 7.6.1 allows that for what is for one recipient only).
func isOurs(name string) bool {
	return strings.EqualFold(name, "Via") || strings.EqualFold(name, "Forwarded") ||
		len(name) > len(forwardedPrefix) && strings.EqualFold(name[:len(forwardedPrefix)], forwardedPrefix)
}

// nominatesOurs says whether Connection names a header that is ours.
func nominatesOurs(fields []string) bool {
	for _, field := range fields {
		for token := range strings.SplitSeq(field, ",") {
			if isOurs(strings.Trim(token, " \t")) {
				return true
			}
		}
	}
	return false
}

// withoutOurs returns Connection without the headers that are ours.
func withoutOurs(fields []string) []string {
	var kept []string
	for _, field := range fields {
		for token := range strings.SplitSeq(field, ",") {
			if token = strings.Trim(token, " \t"); !isOurs(token) {
				kept = append(kept, token)
			}
		}
	}
	return kept
}
