package pipeline

import (
	"errors"
	"io"
	"net/http"
	"sync/atomic"
)

// errInHook is what a hook gets that reads the body of the request.
var errInHook = errors.New("a hook of a filter must not read the request's body")

// unreadable is the body of a request while a hook runs on the goroutine of its handler. A placeholder that reads the
// body, as `{http.request.body}` does, would wait for what the hook itself holds, or take bytes that filters are to see.
type unreadable struct{}

// Read implements io.Reader.
func (unreadable) Read([]byte) (int, error) { return 0, errInHook }

// Close implements io.Closer.
func (unreadable) Close() error { return nil }

// shielded are the bodies of a request to put back: of the one that came, which placeholders know, and of what a branch has
// made of it.
type shielded struct {
	came, now io.ReadCloser
	on        bool
}

// shield makes the body of the request unreadable, if filters look at it.
func (x *Exchange) shield() shielded { return x.replaceBody(unreadable{}) }

// shieldRead is shield for hooks that run while somebody else may read the body: it does nothing before the end of it.
// Who calls it holds mu.
func (x *Exchange) shieldRead() shielded {
	if b := x.body; b == nil || len(b.out) > 0 || !b.pipe.Ended() {
		return shielded{}
	}
	return x.replaceBody(http.NoBody)
}

func (x *Exchange) replaceBody(by io.ReadCloser) shielded {
	if x.body == nil {
		return shielded{}
	}
	before := shielded{x.came.Body, x.r.Body, true}
	x.came.Body, x.r.Body = by, by
	return before
}

// unshield puts the bodies back, whatever a placeholder has put into their place.
func (x *Exchange) unshield(before shielded) {
	if before.on {
		x.came.Body, x.r.Body = before.came, before.now
	}
}

// What a gate says.
const (
	// noHook is that no hook runs.
	noHook int32 = iota
	// inHook is that one runs while the body is read.
	inHook
	// misread is that this one has tried to read the body. Then it closes it, which isn't for it to do either.
	misread
)

// gate is for the hooks that run while somebody reads a body: on the same goroutine, and so no lock tells them from another
// reader.
type gate struct {
	state atomic.Int32
	// before is the gate of a pipeline in front, whose hooks run while this one waits for more of the body.
	before *gate
}

// enter says that a hook runs, leave that it doesn't any more.
func (g *gate) enter() { g.state.Store(inHook) }
func (g *gate) leave() { g.state.Store(noHook) }

// refusesRead reports whether a hook is what reads the body.
func (g *gate) refusesRead() bool {
	for ; g != nil; g = g.before {
		if g.state.CompareAndSwap(inHook, misread) || g.state.Load() == misread {
			return true
		}
	}
	return false
}

// refusesClose reports whether a hook is what closes the body.
func (g *gate) refusesClose() bool {
	for ; g != nil; g = g.before {
		if g.state.Load() == misread {
			return true
		}
	}
	return false
}

// outerBody returns the body of a pipeline that a body is, nil if it is another one.
func outerBody(body io.ReadCloser) *requestBody {
	switch b := body.(type) {
	case *requestBody:
		return b
	case *disownedBody:
		return outerBody(b.ReadCloser)
	}
	return nil
}
