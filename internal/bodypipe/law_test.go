package bodypipe

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"testing"
)

// tape makes decisions from bytes. When it has run out all are 0.
type tape struct{ b []byte }

// below takes a number below n.
func (t *tape) below(n int) int {
	if len(t.b) == 0 {
		return 0
	}
	v := int(t.b[0])
	t.b = t.b[1:]
	return v % n
}

// rarely is true once in n times, never when the tape has run out.
func (t *tape) rarely(n int) bool { return t.below(n) == n-1 }

// place takes a place in a body, most often never.
func (t *tape) place() int {
	if at := t.below(120); at < 60 {
		return at + 1
	}
	return never
}

func (t *tape) wish() Wish {
	w := Wish{Access: Access(t.below(3)), Mode: Mode(t.below(3)), FailOpen: t.rarely(2)}
	switch w.Mode {
	case SizeLimit:
		w.Max = int64(t.below(200)) + 1
	case Buffer:
		w.Max, w.Whole = int64(t.below(150)), t.rarely(3)
		if w.Max >= 100 {
			w.Max = 0
		}
	}
	return w
}

func (t *tape) script() script {
	s := script{wish: t.wish(), kind: kind(t.below(int(kindCount))), releaseAt: t.place(), refuseAt: never, doneAt: never}
	if t.rarely(4) {
		s.refuseAt = t.place()
	}
	if t.rarely(4) {
		s.doneAt = t.below(60)
	}
	s.broken = t.rarely(10)
	return s
}

func (t *tape) world() *world {
	w := &world{ceiling: int64(t.below(120)) + 1}
	for range t.below(5) {
		w.filters = append(w.filters, t.script())
	}
	if t.rarely(3) {
		w.skip = Set(t.below(16))
	}
	if t.rarely(5) {
		w.budget = int64(t.below(4)) * 300
	}
	if t.rarely(3) && len(w.filters) > 0 {
		w.asker, w.upgrade = t.below(len(w.filters)), t.wish()
	}
	times := 1
	if t.rarely(8) { // so much that blocks are exchanged
		times = 10
		w.ceiling *= 10
	}
	w.body = bytes.Repeat(t.b[:min(len(t.b), 150)], times)
	return w
}

// passage is one body on its way through a pipe.
type passage struct {
	t      *testing.T
	pipe   Pipe
	actors []actor
	budget Budget
	gone   []byte
}

func (p *passage) Filter(i int, c *Chunk) (Action, error) { return p.actors[i].filter(c) }

func (w *world) start(t *testing.T) *passage {
	t.Helper()
	p := &passage{t: t, budget: newBudget(w.budget), actors: make([]actor, len(w.filters))}
	var wishes []Wish
	for i, f := range w.filters {
		wishes = append(wishes, f.wish)
		p.actors[i].script = f
	}
	p.pipe.Start(Setup{Plan: mustPlan(t, w.ceiling, wishes...), Host: p, Budget: p.budget, Skip: w.skip})
	if w.asks() {
		p.pipe.Upgrade(w.asker, w.upgrade.Mode, w.upgrade.Max)
	}
	return p
}

// pass pushes the body as the cuts say: each is the size of a chunk, those past the last are as large as the rest.
func (p *passage) pass(body []byte, cuts []byte) error {
	p.t.Helper()
	for {
		size := len(body)
		if len(cuts) > 0 {
			size, cuts = min(size, int(cuts[0]%32)), cuts[1:]
		}
		// Half of the ends come with the last bytes, half of them later and alone.
		end := size == len(body) && (size == 0 || len(cuts) == 0 || cuts[0]%2 == 0)
		chunk := bytes.Clone(body[:size])
		n, err := p.push(chunk, end)
		if err != nil || p.pipe.Ended() {
			return err
		}
		body = body[n:]
	}
}

