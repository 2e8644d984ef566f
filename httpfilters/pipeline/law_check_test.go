package pipeline

import (
	"bytes"
	"fmt"
	"net/http"
	"slices"
	"strings"
)

// check compares what has become of the request and of its answer with what the model says.
func (p *passage) check() {
	p.t.Helper()
	p.reader.Wait()
	if p.panicked != nil && p.panicked != http.ErrAbortHandler {
		p.t.Fatalf("the handler panicked: %v", p.panicked)
	}
	if n := p.handler.budget.Held.Load(); n != 0 {
		p.t.Errorf("got %d bytes held at the end", n)
	}
	r := p.w.request()
	switch refused := p.checkRequest(r); {
	case refused:
		p.checkStatus(map[bool]map[int]bool{false: r.early, true: r.late}[p.called])
		p.checkCalls(false)
	default:
		a := p.w.response()
		if p.w.aside != notAside {
			a.beside(r)
		}
		p.checkResponse(a)
		p.checkCalls(p.delivered())
	}
}

// delivered reports whether the client got the header of the response, and not of another in its place.
func (p *passage) delivered() bool { return p.response != nil && p.response.Header.Get("Etag") != "" }

// checkRequest checks what the next handler got, and reports whether that is to be the end of the request.
func (p *passage) checkRequest(r *requestLaw) (refused bool) {
	p.t.Helper()
	if !p.called {
		if len(r.early) == 0 {
			p.t.Errorf("the next handler wasn't called: got %v, want %q", p.response.StatusCode, r.out)
		}
		return true
	}
	if r.mustEarly {
		p.t.Errorf("the next handler was called, with %q, want one of the statuses %v", p.body, r.early)
	}
	p.checkFraming(r)
	switch {
	case p.w.ignores:
		return false
	case p.w.aside != notAside:
		p.checkAside(r)
		return false
	case p.readErr != nil:
		if len(r.late) == 0 || !bytes.HasPrefix(r.out, p.body) {
			p.t.Errorf("the next handler got %q and %v, want %q, or %v", p.body, p.readErr, r.out, r.late)
		}
		return true
	case r.must || !bytes.Equal(p.body, r.out):
		p.t.Errorf("the next handler got %q, want %q, failure %v", p.body, r.out, r.must)
	}
	if p.w.trailers && p.trailer.Get("X-Sum") != "1" {
		p.t.Errorf("got the trailers %v", p.trailer)
	}
	return false
}

// checkAside checks what somebody got of the body who read it while the handler answered.
func (p *passage) checkAside(r *requestLaw) {
	p.t.Helper()
	switch {
	case p.readErr == nil && (r.must || !bytes.Equal(p.body, r.out)):
		p.t.Errorf("the reader got %q, want %q, failure %v", p.body, r.out, r.must)
	case p.readErr != nil && !bytes.HasPrefix(r.out, p.body):
		p.t.Errorf("the reader got %q and %v, want a beginning of %q", p.body, p.readErr, r.out)
	case p.readErr != nil && p.awaited && len(r.late) == 0 && p.delivered() && p.responseErr == nil: // else it is over before
		p.t.Errorf("the reader got %q and %v, want %q", p.body, p.readErr, r.out)
	}
}

// checkFraming checks what the next handler got as the length of the body.
func (p *passage) checkFraming(r *requestLaw) {
	p.t.Helper()
	if p.w.trailers && r.writes { // they need a chunked body
		r.lengths = map[int64]bool{-1: true}
	}
	if p.w.trailers && !r.writes && p.length == -1 {
		r.lengths[-1] = true
	}
	if !r.lengths[p.length] {
		p.t.Errorf("the next handler got a length of %d, want one of %v", p.length, r.lengths)
	}
	header, set := p.header["Content-Length"]
	switch {
	case p.length > 0 && (!set || header[0] != fmt.Sprint(p.length)), p.length == 0 && set && header[0] != "0", p.length < 0 && set,
		p.length >= 0 && p.encoding != nil, len(header) > 1:
		p.t.Errorf("the next handler got a length of %d, Content-Length %v, Transfer-Encoding %v", p.length, header, p.encoding)
	}
	checkIntact(p, p.header, "Content-Digest", r.touched, r.intact)
}

// checkIntact checks a field that says something of the bytes.
func checkIntact(p *passage, h http.Header, name string, touched, intact bool) {
	p.t.Helper()
	has := h.Get(name) != "" && !strings.HasPrefix(h.Get(name), "W/")
	if touched && has || intact && !has {
		p.t.Errorf("got %s %q, with a body that is changed: %v", name, h.Get(name), touched)
	}
}

