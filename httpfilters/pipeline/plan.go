package pipeline

import (
	"fmt"
	"slices"

	"github.com/caddy-sluice/sluice/internal/bodypipe"
)

// plans has what the entries wish for.
type plans struct {
	// request has the entries in their order, and in a last place what filters for upstream bodies need: the whole body.
	request *bodypipe.Plan
	// response has them in the opposite order.
	response *bodypipe.Plan
	// bound and selected are for upstream bodies; nil if no filter wants them.
	bound, selected *bodypipe.Plan
	// requestIdle and responseIdle say that nothing is ever to be done to bodies.
	requestIdle, responseIdle bool
	// early are the entries whose conditions are looked at before the body is read.
	early bodypipe.Set
	// heads are those that can refuse a request's body by the header, writers those that may change it.
	heads, writers bodypipe.Set
}

// upstreamPlace returns the place of the filters for upstream bodies in the plan for requests.
func (h *Handler) upstreamPlace() int { return len(h.entries) }

// responsePlace returns the place of an entry in the plan for responses, or the entry in such a place.
func (h *Handler) responsePlace(i int) int { return len(h.entries) - 1 - i }

// plan merges the wishes of the entries.
func (h *Handler) plan() error {
	n := len(h.entries)
	request, response := make([]bodypipe.Wish, n+1), make([]bodypipe.Wish, n)
	bound, selected := make([]bodypipe.Wish, n), make([]bodypipe.Wish, n)
	p, upstream := &h.plans, false
	for i := range h.entries {
		e := &h.entries[i]
		if e.requestBody != nil {
			request[i] = e.requestBody.RequestBodyWish()
			request[i].FailOpen = e.open
			p.note(i, e.requestBody, request[i].Access)
			if err := e.fits(request[i], requestBodyLimit, h.RequestBodyLimit); err != nil {
				return err
			}
		}
		if e.responseBody != nil {
			wish := &response[h.responsePlace(i)]
			*wish = e.responseBody.ResponseBodyWish()
			wish.FailOpen = e.open
			if err := e.fits(*wish, responseBodyLimit, h.ResponseBodyLimit); err != nil {
				return err
			}
		}
		if e.bound != nil {
			bound[i] = bodypipe.Wish{Access: e.bound.BoundBodyAccess(), Mode: Buffer, Whole: true, FailOpen: e.open}
		}
		if e.selected != nil {
			selected[i] = bodypipe.Wish{Access: e.selected.SelectedBodyAccess(), Mode: Buffer, Whole: true, FailOpen: e.open}
		}
		if e.requestBody != nil || e.bound != nil || e.selected != nil {
			p.early = p.early.With(i)
		}
		upstream = upstream || e.bound != nil || e.selected != nil
		h.watches = h.watches || e.response != nil || e.log != nil
	}
	request[n] = bodypipe.Wish{Mode: Buffer, Whole: true}
	var err error
	if p.request, err = bodypipe.NewPlan(h.RequestBodyLimit, request...); err != nil {
		return fmt.Errorf("request body: %w", err)
	}
	if p.response, err = bodypipe.NewPlan(h.ResponseBodyLimit, response...); err != nil {
		return fmt.Errorf("response body: %w", err)
	}
	p.requestIdle = !upstream && p.request.Terms(bodypipe.Set(0).With(n)).Idle()
	p.responseIdle = p.response.Terms(0).Idle()
	h.watches = h.watches || !p.responseIdle
	if p.bound, err = upstreamPlan(h.RequestBodyLimit, bound); err != nil {
		return fmt.Errorf("bound body: %w", err)
	}
	p.selected, err = upstreamPlan(h.RequestBodyLimit, selected)
	return err
}

// note notes what a filter for the bodies of requests can do.
func (p *plans) note(i int, filter RequestBodyFilter, access Access) {
	if _, asked := filter.(BodyHeadFilter); asked {
		p.heads = p.heads.With(i)
	}
	if access == ReadWrite {
		p.writers = p.writers.With(i)
	}
}

// fits says what is wrong with a wish for more than may be held back. It isn't cut down: the filter relies on it.
func (e *entry) fits(w Wish, name string, limit int64) error {
	if w.Mode != Buffer || w.Max <= limit {
		return nil
	}
	return fmt.Errorf("%s: filter: it wants up to %d bytes held back; %s must be as much, and is %d", e.where, w.Max, name, limit)
}

// upstreamPlan returns a plan for upstream bodies, nil if no filter has access to them.
func upstreamPlan(limit int64, wishes []bodypipe.Wish) (*bodypipe.Plan, error) {
	if !slices.ContainsFunc(wishes, func(w bodypipe.Wish) bool { return w.Access != None }) {
		return nil, nil //nolint:nilnil // no plan is an answer
	}
	return bodypipe.NewPlan(limit, wishes...)
}
