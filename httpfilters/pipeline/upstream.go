package pipeline

import (
	"errors"
	"fmt"
	"io"
	"net/http"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/caddy-sluice/sluice/internal/bodypipe"
)

// bodiesVar is the variable that has the Bodies of a request.
const bodiesVar = "sluice.filters.bodies"

// Bodies makes the bodies that endpoints get from that of a request: the filters that want it see the body once the
// cluster is known, and again for each attempt. It is for handlers that know clusters and endpoints, which use it from one
// goroutine.
type Bodies struct {
	x *Exchange
	// outer are those of a pipeline before this one.
	outer *Bodies

	boundPipe, selectedPipe bodypipe.Pipe
	// cluster is the one that the body is bound to, canonical the body as all its endpoints get it, and err why nobody
	// gets any.
	cluster   string
	canonical []byte
	err       error
	// skipped says that there is no body to send, passed that a pipeline behind this one makes another of it.
	skipped, passed bool
	// required says that nobody may read the body past the filters.
	required bool

	// number counts what was made; only the last may be read. x.mu guards it.
	number int
}

// BodiesOf returns the Bodies of a request, nil if no filter wants to see what endpoints get.
func BodiesOf(r *http.Request) *Bodies { return outerBodies(r) }

// outerBodies returns the Bodies of the pipelines that a request has passed.
func outerBodies(r *http.Request) *Bodies {
	vars, _ := r.Context().Value(caddyhttp.VarsCtxKey).(map[string]any)
	b, _ := vars[bodiesVar].(*Bodies)
	return b
}

// publishBodies makes the body known to handlers that know endpoints, if filters want it so.
func (x *Exchange) publishBodies(skip bodypipe.Set, outer *Bodies) {
	if skip.Has(x.h.upstreamPlace()) {
		return
	}
	vars, ok := x.r.Context().Value(caddyhttp.VarsCtxKey).(map[string]any)
	if !ok {
		return
	}
	x.bodies = &Bodies{x: x, outer: outer, required: outer != nil && outer.required}
	for i := range x.h.entries {
		e := &x.h.entries[i]
		if (e.bound != nil || e.selected != nil) && !skip.Has(i) && !e.open {
			x.bodies.required = true
		}
	}
	vars[bodiesVar] = x.bodies
}

// unfiltered reports that who reads the body gets it past the filters for upstream bodies, which must not be: not before they
// have seen it, and not afterwards either, when a handler in the answer of another asks for it.
func (b *Bodies) unfiltered() bool { return b != nil && b.required && !b.passed }

// String is for who prints the variables of a request.
func (b *Bodies) String() string { return b.cluster }

// end ends what the filters made.
func (b *Bodies) end() {
	if x := b.x; b.cluster == "" && !b.skipped && x.err == nil && x.over {
		x.h.unbound.Do(func() {
			x.h.logger.Warn("filters for upstream bodies had no part: the request was answered without cluster_proxy")
		})
	}
	b.boundPipe.Close()
	b.selectedPipe.Close()
	vars, _ := b.x.r.Context().Value(caddyhttp.VarsCtxKey).(map[string]any)
	if b.outer == nil {
		delete(vars, bodiesVar)
		return
	}
	vars[bodiesVar] = b.outer
}

// Skip says that the request goes to an endpoint without a body, so that the filters have no part in it.
func (b *Bodies) Skip() {
	b.skipped = true
	if b.outer != nil {
		b.outer.Skip()
	}
}

// errBound is the error of a body that a pipeline behind this one has made another of.
var errBound = errors.New("the request was bound to a cluster by another handler `filters`")

// Bind has the filters see the body for a cluster, once. A request that is bound to a cluster stays with it: another one
// is an error, and so is what a filter refuses, for good. The error is one that Caddy answers with its status.
func (b *Bodies) Bind(cluster string) error {
	if b.cluster == "" {
		b.canonical, b.err = b.bind(cluster, b.x.body.whole)
	}
	switch {
	case b.err != nil:
		return b.x.refuse(b.err)
	case b.cluster != cluster:
		return b.x.refuse(fmt.Errorf("the request is bound to cluster %s, and can't go to %s", b.cluster, cluster))
	}
	return nil
}

// bind has the filters of the pipelines see the body, those of the first one first.
func (b *Bodies) bind(cluster string, body []byte) (_ []byte, err error) {
	if b.cluster != "" {
		return nil, b.x.refuse(errors.New("the request is bound to a cluster already"))
	}
	b.cluster = cluster
	if b.outer != nil {
		body, err = b.outer.bind(cluster, body)
		b.outer.err = errBound // what it has made of the body is ours, and ends with it
		if err != nil {
			return nil, err
		}
	}
	x := b.x
	x.mu.Lock()
	x.cluster = cluster
	x.mu.Unlock()
	return b.adapt(&b.boundPipe, x.h.plans.bound, (*boundHost)(x), body)
}

