package pipeline

import (
	"io"
	"net/http"
	"slices"

	"github.com/caddy-sluice/sluice/modules/reserved"
)

// disown removes the headers that filters set from the request, and the trailers: they are for nobody else to send.
func (x *Exchange) disown() {
	if len(x.h.owned) == 0 {
		return
	}
	remove(x.r.Header, x.h.owned)
	if x.r.Trailer == nil || x.r.Body == nil {
		return
	}
	remove(x.r.Trailer, x.h.owned)
	x.r.Body = &disownedBody{x.r.Body, x.r.Trailer, x.h.owned}
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
		if slices.ContainsFunc(names, func(owned string) bool { return reserved.Same(name, owned) }) {
			delete(h, name)
		}
	}
}
