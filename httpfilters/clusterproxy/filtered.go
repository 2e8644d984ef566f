package clusterproxy

import (
	"errors"
	"net/http"
	"sync/atomic"

	"golang.org/x/net/http/httpguts"

	"github.com/caddy-sluice/sluice/httpfilters/pipeline"
)

// filtered is the body that filters make of a request's, for each attempt. The request's own is never read.
type filtered struct {
	bodies  *pipeline.Bodies
	payload pipeline.Payload
	// large says that the body is, or was, longer than what is sent again. It is safe.
	large atomic.Bool
	// err is why the endpoint that was picked gets no body.
	err error
}

// bind has the filters see the body for the cluster, if there are any that want to.
func (h *Handler) bind(s *state, r *http.Request) error {
	bodies := pipeline.BodiesOf(r)
	if bodies == nil {
		return nil
	}
	s.bare = h.dropsBody()
	if s.bare || bodies.Size() == 0 && h.switches(r) {
		bodies.Skip()
		return nil
	}
	if err := bodies.Bind(s.link.cluster.Name()); err != nil {
		return err
	}
	s.filtered = &filtered{bodies: bodies}
	return nil
}

// dropsBody says whether a `rewrite` is to another method, so that the body doesn't go on: Caddy's handler drops it then,
// unless the method was the same before.
func (h *Handler) dropsBody() bool {
	return h.Rewrite != nil && (h.Rewrite.Method == http.MethodGet || h.Rewrite.Method == http.MethodHead)
}

// switches says whether a request goes on as one to switch to another protocol, or for a tunnel. Without a body it is to
// stay so.
func (h *Handler) switches(r *http.Request) bool {
	return r.Method == http.MethodConnect ||
		h.mayUpgrade(r.Header[upgradeHeader]) && httpguts.HeaderValuesContainsToken(r.Header[connectionHeader], upgradeHeader)
}

// adapt has the filters see the body for the endpoint of the attempt.
func (t *try) adapt() error {
	f := t.state.filtered
	if f == nil {
		return nil
	}
	payload, err := f.bodies.Select(t.endpoint.Address())
	if err != nil {
		f.err = err
		return errors.New(err.Error()) // Caddy's handler would make more of it
	}
	f.payload = payload
	f.large.Store(max(f.bodies.Size(), payload.Len()) > t.state.link.cluster.BodyLimit())
	return nil
}

// embody gives the body to what is sent.
func (t *try) embody(out *http.Request) {
	switch s := t.state; {
	case s.filtered != nil:
		payload := s.filtered.payload
		withoutBody(out)
		out.Header = payload.Header(out.Header)
		if out.ContentLength = payload.Len(); out.ContentLength > 0 {
			out.Body = payload.Open()
		}
	case s.bare:
		withoutBody(out)
	case s.body != nil:
		t.body = s.body.reader(t)
		out.Body, out.Trailer = t.body, t.body.trailer
	}
}

// withoutBody takes the body from a request, with what goes before and after it.
func withoutBody(r *http.Request) {
	r.Body, r.ContentLength, r.TransferEncoding, r.Trailer = http.NoBody, 0, nil, nil
}
