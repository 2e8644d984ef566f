package bodypipe

import (
	"bytes"
	"math"
)

// kind is what a filter of the laws makes of the bytes. Each works byte by byte, so that what it makes of a body can't
// depend on how the body is cut.
type kind uint8

const (
	looks    kind = iota
	uppers        // replaces each byte by one other
	doubles       // makes two of each byte
	drops         // leaves out every byte that is divisible by 3
	delays        // holds one byte back until it has seen the next
	appends       // adds two bytes at the end
	swallows      // leaves out everything
	kindCount
)

// never is a place that no body reaches.
const never = math.MaxInt

// script is a filter of the laws. Places count the bytes that the filter sees; it acts when it has seen that many.
type script struct {
	wish      Wish
	kind      kind
	releaseAt int
	refuseAt  int
	// doneAt is after how many bytes it is done: it leaves later ones alone and acts on none of them.
	doneAt int
	// broken filters fail at every call.
	broken bool
}

// actor runs a script.
type actor struct {
	script
	seen    int
	late    []byte // the byte held back
	scratch []byte
	ended   bool
	calls   int
}

// filter takes a chunk.
func (a *actor) filter(c *Chunk) (Action, error) {
	a.calls++
	a.ended = a.ended || c.End()
	if a.broken {
		c.Replace([]byte("never seen"))
		return Release | Done, errBroken
	}
	// What was made of the last chunk is no longer good.
	for i := range a.scratch {
		a.scratch[i] = '#'
	}
	a.scratch = a.scratch[:0]
	for _, b := range c.Bytes() {
		a.take(b)
		if a.seen == a.refuseAt && a.seen <= a.doneAt {
			return Continue, Refuse(403)
		}
	}
	done := a.seen >= a.doneAt
	if c.End() || done {
		a.flush(c.End() && !done)
	}
	if a.wish.Access == ReadWrite && a.kind != looks {
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
func (a *actor) take(b byte) {
	if a.seen >= a.doneAt {
		a.flush(false)
		a.scratch = append(a.scratch, b)
		a.seen++
		return
	}
	a.seen++
	switch a.kind {
	case uppers:
		a.scratch = append(a.scratch, b^0x20)
	case doubles:
		a.scratch = append(a.scratch, b, b)
	case drops:
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
func (a *actor) flush(end bool) {
	a.scratch, a.late = append(a.scratch, a.late...), a.late[:0]
	if end && a.kind == appends {
		a.scratch = append(a.scratch, "<>"...)
	}
}

// made returns what a script makes of a body, or of the first bytes of one: the model of actor, without its state.
func (s script) made(body []byte, end bool) []byte {
	if s.wish.Access != ReadWrite || s.broken {
		return body
	}
	mine, rest := body, []byte(nil)
	over := len(body) >= s.doneAt
	if over {
		mine, rest = body[:s.doneAt], body[s.doneAt:]
	}
	var out []byte
	switch s.kind {
	case looks:
		return body
	case uppers:
		for _, b := range mine {
			out = append(out, b^0x20)
		}
	case doubles:
		for i := range mine {
			out = append(out, mine[i], mine[i])
		}
	case drops:
		for _, b := range mine {
			if b%3 != 0 {
				out = append(out, b)
			}
		}
	case delays:
		if out = mine; !end && !over && len(mine) > 0 {
			out = mine[:len(mine)-1]
		}
	case appends:
		if out = mine; end && !over {
			out = append(bytes.Clone(mine), "<>"...)
		}
	}
	return append(bytes.Clone(out), rest...)
}
