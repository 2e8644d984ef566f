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
	// cluster is the one that the body is bound to, canonical the body as all its endpoints get it.
	cluster   string
	canonical []byte

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
	x.bodies = &Bodies{x: x, outer: outer}
	vars[bodiesVar] = x.bodies
}

// String is for who prints the variables of a request.
func (b *Bodies) String() string { return b.cluster }

// end ends what the filters made.
func (b *Bodies) end() {
	if x := b.x; b.cluster == "" && x.err == nil && x.over {
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

// Bind has the filters see the body for a cluster, once. A request that is bound to a cluster stays with it: another one
// is an error, and so is what a filter refuses. The error is one that Caddy answers with its status.
func (b *Bodies) Bind(cluster string) error {
	switch b.cluster {
	case cluster:
		return nil
	case "":
	default:
		return b.x.refuse(fmt.Errorf("the request is bound to cluster %s, and can't go to %s", b.cluster, cluster))
	}
	b.cluster = cluster
	body, err := b.bind(cluster, b.x.body.whole)
	b.canonical = body
	return err
}

// bind has the filters of the pipelines see the body, those of the first one first.
func (b *Bodies) bind(cluster string, body []byte) (_ []byte, err error) {
	if b.outer != nil {
		if body, err = b.outer.bind(cluster, body); err != nil {
			return nil, err
		}
	}
	x := b.x
	x.mu.Lock()
	x.cluster = cluster
	body, err = b.adapt(&b.boundPipe, x.h.plans.bound, (*boundHost)(x), body)
	x.mu.Unlock()
	if err != nil {
		return nil, x.refuse(err)
	}
	return body, nil
}

// Select has the filters see the body for an endpoint, and returns what it gets. The body must be bound. Nothing that
// was returned before may be sent any more.
func (b *Bodies) Select(endpoint string) (Payload, error) {
	if b.cluster == "" {
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
	return Payload{b, b.x.body, number, body}, nil
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
	body, err = b.adapt(&b.selectedPipe, x.h.plans.selected, (*selectedHost)(x), body)
	x.mu.Unlock()
	if err != nil {
		return nil, x.refuse(err)
	}
	return body, nil
}

// adapt passes a body by filters for upstream bodies. A body that is longer than their limit is too large.
func (b *Bodies) adapt(pipe *bodypipe.Pipe, plan *bodypipe.Plan, host bodypipe.Host, body []byte) ([]byte, error) {
	if plan == nil {
		return body, nil
	}
	var skip bodypipe.Set
	for i := range b.x.h.entries {
		if !b.x.ran.Has(i) {
			skip = skip.With(i)
		}
	}
	return pipe.Adapt(bodypipe.Setup{Plan: plan, Host: host, Budget: b.x.h.budget, Skip: skip}, body)
}

// Size returns how long the body is that filters have bound, or seen before: the longest that a request may have to send
// again.
func (b *Bodies) Size() int64 { return int64(max(len(b.x.body.whole), len(b.canonical))) }

// Payload is the body that an endpoint gets.
type Payload struct {
	bodies *Bodies
	// body is that of the request, and ends with it.
	body   *requestBody
	number int
	data   []byte
}

// Len returns its length.
func (p Payload) Len() int64 { return int64(len(p.data)) }

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