// checkStatus checks that the client was refused with one of these statuses.
func (p *passage) checkStatus(want map[int]bool) {
	p.t.Helper()
	if p.response == nil || !want[p.response.StatusCode] || p.responseErr != nil {
		status := 0
		if p.response != nil {
			status = p.response.StatusCode
		}
		p.t.Errorf("the client got %d, %v, want one of the statuses %v", status, p.responseErr, want)
		return
	}
	if p.response.StatusCode == http.StatusServiceUnavailable && p.response.Header.Get("Retry-After") != "1" {
		p.t.Errorf("got %v without Retry-After", p.response)
	}
	if tag := p.response.Header.Get("Etag"); tag != "" {
		p.t.Errorf("a refusal got the Etag %s of the response", tag)
	}
}

// checkResponse checks what the client got of a response.
func (p *passage) checkResponse(a *responseLaw) {
	p.t.Helper()
	switch {
	case p.responseErr != nil:
		if !a.torn || !bytes.HasPrefix(a.out, p.got) {
			p.t.Errorf("the client got %q and %v, want %q", p.got, p.responseErr, a.out)
		}
		return
	case p.response.Header.Get("Etag") == "":
		p.checkStatus(a.refused)
		return
	case a.torn && p.panicked != nil && bytes.Equal(p.got, a.out) && int64(len(p.got)) == p.response.ContentLength:
		return // a filter has failed when it saw the end, of a body whose length was known: the client had all of it
	case a.must || a.mustRefuse || p.response.StatusCode != a.status || !bytes.Equal(p.got, a.out):
		p.t.Errorf("the client got %d %q, want %d %q, failure %v", p.response.StatusCode, p.got, a.status, a.out, a.must)
	}
	if !a.lengths[p.response.ContentLength] {
		p.t.Errorf("the client got a length of %d, want one of %v", p.response.ContentLength, a.lengths)
	}
	checkIntact(p, p.response.Header, "Etag", a.touched, a.intact)
}

// checkCalls checks in which order the hooks were called: for the request in the order of the filters, for the response
// in the opposite one, once more if it was refused, and at the end each filter once.
func (p *passage) checkCalls(delivered bool) {
	p.t.Helper()
	var logs, requests, responses []string
	for i, m := range p.w.members {
		if m.skipped {
			continue
		}
		logs = append(logs, fmt.Sprint("log", i))
		requests = append(requests, fmt.Sprint("request", i))
	}
	slices.Reverse(logs)
	n := len(p.calls) - len(logs)
	if n < 0 || !slices.Equal(p.calls[n:], logs) {
		p.t.Errorf("got the calls %v, want %v at the end", p.calls, logs)
		return
	}
	begun := 0
	for ; begun < n && strings.HasPrefix(p.calls[begun], "request"); begun++ {
	}
	if begun > len(requests) || !slices.Equal(p.calls[:begun], requests[:begun]) || p.called && begun < len(requests) {
		p.t.Errorf("got the calls %v, want %v at the beginning", p.calls, requests)
	}
	for _, m := range p.w.order(toClient) {
		if m.applies(p.w.status) {
			responses = append(responses, "response")
		}
	}
	between := p.calls[begun:n]
	if begun == 0 && !p.called && p.response != nil {
		p.checkGathered(between)
	}
	runs := 1
	for i := 1; i < len(between); i++ {
		if between[i] >= between[i-1] {
			runs++
		}
	}
	if runs > 2 || runs > 1 && delivered || delivered && p.called && p.w.onlyStatus() && len(between) != len(responses) {
		p.t.Errorf("got the calls %v for the response, want each of %d once, from the last to the first", between, len(responses))
	}
	for i, m := range p.w.members {
		for direction, actors := range p.actors {
			if a := actors[i]; a.calls > 0 && (m.skipped || a.wish.Access == None) {
				p.t.Errorf("filter %d was called for the body of direction %d", i, direction)
			}
		}
	}
}

// checkGathered checks which filters see the answer to a request that has ended while its body was read ahead: those in
// front of the filter that has ended it, it itself, and those that have seen some of the body; all if the pipeline has.
func (p *passage) checkGathered(responses []string) {
	p.t.Helper()
	end := p.response.StatusCode - 420 // as the worlds number the statuses
	switch p.response.StatusCode {
	case http.StatusInternalServerError:
		return // any of them may have failed
	case http.StatusRequestEntityTooLarge, http.StatusServiceUnavailable:
		end = len(p.w.members)
	}
	var want []string
	for i, m := range slices.Backward(p.w.members) {
		if !m.skipped && !m.successful && (i <= end || p.actors[toNext][i].calls > 0) {
			want = append(want, fmt.Sprint("response", i))
		}
	}
	if !slices.Equal(responses, want) {
		p.t.Errorf("got the calls %v for the answer in place of a request that came no further than its body, want %v", responses, want)
	}
}

// onlyStatus reports whether no filter changes the status.
func (w *world) onlyStatus() bool {
	return !slices.ContainsFunc(w.members, func(m member) bool { return m.header[toClient].status != 0 })
}
