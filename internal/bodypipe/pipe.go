package bodypipe

// Setup is what a Pipe works with.
type Setup struct {
	Plan   *Plan
	Host   Host
	Budget Budget
	// Skip are the filters that have no part in this message: they are not called, and their wishes don't count.
	Skip Set
}

// Pipe carries one body past the filters. Start begins, Close ends; Push may be called between them. It is not safe for
// concurrent use and must not be copied while it is in use.
type Pipe struct {
	setup Setup
	terms Terms
	// buffers says that the plan buffers: no filter raises the limit of that later.
	buffers bool
	// asked are the limits that filters have asked for with Buffer and with SizeLimit, 0 for none.
	asked struct{ hold, limit int64 }
	done  Set
	// holders are the filters for which the body is held back and which may release it, released those that have.
	holders, released Set

	chunk   Chunk
	held    buffer
	extra   int64 // bytes taken from the budget for what filters put in the place of a whole body
	read    int64
	going   bool // something went on, or was allowed to
	changed bool
	ended   bool
	err     error
}

// Start begins a new body; all that the pipe knew of the last one is forgotten, what it held is given back.
func (p *Pipe) Start(s Setup) {
	p.Close()
	t := s.Plan.Terms(s.Skip)
	*p = Pipe{setup: s, terms: t, buffers: t.Mode == Buffer, done: s.Skip, holders: s.Plan.holders &^ s.Skip}
}

// Close gives back what the pipe holds. What Push returned is no longer good. It may be called more than once.
func (p *Pipe) Close() {
	if p.err == nil {
		p.err = ErrEnded
	}
	p.giveBack()
	p.chunk = Chunk{}
}

// giveBack frees what is held.
func (p *Pipe) giveBack() {
	if p.extra > 0 {
		p.setup.Budget.Held.Release(p.extra)
		p.extra = 0
	}
	p.held.free(p.setup.Budget)
}

// fail ends the body with an error. Every later call returns it too.
func (p *Pipe) fail(err error) error {
	p.err = err
	p.giveBack()
	p.chunk = Chunk{}
	return err
}

// Terms returns the terms on which the body passes, with the upgrades so far.
func (p *Pipe) Terms() Terms { return p.terms }

// Holding reports that nothing of the body has gone on yet and nothing may.
func (p *Pipe) Holding() bool { return p.terms.Mode == Buffer && !p.going && p.err == nil }

// Ended reports that the body has passed to its end.
func (p *Pipe) Ended() bool { return p.ended }

// Changed reports that some filter replaced bytes.
func (p *Pipe) Changed() bool { return p.changed }

// Read returns how many bytes of the body were taken.
func (p *Pipe) Read() int64 { return p.read }

// Upgrade has filter i ask for a stricter mode, with a limit as in a Wish, and reports whether it is in force. A mode
// never goes down, a limit on the whole body is never raised. A body that the plan buffers keeps the plan's limit; another
// is buffered up to the ceiling at most, and only as long as nothing of it has gone on. A filter that has access and asks
// for Buffer has the body held back until it releases it, as if it had wished for it.
func (p *Pipe) Upgrade(i int, mode Mode, most int64) bool {
	switch {
	case p.err != nil || mode > Buffer || most < 0:
		return false
	case mode == SizeLimit && most == 0:
		return false
	case mode == Buffer && p.going:
		return false
	}
	if mode == Buffer && p.setup.Plan.wishes[i].Access != None && !p.done.Has(i) {
		p.holders = p.holders.With(i)
	}
	switch {
	case mode == SizeLimit && (p.asked.limit == 0 || most < p.asked.limit):
		p.asked.limit = most
	case mode == Buffer && most == 0:
		p.asked.hold = p.setup.Plan.ceiling
	case mode == Buffer:
		p.asked.hold = max(p.asked.hold, most)
	}
	p.ask()
	return true
}

// ask has the terms be those that filters have asked for.
func (p *Pipe) ask() {
	if p.asked.hold > 0 && !p.buffers {
		p.terms.add(Buffer, p.asked.hold, p.setup.Plan.ceiling)
	}
	if p.asked.limit > 0 {
		p.terms.add(SizeLimit, p.asked.limit, p.setup.Plan.ceiling)
	}
}

// Skip has more filters take no part, as Setup.Skip does. It is for when nothing was pushed yet. What the others have asked
// for stays.
func (p *Pipe) Skip(more Set) {
	s, asked, holders := p.setup, p.asked, p.holders
	s.Skip |= more
	p.Start(s)
	p.asked, p.holders = asked, holders&^s.Skip
	p.ask()
}

// Declare checks a declared length, -1 for none, before anything is read. It fails with ErrTooLarge if a body of this
// length can't pass. A body that some filter may release before its end may be longer than what is held back.
func (p *Pipe) Declare(length int64) error {
	if p.err != nil {
		return p.err
	}
	whole := p.terms.Whole < len(p.setup.Plan.wishes)
	if length > p.terms.Limit || whole && length > p.terms.Hold {
		return p.fail(ErrTooLarge)
	}
	return nil
}

