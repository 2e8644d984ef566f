package validaterequest

import (
	"errors"
	"net/http"
	"slices"
	"strings"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/caddy-sluice/sluice/modules/reserved"
)

// reserve leaves the reserved names with the request, for what passes it on. Those of another such handler stay.
func (h *Handler) reserve(r *http.Request) {
	if len(h.reserved) == 0 {
		return
	}
	names := &h.reserved
	before, _ := caddyhttp.GetVar(r.Context(), reserved.Var).(*reserved.Names)
	if before == names {
		return
	}
	if before != nil {
		both := slices.Concat(*before, *names)
		names = &both
	}
	caddyhttp.SetVar(r.Context(), reserved.Var, names)
}

// strip removes reserved headers from a request, and reserved trailers, announced or there already.
func (h *Handler) strip(r *http.Request) {
	h.reserved.RemoveFrom(r.Header)
	h.reserved.RemoveFrom(r.Trailer)
}

// isBroken says whether an error is that of a request which was refused for breaking a rule.
func isBroken(err error) bool {
	_, ok := errors.AsType[broken](err)
	return ok
}

// inRequest says whether a request has a reserved header, or announces one for its end.
func inRequest(names reserved.Names, r *http.Request) bool {
	return names.In(r.Header) || names.In(r.Trailer)
}

// removeFrom removes reserved headers from an answer, and trailers, announced or not.
func removeFrom(names reserved.Names, header http.Header) {
	for name := range header {
		if names.Has(strings.TrimPrefix(name, http.TrailerPrefix)) {
			delete(header, name)
		}
	}
	if announced := header["Trailer"]; len(announced) > 0 {
		unannounce(names, header, announced)
	}
}

// unannounce removes reserved names from an announcement of trailers.
func unannounce(names reserved.Names, header http.Header, lines []string) {
	var kept []string
	removed := false
	for _, line := range lines {
		for name := range strings.SplitSeq(line, ",") {
			name = strings.TrimSpace(name)
			if names.Has(name) {
				removed = true
			} else {
				kept = append(kept, name)
			}
		}
	}
	switch {
	case !removed:
	case len(kept) == 0:
		delete(header, "Trailer")
	default:
		header["Trailer"] = []string{strings.Join(kept, ", ")}
	}
}