// push pushes a chunk and checks what must be true after each.
func (p *passage) push(chunk []byte, end bool) (int, error) {
	p.t.Helper()
	n, out, err := p.pipe.Push(chunk, end)
	if p.pipe.Holding() && len(out) > 0 {
		p.t.Fatalf("got %q gone on while the body is held", out)
	}
	if err != nil && (n != 0 || out != nil || p.pipe.Ended()) || n < len(chunk) && err == nil && (p.pipe.Holding() || p.pipe.Ended()) {
		p.t.Fatalf("got %d of %d taken, %q gone on, %v", n, len(chunk), out, err)
	}
	held := p.budget.Held.Load()
	if p.pipe.Holding() && held > max(minBlock, 2*int64(p.pipe.held.n)) {
		p.t.Fatalf("got %d bytes held for %d", held, p.pipe.held.n)
	}
	if limit := p.budget.Limit; limit > 0 && held > limit {
		p.t.Fatalf("got %d bytes held, above the limit %d", held, limit)
	}
	p.gone = append(p.gone, out...)
	for i := range chunk { // the caller reuses it
		chunk[i] = '?'
	}
	return n, err
}

// check compares a passage with the verdict, and sees that it is over.
func (p *passage) check(w *world, v verdict, err error) {
	p.t.Helper()
	if !v.allows(err) {
		p.t.Fatalf("got error %v with %q gone on, want one of %v", err, p.gone, v.causes)
	}
	if err == nil && !bytes.Equal(p.gone, v.out) {
		p.t.Fatalf("got %q, want %q", p.gone, v.out)
	}
	if err != nil && (!bytes.HasPrefix(v.out, p.gone) || v.held && len(p.gone) > 0) {
		p.t.Fatalf("got %q gone on before %v, want a beginning of %q, held back %v", p.gone, err, v.out, v.held)
	}
	for i := range p.actors {
		a := &p.actors[i]
		if !w.takesPart(i) && a.calls > 0 {
			p.t.Fatalf("filter %d has no part in it, but was called", i)
		}
		// Each sees an end, unless it is done or breaks.
		if w.takesPart(i) && err == nil && !a.broken && !a.ended && a.seen < a.doneAt {
			p.t.Fatalf("filter %d has seen no end", i)
		}
	}
	want := err
	if err == nil {
		want = ErrEnded
	} else if held := p.budget.Held.Load(); held != 0 {
		p.t.Fatalf("got %d bytes held after an error", held)
	}
	if _, _, again := p.pipe.Push([]byte("x"), true); !errors.Is(again, want) {
		p.t.Fatalf("pushed again: got %v, want %v", again, want)
	}
	p.pipe.Close()
	wantHeld(p.t, p.budget, 0)
}

// checkWorld has a body pass in some cut, in one piece and byte by byte.
func checkWorld(t *testing.T, decisions, cuts []byte) {
	t.Helper()
	w := (&tape{decisions}).world()
	defer func() {
		if t.Failed() {
			t.Logf("decisions %q, cuts %q, world %+v", decisions, cuts, w)
		}
	}()
	v := w.verdict()
	single := bytes.Repeat([]byte{1}, len(w.body))
	for _, cut := range [][]byte{cuts, nil, single} {
		p := w.start(t)
		err := p.pass(w.body, cut)
		p.check(w, v, err)
	}
}

// TestLaws has many random bodies pass random filters: what goes on is what the model says, however they are cut.
func TestLaws(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for range 30000 {
		decisions, cuts := make([]byte, rng.IntN(220)), make([]byte, rng.IntN(40))
		for _, b := range [][]byte{decisions, cuts} {
			for i := range b {
				b[i] = byte(rng.Uint32())
			}
		}
		checkWorld(t, decisions, cuts)
	}
}

func FuzzPipe(f *testing.F) {
	f.Add([]byte("\x0a\x02\x02\x02\x00\x05\x01\x03\x50\x00\x00\x00body of some length"), []byte("\x03\x01\x00\x07"))
	f.Add(bytes.Repeat([]byte{0x11, 0x02, 0x29, 0x05}, 40), []byte{1, 1, 2, 3, 5, 8})
	f.Fuzz(checkWorld)
}