// Push takes the next bytes of the body; end says that it ends with them. It returns how many of them it took and what
// goes on now, which may be empty. It takes fewer than all only when the body was released at the very limit; then the
// caller pushes the rest, with the same end.
//
// What goes on is good until the next call, and so must be in: the one may be part of the other. An error is final.
func (p *Pipe) Push(in []byte, end bool) (n int, out []byte, err error) {
	switch {
	case p.err != nil:
		return 0, nil, p.err
	case p.ended:
		return 0, nil, ErrEnded
	}
	if p.going {
		p.giveBack()
	}
	if int64(len(in)) > p.terms.Limit-p.read {
		return 0, nil, p.fail(ErrTooLarge)
	}
	n = len(in)
	// The filters see what may be held, and decide on it, before the first byte too many counts. So it doesn't matter
	// how the body was cut.
	if room := max(0, p.terms.Hold-p.read); p.Holding() && int64(n) > room {
		n, end = int(room), false
	}
	if n > 0 || end {
		p.read += int64(n)
		out, err = p.run(in[:n], end)
	}
	// A filter may have asked for a limit since.
	if err == nil && (n < len(in) && p.Holding() || p.read > p.terms.Limit) {
		err = ErrTooLarge
	}
	if err != nil {
		return 0, nil, p.fail(err)
	}
	return n, out, nil
}

// run has the filters see bytes and decides what goes on.
func (p *Pipe) run(in []byte, end bool) ([]byte, error) {
	p.chunk = Chunk{data: in, end: end}
	whole := p.terms.Whole
	err := p.pass(0, whole)
	p.changed = p.changed || p.chunk.replaced
	if err != nil {
		return nil, err
	}
	switch {
	case !p.Holding():
		p.going = true
	case p.agreed():
		err = p.release()
	case end:
		err = p.finish(whole)
	default:
		return nil, p.keep()
	}
	p.ended = end && err == nil
	return p.chunk.data, err
}

// agreed reports whether all for whom the body is held back have released it. Where there are none nobody can.
func (p *Pipe) agreed() bool {
	return p.terms.Whole == len(p.setup.Plan.wishes) && p.holders != 0 && p.holders&^p.released == 0
}

// tooMuch reports whether more came, or was made of it, than is held back. What came is more only if a filter has asked for
// that limit when it saw the first chunk.
func (p *Pipe) tooMuch() bool {
	return max(p.read, int64(p.held.n+len(p.chunk.data))) > p.terms.Hold
}

// keep holds the chunk back.
func (p *Pipe) keep() error {
	if p.tooMuch() {
		return ErrTooLarge
	}
	return p.held.add(p.chunk.data, p.terms.Hold, p.setup.Budget)
}

// join puts what is held in front of the chunk.
func (p *Pipe) join() error {
	if p.held.n == 0 {
		return nil
	}
	if err := p.held.add(p.chunk.data, p.terms.Hold, p.setup.Budget); err != nil {
		return err
	}
	p.chunk.data, p.chunk.replaced = p.held.bytes(), false
	return nil
}

// release has what is held go on, and the chunk.
func (p *Pipe) release() error {
	if err := p.join(); err != nil {
		return err
	}
	return p.letGo()
}

// letGo has the chunk, with which all that was held is joined, go on. What a filter put in its place counts as held as
// long as it waits to go.
func (p *Pipe) letGo() error {
	p.going = true
	if !p.chunk.replaced {
		return nil
	}
	n := int64(len(p.chunk.data))
	if err := p.setup.Budget.take(n); err != nil {
		return err
	}
	p.extra = n
	return nil
}

// finish has the filters from a place on see what is held with the chunk as its end, and has it go on.
func (p *Pipe) finish(from int) error {
	if p.tooMuch() {
		return ErrTooLarge
	}
	if err := p.join(); err != nil {
		return err
	}
	err := p.pass(from, len(p.setup.Plan.wishes))
	p.changed = p.changed || p.chunk.replaced
	if err != nil {
		return err
	}
	if int64(len(p.chunk.data)) > p.terms.Hold {
		return ErrTooLarge
	}
	return p.letGo()
}

// Adapt derives another body from a complete one, which stays as it is: it starts the pipe and pushes the body through
// it at once. The filters of an upstream make the body of an attempt so, for each attempt from the same one. The plan
// must buffer; a result above its limit is ErrTooLarge. The result may be the body itself. It is good until the pipe
// starts again or is closed.
func (p *Pipe) Adapt(s Setup, body []byte) ([]byte, error) {
	p.Start(s)
	_, out, err := p.Push(body, true)
	if err != nil {
		return nil, err
	}
	if p.terms.Mode == Buffer && int64(len(out)) > p.terms.Hold {
		return nil, p.fail(ErrTooLarge)
	}
	return out, nil
}
