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

// unload makes a request one without a body. If there is an answer, the header stays for what is logged, and the trailers
// for who still reads the body.
func (x *Exchange) unload(r *http.Request) {
	r.Body, r.ContentLength, r.TransferEncoding = http.NoBody, 0, nil
	if !x.failing {
		return
	}
	if r.Trailer != nil {
		r.Trailer = nil
	}
	delete(r.Header, "Content-Length")
	delete(r.Header, "Expect")
	forgetDigests(r.Header)
}
