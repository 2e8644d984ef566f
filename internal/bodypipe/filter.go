package bodypipe

import "errors"

// Action is what a filter wants after it has seen a chunk. Release and Done may be joined with |.
type Action uint8

const (
	// Continue is to go on as before.
	Continue Action = 0
	// Release is that the filter doesn't need the body held back any more, neither this piece nor later ones. It counts only
	// from filters that wished for Buffer, or asked for it. The body goes on when all of them have released it or are done,
	// and none wants it whole.
	Release Action = 1
	// Done is to see no more of this body. It means Release too.
	Done Action = 2
)

// Host runs the filters of one message.
type Host interface {
	// Filter gives a chunk to the filter at place i of the plan. An error ends the body: it should be a Refusal where the
	// filter means to refuse, anything else is a failure of the filter. The chunk is good until Filter returns.
	Filter(i int, c *Chunk) (Action, error)
}

// Chunk is a part of a body, or with Whole all of it, as the filters before left it.
type Chunk struct {
	data     []byte
	end      bool
	writable bool
	replaced bool
	denied   bool
}

// Bytes returns the chunk. They are not the filter's: it must not change them, nor look at them after it returned. They
// are empty only at the end.
func (c *Chunk) Bytes() []byte { return c.data }

// End reports that the body ends with this chunk. A filter that is not done and doesn't fail gets one such chunk for
// each body.
func (c *Chunk) End() bool { return c.end }

// Replace puts other bytes in the place of the chunk, of any length, also none. At the end a filter appends by giving
// the chunk and more. The bytes must stay as they are until the filter is called again or the body is over; they may be
// a part of Bytes.
func (c *Chunk) Replace(b []byte) {
	if !c.writable {
		c.denied = true
		return
	}
	c.data, c.replaced = b, true
}

// pass gives the chunk to the filters from one place up to before another, and notes what they want.
func (p *Pipe) pass(from, to int) error {
	for i := from; i < to; i++ {
		w := &p.setup.Plan.wishes[i]
		if w.Access == None || p.done.Has(i) {
			continue
		}
		if len(p.chunk.data) == 0 && !p.chunk.end {
			break
		}
		act, err := p.call(i, w)
		if err != nil {
			return err
		}
		if act&Done != 0 {
			p.done = p.done.With(i)
		}
		if act&(Release|Done) != 0 && p.holders.Has(i) {
			p.released = p.released.With(i)
		}
	}
	return nil
}

// call gives the chunk to one filter.
func (p *Pipe) call(i int, w *Wish) (Action, error) {
	c := &p.chunk
	before, replaced := c.data, c.replaced
	c.writable, c.denied = w.Access == ReadWrite, false
	act, err := p.setup.Host.Filter(i, c)
	if err == nil && c.denied {
		err = ErrReadOnly
	}
	if err == nil {
		return act, nil
	}
	if _, refused := errors.AsType[Refusal](err); refused || !w.FailOpen {
		return Continue, err
	}
	c.data, c.replaced = before, replaced
	return Continue, nil
}
