package pipeline

import (
	"errors"
	"maps"
	"net/http"
	"slices"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/caddy-sluice/sluice/internal/bodypipe"
	"github.com/caddy-sluice/sluice/modules/refusal"
)

var (
	// errRefused is what a handler gets that writes to a response which filters have refused, so that it stops.
	errRefused = errors.New("the response was refused")
	// errUnasked is a response with the status 101 to a request that didn't ask for it.
	errUnasked = &invalid{errors.New("101 Switching Protocols, which wasn't asked for")}
	// errShort is a response that ends before its declared length.
	errShort = &invalid{errors.New("the response ended before its declared length")}
)

// stage is how far a response has come.
type stage uint8

const (
	// fresh is that no final header has come.
	fresh stage = iota
	// held is that the header waits for a body that is held back.
	held
	// out is that the header has gone out.
	out
	// tunnel is that the connection speaks another protocol, or is somebody else's.
	tunnel
	// failed is that an error has ended the response. Whether the header is out says headerOut.
	failed
	// dead is that the request is over.
	dead
)

// writer passes a response by the filters on its way to the client.
type writer struct {
	caddyhttp.ResponseWriterWrapper
	x *Exchange
	// watching says that the writer is in use.
	watching bool
	stage    stage
	// headerOut says that the client has the header, or some of what isn't ours to take back.
	headerOut bool
	// piped says that the body passes the filters, muted that there is none, whatever the handler writes.
	piped, muted bool
	pipe         bodypipe.Pipe
	// declared is the Content-Length that came, trailers says that there will be trailers, altered that what the header
	// said of the bytes isn't true any more, broken that the client doesn't take what is written.
	declared                  int64
	trailers, altered, broken bool
	content                   bodypipe.Content
	err                       error
	// ending says that the handlers have returned, replaced that the answer in the place of a response that is refused has
	// gone out already.
	// sentHeader is the header of that answer.
	ending, replaced bool
	sentHeader       http.Header
	// told says that the body of the request knows of the answer, wrote is how much was written until then.
	told  bool
	wrote int64
	// before are the header fields that were there before the filters ran.
	before []field
}

// field is a header field. Handlers may change values in place: so one is kept beside, and of more, copies.
type field struct {
	name, first string
	values      []string
}

// watch begins to look at the response.
func (w *writer) watch() {
	if w.watching {
		return
	}
	w.watching = true
	for name, values := range w.ResponseWriter.Header() {
		f := field{name: name, values: values}
		if len(values) == 1 {
			f.first = values[0]
		} else {
			f.values = slices.Clone(values)
		}
		w.before = append(w.before, f)
	}
}

// sent reports that something has gone out which can't be taken back.
func (w *writer) sent() bool { return w.headerOut }

// lost reports that somebody may still use what lies below the writer.
func (w *writer) lost() bool { return w.stage == tunnel }

// refused reports that an error has ended the response before any of it went out.
func (w *writer) refused() bool { return w.stage == failed && !w.headerOut }

// upgrade asks for a stricter mode for the body.
func (w *writer) upgrade(mode Mode, most int64) bool {
	return w.piped && w.stage != failed && !w.headerOut && w.pipe.Upgrade(w.x.h.responsePlace(w.x.at), mode, most)
}

// WriteHeader passes the header by the filters.
func (w *writer) WriteHeader(status int) {
	switch {
	case w.stage != fresh:
		return
	case status < http.StatusOK && status != http.StatusSwitchingProtocols:
		w.ResponseWriter.WriteHeader(status)
		return
	}
	x := w.x
	if status == refusal.ClientGone && x.body != nil && x.body.gaveOut() {
		return // a proxy takes the client for gone: a deadline that has passed ends the request's context too
	}
	if status == http.StatusSwitchingProtocols && !switches(x.r.Header, w.Header()) {
		w.fail(errUnasked)
		return
	}
	x.setResponse(status, w.Header())
	w.openPipe(status)
	x.outside = 0
	if _, err := x.respond(len(x.h.entries)); err != nil {
		w.fail(err)
		return
	}
	x.keepStatus(status)
	w.narrowPipe()
	w.begin()
}

// openPipe opens the pipe for the body, if there is one for filters to see, so that filters for the header can ask for a
// stricter mode.
func (w *writer) openPipe(status int) {
	x := w.x
	w.content = bodypipe.ResponseContent(x.r.Method, status)
	if x.h.plans.responseIdle || w.content != bodypipe.HasContent || tunnels(x.r, status) {
		return
	}
	skip := x.responseSkip()
	if x.h.plans.response.Terms(skip).Idle() {
		return
	}
	w.piped = true
	w.pipe.Start(bodypipe.Setup{Plan: x.h.plans.response, Host: (*responseHost)(x), Budget: x.h.budget, Skip: skip})
}

