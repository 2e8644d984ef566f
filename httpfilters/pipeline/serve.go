package pipeline

import (
	"errors"
	"net/http"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/caddy-sluice/sluice/internal/bodypipe"
)

const (
	// retryAfterBudget is when to ask again if there is no room for a body, in seconds: others end all the time.
	retryAfterBudget = "1"
	// maxStatus is the greatest status of a response.
	maxStatus = 599
)

// errClientGone is the error of a request whose client has left.
var errClientGone = errors.New("the client has left")

// serve passes the request by the filters.
func (x *Exchange) serve() (err error) {
	defer x.conclude(&err)
	x.disown()
	if x.h.watches {
		x.out.watch()
	}
	if err := x.openBody(); err != nil {
		if x.body == nil {
			x.failing = true
			defer x.unload(x.r) // no filter has seen the body, so nobody else does
		}
		x.tellTooLarge(err)
		x.gather(err)
		return x.answer(err)
	}
	return x.settle(x.run(x.writer(), 0))
}

// conclude ends serve, also when a handler panicked. One that can't write its answer, or read the body, does, so that nobody
// takes what is there for complete. If we have refused the one or the other before anything went out, the client gets a
// proper answer.
func (x *Exchange) conclude(err *error) {
	x.over, x.failing = true, *err != nil || !x.out.sent()
	p := recover()
	if x.err == nil {
		x.setErr(x.out.err)
	}
	var failed error
	if p != nil && x.body != nil && !x.out.lost() {
		failed = x.body.leave()
	}
	switch {
	case p != nil && p != http.ErrAbortHandler: //nolint:errorlint // panics are compared so
		panic(p)
	case x.out.refused():
		*err = x.replaced()
	case failed != nil && !x.out.sent():
		*err = x.instead(failed)
	case p != nil:
		x.noteFailure(failed)
		panic(p)
	}
}

// noteFailure notes why the body of a request that breaks off couldn't go on, if that is so.
func (x *Exchange) noteFailure(failed error) {
	if failed == nil {
		return
	}
	x.countOnce(failed)
	if x.err == nil {
		x.setErr(failed)
	}
}

// run calls the filters for the request from one on, and then the next handler.
func (x *Exchange) run(w http.ResponseWriter, from int) error {
	for i := from; i < len(x.h.entries); i++ {
		e := &x.h.entries[i]
		switch part, err := x.takesPart(i); {
		case err != nil:
			return err
		case !part:
			continue
		}
		x.enter(i)
		if e.request != nil {
			if err := x.call(i, e.request.Request); err != nil {
				return x.refuse(err)
			}
		}
		if len(e.branches) > 0 {
			return x.branch(w, i, 0)
		}
	}
	return x.forward(w)
}

// enter notes that it is the turn of a filter. Somebody may still read the body in the meantime, whom a branch has left.
func (x *Exchange) enter(i int) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.jumped &^= bit(i)
	x.ran |= bit(i)
}

// jump notes that a branch passes over the filters from one on, to another.
func (x *Exchange) jump(from, to int) {
	x.mu.Lock()
	defer x.mu.Unlock()
	for i := from; i < to; i++ {
		x.jumped |= bit(i)
	}
}

// had returns the filters that had a part.
func (x *Exchange) had() bodypipe.Set {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.ran
}

// gather has the filters take part in the answer to a request that ends while its body is read ahead: those in front of
// the one that has ended it, as if it were their turn already, or all if it wasn't a filter.
func (x *Exchange) gather(err error) {
	end := len(x.h.entries)
	if x.struck || errors.Is(err, bodypipe.ErrReadOnly) {
		end = x.last
	}
	for i := range end {
		part, err := x.takesPart(i)
		if err != nil {
			return // it is this one that has ended the request
		}
		if part {
			x.enter(i)
		}
	}
}

// bit returns the set with one entry.
func bit(i int) bodypipe.Set { return 1 << i }

// takesPart reports whether a filter applies to the request. It is decided once.
func (x *Exchange) takesPart(i int) (bool, error) {
	if !x.decided.Has(i) {
		applies, err := x.h.entries[i].applies(x.r)
		if err != nil {
			return false, err
		}
		x.decided |= bit(i)
		if !applies {
			x.skipped |= bit(i)
		}
	}
	return !x.skipped.Has(i), nil
}