// Select has the filters see the body for an endpoint, and returns what it gets. The body must be bound. Nothing that
// was returned before may be sent any more.
func (b *Bodies) Select(endpoint string) (Payload, error) {
	switch {
	case b.err != nil:
		return Payload{}, b.x.refuse(b.err)
	case b.cluster == "":
		return Payload{}, b.x.refuse(errors.New("the request isn't bound to a cluster"))
	}
	b.x.mu.Lock()
	b.number++
	number := b.number
	b.x.mu.Unlock()
	body, err := b.choose(endpoint, b.canonical)
	if err != nil {
		return Payload{}, err
	}
	return Payload{b, b.x.body, number, body, b.changed()}, nil
}

// choose has the filters of the pipelines see the body, those of the first one first.
func (b *Bodies) choose(endpoint string, body []byte) (_ []byte, err error) {
	if b.outer != nil {
		if body, err = b.outer.choose(endpoint, body); err != nil {
			return nil, err
		}
	}
	x := b.x
	x.mu.Lock()
	x.endpoint = endpoint
	x.mu.Unlock()
	return b.adapt(&b.selectedPipe, x.h.plans.selected, (*selectedHost)(x), body)
}

// adapt passes a body by filters for upstream bodies. A body that is longer than their limit is too large.
func (b *Bodies) adapt(pipe *bodypipe.Pipe, plan *bodypipe.Plan, host bodypipe.Host, body []byte) ([]byte, error) {
	if plan == nil {
		return body, nil
	}
	out, err := b.pass(pipe, bodypipe.Setup{Plan: plan, Host: host, Budget: b.x.h.budget}, body)
	if err != nil {
		return nil, b.x.refuse(err)
	}
	return out, nil
}

// pass passes a body by the filters that have had a part in the request.
func (b *Bodies) pass(pipe *bodypipe.Pipe, setup bodypipe.Setup, body []byte) ([]byte, error) {
	x := b.x
	x.mu.Lock()
	defer x.mu.Unlock()
	defer x.unshield(x.shield())
	for i := range x.h.entries {
		if !x.ran.Has(i) {
			setup.Skip = setup.Skip.With(i)
		}
	}
	return pipe.Adapt(setup, body)
}

// changed says whether a filter has put other bytes in the place of the body.
func (b *Bodies) changed() bool {
	return b.boundPipe.Changed() || b.selectedPipe.Changed() || b.outer != nil && b.outer.changed()
}

// Size returns the longest that the body has been, from what the client sent to what filters have bound.
func (b *Bodies) Size() int64 {
	size := max(b.x.body.pipe.Read(), int64(len(b.x.body.whole)), int64(len(b.canonical)))
	if b.outer != nil {
		size = max(size, b.outer.Size())
	}
	return size
}

// Payload is the body that an endpoint gets.
type Payload struct {
	bodies *Bodies
	// body is that of the request, and ends with it.
	body    *requestBody
	number  int
	data    []byte
	changed bool
}

// Len returns its length.
func (p Payload) Len() int64 { return int64(len(p.data)) }

// Header returns the header for a request with this body. What h says of bytes that are others by now isn't in it. h
// stays as it is.
func (p Payload) Header(h http.Header) http.Header {
	if !p.changed {
		return h
	}
	h = h.Clone()
	forgetDigests(h)
	return h
}

// Open returns a reader of it, from the beginning. It ends with the request, and with the next payload.
func (p Payload) Open() io.ReadCloser { return &payloadReader{Payload: p} }

// payloadReader reads a payload.
type payloadReader struct {
	Payload
	at int
}

// Read implements io.Reader.
func (p *payloadReader) Read(to []byte) (int, error) {
	if p.body == nil {
		return 0, io.EOF
	}
	p.body.x.mu.Lock()
	defer p.body.x.mu.Unlock()
	if p.body.closed || p.number != p.bodies.number {
		return 0, errBodyClosed
	}
	if p.at == len(p.data) {
		return 0, io.EOF
	}
	n := copy(to, p.data[p.at:])
	p.at += n
	return n, nil
}

// Close implements io.Closer.
func (p *payloadReader) Close() error { return nil }

// boundHost and selectedHost run the filters for upstream bodies.
type (
	boundHost    Exchange
	selectedHost Exchange
)

// Filter implements bodypipe.Host.
func (h *boundHost) Filter(i int, c *Chunk) (Action, error) {
	x := (*Exchange)(h)
	return x.callBody(i, c, func(x *Exchange, c *Chunk) (Action, error) {
		return Continue, x.h.entries[i].bound.BoundBody(x, c)
	})
}

// Filter implements bodypipe.Host.
func (h *selectedHost) Filter(i int, c *Chunk) (Action, error) {
	x := (*Exchange)(h)
	return x.callBody(i, c, func(x *Exchange, c *Chunk) (Action, error) {
		return Continue, x.h.entries[i].selected.SelectedBody(x, c)
	})
}