// narrowPipe leaves out the filters to which the response doesn't matter, as it was when it came to them.
func (w *writer) narrowPipe() {
	if !w.piped || w.x.outside == 0 {
		return
	}
	var skip bodypipe.Set
	for i := range w.x.h.entries {
		if w.x.outside.Has(i) {
			skip = skip.With(w.x.h.responsePlace(i))
		}
	}
	w.pipe.Skip(skip)
	w.piped = !w.pipe.Terms().Idle()
}

// responseSkip returns the filters that have no part in the response's body.
func (x *Exchange) responseSkip() (skip bodypipe.Set) {
	had := x.had()
	for i := range x.h.entries {
		if !had.Has(i) {
			skip = skip.With(x.h.responsePlace(i))
		}
	}
	return skip
}

// begin has the header go out, unless the body is held back.
func (w *writer) begin() {
	header, status := w.Header(), w.x.response.Status
	if status == http.StatusSwitchingProtocols || tunnels(w.x.r, status) {
		w.stage, w.headerOut = tunnel, true
		w.ResponseWriter.WriteHeader(status)
		w.tell()
		return
	}
	switch content := bodypipe.ResponseContent(w.x.r.Method, status); {
	case w.content == content:
	case w.content == bodypipe.HasContent:
		w.piped, w.muted, w.content = false, true, content // a filter has changed the status to one without a body
		delete(header, "Content-Length")
	case content == bodypipe.HasContent:
		delete(header, "Content-Length") // or to one with a body, of which none comes
	}
	if w.content == bodypipe.HeadOnly && w.change() != bodypipe.Unchanged {
		w.muted = true // otherwise the server takes the length from what the handler writes
	}
	w.declared = contentLength(header)
	w.trailers = hasTrailers(header)
	if w.piped {
		if err := w.pipe.Declare(w.declared); err != nil {
			w.fail(err)
			return
		}
		if w.pipe.Holding() {
			w.stage = held
			return
		}
	}
	w.send(-1)
}

// send sends the header. final is the length of the body if all of it is at hand, otherwise -1.
func (w *writer) send(final int64) {
	if w.piped || w.content == bodypipe.HeadOnly && !w.x.h.plans.responseIdle {
		w.frame(final)
	}
	late := w.stage == held && w.trailers
	w.stage, w.headerOut = out, true
	if !late {
		w.ResponseWriter.WriteHeader(w.x.response.Status)
		return
	}
	// The handler has set its trailers by now. They must not go out with the header.
	set := takeTrailers(w.Header())
	w.ResponseWriter.WriteHeader(w.x.response.Status)
	maps.Copy(w.Header(), set)
}

// fail ends the response with an error.
func (w *writer) fail(err error) {
	w.stage, w.err = failed, err
	switch {
	case w.headerOut:
		w.x.countOnce(err)
	case !w.ending && !refusal.HasErrorRoutes(w.x.r):
		w.replaced = true
		w.x.replace(err)
	}
}

// finish ends the response that the handlers have written.
func (w *writer) finish() {
	if !w.watching {
		return
	}
	w.ending = true
	if w.stage == fresh {
		w.WriteHeader(http.StatusOK)
	}
	if w.piped && !w.broken && (w.stage == held || w.stage == out) {
		if w.pipe.Read() < w.declared {
			w.fail(errShort) // it must not become a complete one of another length
			return
		}
		_, _ = w.push(nil, true)
	}
	if w.altered {
		forgetTrailers(w.Header())
	}
}

// discard takes back a response that hasn't gone out. Where there is none, what handlers have put into the header is for
// the answer that Caddy makes of their error.
func (w *writer) discard() {
	if (w.stage == held || w.stage == failed) && !w.headerOut {
		w.restore()
	}
}

// restore makes the header what it was before the filters ran.
func (w *writer) restore() {
	header := w.ResponseWriter.Header()
	clear(header)
	for _, f := range w.before {
		if len(f.values) == 1 && f.values[0] != f.first {
			f.values = []string{f.first}
		}
		header[f.name] = f.values
	}
}

// close gives back what is held.
func (w *writer) close() {
	w.pipe.Close()
	if w.stage != tunnel {
		w.stage = dead
	}
}

// release makes the writer ready for another request.
func (w *writer) release() {
	clear(w.before)
	w.ResponseWriter, w.x = nil, nil
	w.watching, w.stage, w.headerOut, w.piped, w.muted = false, fresh, false, false, false
	w.declared, w.trailers, w.altered, w.broken = 0, false, false, false
	w.ending, w.replaced, w.told, w.wrote = false, false, false, 0
	w.content, w.err, w.sentHeader, w.before = bodypipe.HasContent, nil, nil, w.before[:0]
}