// writer returns the writer for the next handler.
func (x *Exchange) writer() http.ResponseWriter {
	if x.out.watching {
		return &x.out
	}
	return x.w
}

// forward passes the request on to the next handler.
func (x *Exchange) forward(w http.ResponseWriter) error {
	if err := x.prepare(); err != nil {
		return err
	}
	return x.next.ServeHTTP(w, x.r)
}

// prepare makes the request ready for who is to answer it.
func (x *Exchange) prepare() error {
	if x.body != nil {
		if err := x.body.resume(); err != nil {
			return err
		}
	}
	x.askPlain()
	return nil
}

// askPlain has the next handler answer so that filters can read the body of the answer, and change it: plain, and whole.
func (x *Exchange) askPlain() {
	if x.h.plans.responseIdle {
		return
	}
	terms := x.h.plans.response.Terms(x.responseSkip())
	if terms.Reads {
		x.r.Header["Accept-Encoding"] = []string{"identity"} // what filters can read
	}
	if terms.Writes {
		delete(x.r.Header, "Range")
		delete(x.r.Header, "If-Range")
	}
}

// statusOf returns the status that Caddy answers an error with.
func statusOf(err error) int {
	if handled, ok := errors.AsType[caddyhttp.HandlerError](err); ok && handled.StatusCode != 0 {
		return handled.StatusCode
	}
	return http.StatusInternalServerError
}

// refuse makes the error of a hook one that Caddy answers.
func (x *Exchange) refuse(err error) error {
	if errors.Is(err, bodypipe.ErrBudget) {
		x.w.Header().Set("Retry-After", retryAfterBudget)
	}
	if handled, ok := errors.AsType[caddyhttp.HandlerError](err); ok {
		return handled // Caddy looks for it on the outside only
	}
	if errors.Is(err, errClientGone) {
		return err
	}
	status := bodypipe.RequestStatus(err)
	if x.out.err != nil {
		status = bodypipe.ResponseStatus(err)
	}
	x.countOnce(err)
	return caddyhttp.Error(status, err)
}

// countOnce counts why the request has failed. What follows from the first reason doesn't count, nor what a pipeline in
// front counts.
func (x *Exchange) countOnce(err error) {
	if x.counted {
		return
	}
	x.counted = true
	if !x.outer().failedBy(err) {
		count(reasonOf(err))
	}
}

// outer returns the body of a pipeline in front, nil if there is none.
func (x *Exchange) outer() *requestBody {
	if x.body != nil {
		return x.body.outer
	}
	return outerBody(x.came.Body)
}

// respond calls the filters in front of one for the response, in the opposite order. If one fails, it returns which.
func (x *Exchange) respond(before int) (int, error) {
	had := x.had()
	for i := before - 1; i >= 0; i-- {
		e := &x.h.entries[i]
		if !e.appliesTo(x.response.Status, x.response.Header) {
			x.outside |= bit(i)
			continue
		}
		if e.response == nil || !had.Has(i) || x.refused.Has(i) {
			continue
		}
		if err := x.call(i, e.response.Response); err != nil {
			x.refused |= bit(i)
			return i, err
		}
	}
	return 0, nil
}

// end ends the request for all filters. It also runs when a handler has panicked.
func (x *Exchange) end() {
	if x.body != nil {
		x.body.end()
	}
	if x.bodies != nil {
		x.bodies.end()
	}
	for i := len(x.h.entries) - 1; i >= 0; i-- {
		if e := &x.h.entries[i]; e.log != nil && x.logs(i) {
			x.callLog(i, e)
		}
	}
	x.out.close()
	if x.over && !x.out.lost() {
		x.release()
	}
}

// logs reports whether a filter is told of the end of the request: if it had a part, or would have had one.
func (x *Exchange) logs(i int) bool {
	if x.ran.Has(i) || x.jumped.Has(i) {
		return x.ran.Has(i)
	}
	part, err := x.takesPart(i)
	return part && err == nil
}
