package pipeline

import (
	"net/http"
	"strconv"
	"strings"

	"github.com/caddy-sluice/sluice/internal/bodypipe"
)

// frame makes the header say of the body what is true after the filters.
func (w *writer) frame(final int64) {
	m := bodypipe.Message{Content: w.content, Declared: w.declared, Change: w.change(), Final: final, Trailers: w.trailers}
	f := bodypipe.Frame(m)
	header := w.Header()
	if !f.Intact {
		forgetDigests(header)
	}
	switch {
	case f.Length < 0:
		delete(header, "Content-Length")
	case f.Length != w.declared:
		header.Set("Content-Length", strconv.FormatInt(f.Length, 10))
	}
}

// change says what the filters do to the body.
func (w *writer) change() bodypipe.Change {
	if !w.piped { // the header of a body that isn't sent
		if w.x.h.plans.response.Terms(w.x.responseSkip()).Writes {
			return bodypipe.MayChange
		}
		return bodypipe.Unchanged
	}
	return changeOf(&w.pipe)
}

// changeOf says what filters do to a body.
func changeOf(p *bodypipe.Pipe) bodypipe.Change {
	switch {
	case p.Changed():
		return bodypipe.Changed
	case p.Ended() || !p.Terms().Writes:
		return bodypipe.Unchanged
	}
	return bodypipe.MayChange
}

// responseHost runs the filters for the body of a response.
type responseHost Exchange

// Filter implements bodypipe.Host.
func (h *responseHost) Filter(place int, c *Chunk) (Action, error) {
	x := (*Exchange)(h)
	i := x.h.responsePlace(place)
	return x.callBody(i, c, x.h.entries[i].responseBody.ResponseBody)
}

// takeTrailers takes the trailers that a header announces out of it.
func takeTrailers(h http.Header) http.Header {
	taken := make(http.Header)
	for _, announced := range h["Trailer"] {
		for name := range strings.SplitSeq(announced, ",") {
			name = http.CanonicalHeaderKey(strings.TrimSpace(name))
			if values, set := h[name]; set {
				taken[name] = values
				delete(h, name)
			}
		}
	}
	return taken
}

// switches reports whether an answer with the status 101 is one to the request.
func switches(request, response http.Header) bool {
	asked, got := request["Upgrade"], response["Upgrade"]
	if len(asked) != 1 || len(got) != 1 || !strings.EqualFold(asked[0], got[0]) {
		return false
	}
	return !strings.EqualFold(got[0], "websocket") || response.Get("Sec-WebSocket-Accept") != ""
}

// tunnels reports whether what follows an answer is a stream of another protocol.
func tunnels(r *http.Request, status int) bool {
	return r.Method == http.MethodConnect && status/100 == 2
}

// contentLength returns the declared length of a response's body, -1 without one.
func contentLength(h http.Header) int64 {
	values := h["Content-Length"]
	if len(values) == 0 {
		return -1
	}
	n, err := strconv.ParseUint(values[0], 10, 63)
	if err != nil {
		return -1
	}
	return int64(n)
}

// hasTrailers reports whether a header announces trailers.
func hasTrailers(h http.Header) bool { return len(h["Trailer"]) > 0 }

// forgetDigests removes what a header says of a body that has been changed, and makes a strong ETag a weak one.
func forgetDigests(h http.Header) {
	for _, name := range []string{"Accept-Ranges", "Content-Md5", "Content-Digest", "Repr-Digest", "Digest"} {
		delete(h, name)
	}
	if tag := h.Get("Etag"); tag != "" && !strings.HasPrefix(tag, "W/") {
		h.Set("Etag", "W/"+tag)
	}
}
