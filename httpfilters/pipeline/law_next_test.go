package pipeline

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"slices"
	"strconv"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
)

// statusBroken is the status of the error with which the next handler fails.
const statusBroken = http.StatusNotImplemented

// next is the next handler.
func (p *passage) next(w http.ResponseWriter, r *http.Request) error {
	p.called, p.length, p.encoding, p.header = true, r.ContentLength, r.TransferEncoding, r.Header.Clone()
	switch {
	case p.w.ignores:
	case p.w.aside != notAside:
		_ = http.NewResponseController(w).EnableFullDuplex()
		body := r.Body
		p.reader.Go(func() { p.body, p.readErr = io.ReadAll(body) }) // check waits for it
	default:
		if p.body, p.readErr = io.ReadAll(r.Body); p.readErr != nil {
			return p.quit(p.readErr)
		}
		p.trailer = r.Trailer
	}
	err := p.respond(w, r)
	// Go's client for HTTP/2 sends no more of the body once it has certain answers, and doesn't say so.
	if p.awaited = p.w.aside == asideAwaited && r.ProtoMajor == 1; p.awaited {
		p.reader.Wait()
	}
	return err
}

// respond writes the answer.
func (p *passage) respond(w http.ResponseWriter, r *http.Request) error {
	w.Header().Set("Etag", `"tag"`)
	w.Header()["Date"] = nil
	// Go's client for HTTP/2 waits for the body of a 304 that says a length.
	if p.w.declared[toClient] && (r.ProtoMajor == 1 && p.w.status != http.StatusNoContent || bodyAllowed(http.MethodGet, p.w.status)) {
		w.Header().Set("Content-Length", strconv.Itoa(len(p.w.bodies[toClient])))
	}
	if p.w.status != http.StatusOK || p.w.flushes || p.w.breaks() {
		w.WriteHeader(p.w.status)
	}
	if !bodyAllowed(http.MethodGet, p.w.status) {
		return nil
	}
	for _, piece := range p.w.answered() {
		if err := p.write(w, piece); err != nil {
			return p.quit(err)
		}
	}
	if p.w.breaks() {
		return caddyhttp.Error(statusBroken, errLaw)
	}
	return nil
}

// breaks reports whether the next handler fails when it has written some of its answer.
func (w *world) breaks() bool { return w.breaksAfter > 0 && bodyAllowed(http.MethodGet, w.status) }

// answered returns what the next handler writes.
func (w *world) answered() [][]byte {
	all := pieces(w.bodies[toClient], w.cuts[toClient])
	if w.breaks() {
		return all[:min(len(all), w.breaksAfter-1)]
	}
	return all
}

func (p *passage) write(w http.ResponseWriter, piece []byte) error {
	var err error
	if p.w.copies {
		_, err = io.Copy(w, struct{ io.Reader }{bytes.NewReader(piece)})
	} else {
		_, err = w.Write(slices.Clone(piece))
	}
	if err == nil && p.w.flushes {
		err = http.NewResponseController(w).Flush()
	}
	return err
}

// quit ends the next handler when it can't go on.
func (p *passage) quit(err error) error {
	switch {
	case p.w.quits == 1:
		return nil
	case p.w.quits == 2 && (p.w.aside != notAside || p.readErr == nil) && !errors.Is(err, http.ErrBodyNotAllowed):
		panic(http.ErrAbortHandler)
	}
	return err
}
