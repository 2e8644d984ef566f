package pipeline

import "net/http"

// strip takes the body from the request once the filters are done with it. Error routes, and handlers in front, may serve
// the request again: they would send its length on without the bytes, or what was left of them past the filters. Body hooks
// of pipelines in front may still run for somebody who reads on, and look at the header: so all of their mutexes are held.
func (b *requestBody) strip(x *Exchange) {
	if b == nil {
		x.unload(x.came)
		x.unload(x.r)
		return
	}
	b.x.mu.Lock()
	defer b.x.mu.Unlock()
	b.outer.strip(x)
}

// unload makes a request one without a body. If there is an answer, its header and its length stay for what is logged and
// measured, and the trailers for who still reads the body.
func (x *Exchange) unload(r *http.Request) {
	r.Body = http.NoBody
	if !x.failing {
		return
	}
	r.ContentLength, r.TransferEncoding = 0, nil
	if r.Trailer != nil {
		r.Trailer = nil
	}
	delete(r.Header, "Content-Length")
	delete(r.Header, "Expect")
	forgetDigests(r.Header)
}
