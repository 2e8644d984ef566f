package pipeline

import (
	"io"
	"net/http"
	"slices"
	"strings"

	"github.com/caddy-sluice/sluice/modules/reserved"
)

// disown removes the headers that filters set from the request, and the trailers: they are for nobody else to send.
func (x *Exchange) disown() {
	if len(x.h.owned) == 0 {
		return
	}
	remove(x.r.Header, x.h.owned)
	disconnect(x.r.Header, x.h.owned)
	if x.r.Trailer == nil || x.r.Body == nil {
		return
	}
	remove(x.r.Trailer, x.h.owned)
	x.r.Body = &disownedBody{x.r.Body, x.r.Trailer, x.h.owned}
}

// disconnect removes names from what `Connection` lists: proxies remove the headers in this list, and so what filters set.
func disconnect(h http.Header, names []string) {
	lists := h["Connection"]
	if len(lists) == 0 {
		return
	}
	var kept []string
	for _, list := range lists {
		for option := range strings.SplitSeq(list, ",") {
			if option = strings.TrimSpace(option); option != "" && !owns(names, option) {
				kept = append(kept, option)
			}
		}
	}
	if delete(h, "Connection"); len(kept) > 0 {
		h["Connection"] = []string{strings.Join(kept, ", ")}
	}
}

// disownedBody is the body of a request with trailers. These come when it ends, also such as weren't announced.
type disownedBody struct {
	io.ReadCloser
	trailer http.Header
	names   []string
}

// Read reads from the body.
func (b *disownedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if err != nil {
		remove(b.trailer, b.names)
	}
	return n, err
}

// remove removes headers, also in the spellings that backends take for theirs.
func remove(h http.Header, names []string) {
	for name := range h {
		if owns(names, name) {
			delete(h, name)
		}
	}
}

// owns reports whether a name of a header is one of these for backends.
func owns(names []string, name string) bool {
	return slices.ContainsFunc(names, func(owned string) bool { return reserved.Same(name, owned) })
}
