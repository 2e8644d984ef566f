package pipeline

import (
	"net/http"
	"strconv"
	"strings"

	"github.com/caddy-sluice/sluice/internal/bodypipe"
)

// frame makes the header say of the body what is true after the filters.
func (w *writer) frame(final int64) {
	w.trailers = w.trailers || hasTrailers(w.Header()) // a body that was held back has them by now
	m := bodypipe.Message{Content: w.content, Declared: w.declared, Change: w.change(), Final: final, Trailers: w.trailers}
	f := bodypipe.Frame(m)
	header := w.Header()
	if w.altered = !f.Intact; w.altered {
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

// requestHost runs the filters for the body of a request.
type requestHost Exchange

// Filter implements bodypipe.Host.
func (h *requestHost) Filter(i int, c *Chunk) (Action, error) {
	x := (*Exchange)(h)
	if x.jumped.Has(i) && !x.ran.Has(i) {
		return Done, nil // a branch has passed it over
	}
	x.ran |= bit(i)
	return x.callBody(i, c, x.h.entries[i].requestBody.RequestBody)
}

// responseHost runs the filters for the body of a response.
type responseHost Exchange

// Filter implements bodypipe.Host.
func (h *responseHost) Filter(place int, c *Chunk) (Action, error) {
	x := (*Exchange)(h)
	i := x.h.responsePlace(place)
	defer x.unshield(x.shieldRead())
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

// forgetTrailers removes what trailers say of a body that has been changed. The header is out.
func forgetTrailers(h http.Header) {
	for _, name := range digestHeaders {
		delete(h, name)
		delete(h, http.TrailerPrefix+name)
	}
}

// switches reports whether an answer with the status 101 is one to the request: both must name the protocol, and that this
// is for the next hop (RFC 9110, section 7.8).
func switches(request, response http.Header) bool {
	if !lists(request["Connection"], "upgrade") || !lists(response["Connection"], "upgrade") {
		return false
	}
	asked, got := request["Upgrade"], response["Upgrade"]
	if len(asked) != 1 || len(got) != 1 || !strings.EqualFold(asked[0], got[0]) {
		return false
	}
	return !strings.EqualFold(got[0], "websocket") || accepts(response)
}

// lists reports whether a header has an option in one of its lists.
func lists(values []string, option string) bool {
	for _, list := range values {
		for name := range strings.SplitSeq(list, ",") {
			if strings.EqualFold(strings.TrimSpace(name), option) {
				return true
			}
		}
	}
	return false
}

// accepts reports whether an answer takes up a WebSocket. Caddy's reverse proxy writes the names of these headers as
// RFC 6455 does, so that they aren't where Go looks for them.
func accepts(h http.Header) bool {
	for name, values := range h {
		if len(values) > 0 && values[0] != "" && strings.EqualFold(name, "Sec-WebSocket-Accept") {
			return true
		}
	}
	return false
}

// isTunnel reports whether the body of a request is a stream of another protocol (RFC 8441, RFC 9220): HTTP/2 has the
// protocol as a header, HTTP/3 in the place of its own name.
func isTunnel(r *http.Request) bool {
	if r.Method != http.MethodConnect {
		return false
	}
	return r.ProtoMajor == 2 && len(r.Header[":protocol"]) > 0 || r.ProtoMajor == 3 && !strings.HasPrefix(r.Proto, "HTTP/")
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

// hasTrailers reports whether a header announces trailers, or has some that weren't announced.
func hasTrailers(h http.Header) bool {
	if len(h["Trailer"]) > 0 {
		return true
	}
	for name := range h {
		if strings.HasPrefix(name, http.TrailerPrefix) {
			return true
		}
	}
	return false
}

// forgetDigests removes what a header says of a body that has been changed, and makes a strong ETag a weak one.
func forgetDigests(h http.Header) {
	delete(h, "Accept-Ranges")
	for _, name := range digestHeaders {
		delete(h, name)
	}
	if tag := h.Get("Etag"); tag != "" && !strings.HasPrefix(tag, "W/") {
		h.Set("Etag", "W/"+tag)
	}
}
