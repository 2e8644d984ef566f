package pipeline

import (
	"bytes"
	"errors"
	"math"
)

// noPlace is a place that no body reaches.
const noPlace = math.MaxInt

// lawKind is what a filter of the laws makes of the bytes. Each works byte by byte, so that what it makes of a body can't
// depend on how the body is cut.
type lawKind uint8

const (
	looks    lawKind = iota
	swaps            // replaces each byte by one other
	doubles          // makes two of each byte
	thins            // leaves out every byte that is divisible by 3
	delays           // holds one byte back until it has seen the next
	appends          // adds two bytes at the end
	swallows         // leaves out everything
	lawKinds
)

// lawFault is how a filter fails.
type lawFault uint8

const (
	sound lawFault = iota
	// breaks is to return an error that is no rejection.
	breaks
	// cheats is to replace bytes that it may only read.
	cheats
	// panics is to panic, which no failure mode passes over.
	panics
	lawFaults
)

var errLaw = errors.New("a filter of the laws broke")

// bodyScript is what a filter does with the body of one direction. Places count the bytes that it sees; it acts when it
// has seen that many.
type bodyScript struct {
	wish      Wish
	kind      lawKind
	releaseAt int
	refuseAt  int
	// refusal is the status that it refuses with.
	refusal int
	// doneAt is after how many bytes it is done: it leaves later ones alone and acts on none of them.
	doneAt int
	// open says that its faults are passed over.
	open  bool
	fault lawFault
	// asks is the mode that it asks for when it is called first; Stream is not to ask.
	asks Wish
}

// hookScript is what a filter does with the header of one direction.
type hookScript struct {
	fault lawFault
	// refusal is the status that it refuses with, 0 for not to.
	refusal int
	// asks is the mode that it asks for; Stream is not to ask.
	asks Wish
	// status is what it changes the status of a response to, 0 for not to.
	status int
}

// writes reports whether the filter puts other bytes in the place of those that it sees.
func (s *bodyScript) writes() bool {
	return s.wish.Access == ReadWrite && s.fault == sound && s.kind != looks
}

// lawActor runs a bodyScript for one body.
type lawActor struct {
	*bodyScript
	// ask asks for another mode.
	ask     func(Mode, int64) bool
	seen    int
	late    []byte // the byte held back
	scratch []byte
	calls   int
	ended   bool
}

// piece takes a piece of the body.
func (a *lawActor) piece(_ *Exchange, c *Chunk) (Action, error) {
	a.calls++
	a.ended = a.ended || c.End()
	if a.calls == 1 && a.asks.Mode != Stream {
		a.ask(a.asks.Mode, a.asks.Max)
	}
	switch a.fault {
	case panics:
		panic(errLaw)
	case breaks, cheats:
		c.Replace([]byte("never seen"))
		if a.fault == cheats && a.wish.Access == ReadOnly {
			return Release | Done, nil
		}
		return Release | Done, errLaw
	}
	for i := range a.scratch { // what was made of the last piece is no longer good
		a.scratch[i] = '#'
	}
	a.scratch = a.scratch[:0]
	for _, b := range c.Bytes() {
		a.take(b)
		if a.seen == a.refuseAt && a.seen <= a.doneAt {
			return Continue, Reject(a.refusal, errLaw)
		}
	}
	done := a.seen >= a.doneAt
	if c.End() || done {
		a.flush(c.End() && !done)
	}
	if a.writes() {
		c.Replace(a.scratch)
	}
	act := Continue
	if a.seen >= a.releaseAt && a.releaseAt <= a.doneAt {
		act |= Release
	}
	if done {
		act |= Done
	}
	return act, nil
}

// take makes something of one byte.
func (a *lawActor) take(b byte) {
	if a.seen >= a.doneAt {
		a.flush(false)
		a.scratch = append(a.scratch, b)
		a.seen++
		return
	}
	a.seen++
	switch a.kind {
	case swaps:
		a.scratch = append(a.scratch, b^0x20)
	case doubles:
		a.scratch = append(a.scratch, b, b)
	case thins:
		if b%3 != 0 {
			a.scratch = append(a.scratch, b)
		}
	case delays:
		a.flush(false)
		a.late = append(a.late, b)
	case swallows:
	default:
		a.scratch = append(a.scratch, b)
	}
}

// flush gives what was held back, and at the end what is appended.
func (a *lawActor) flush(end bool) {
	a.scratch, a.late = append(a.scratch, a.late...), a.late[:0]
	if end && a.kind == appends {
		a.scratch = append(a.scratch, "<>"...)
	}
}

// made returns what a filter makes of a body, or of the first bytes of one: the model of lawActor, without its state.
func (s *bodyScript) made(body []byte, end bool) []byte {
	if !s.writes() {
		return body
	}
	over := len(body) >= s.doneAt
	mine, rest := body, []byte(nil)
	if over {
		mine, rest = body[:s.doneAt], body[s.doneAt:]
	}
	var out []byte
	switch s.kind {
	case delays:
		if out = bytes.Clone(mine); !end && !over && len(mine) > 0 {
			out = out[:len(mine)-1]
		}
	case appends:
		if out = bytes.Clone(mine); end && !over {
			out = append(out, "<>"...)
		}
	default:
		for _, b := range mine {
			out = append(out, s.each(b)...)
		}
	}
	return append(out, rest...)
}

// each returns what the filter makes of a byte.
func (s *bodyScript) each(b byte) []byte {
	switch {
	case s.kind == swallows, s.kind == thins && b%3 == 0:
		return nil
	case s.kind == swaps:
		return []byte{b ^ 0x20}
	case s.kind == doubles:
		return []byte{b, b}
	}
	return []byte{b}
}
