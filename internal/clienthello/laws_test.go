package clienthello

import (
	"bytes"
	"fmt"
	"testing"

	"github.com/caddy-sluice/sluice/internal/testkit/hellos"
)

// answer is what the parser says about a window: the status, or the content of a complete hello.
func answer(window []byte) string {
	var p Parser
	if status := p.Parse(window); status != Complete {
		return status.String()
	}
	return content(p.Hello())
}

// content describes what routes a hello, in the words that the tables use.
func content(h *Hello) string {
	name := "none"
	if h.ServerName != nil {
		name = fmt.Sprintf("%q", h.ServerName)
	}
	text := fmt.Sprintf("sni=%s alpn=%q", name, h.ALPN.Strings())
	if h.ECH {
		text += " ech"
	}
	return text
}

// outcome is everything the parser says, in a form that can be compared.
func outcome(p *Parser) string {
	h := p.Hello()
	if h == nil {
		return p.status.String()
	}
	return fmt.Sprintf("%s versions=%x legacy=%04x size=%d records=%d wire=%d",
		content(h), h.SupportedVersions, h.LegacyVersion, h.Size, h.Records, h.WireSize)
}

// checkLaws checks what holds for every window, sound or not. cuts are the sizes of the reads in which it arrives,
// the last read brings the rest.
func checkLaws(t *testing.T, window, cuts []byte) {
	t.Helper()
	before := bytes.Clone(window)
	var whole Parser
	status := whole.Parse(window)
	checkReads(t, window, cuts, outcome(&whole))
	checkViews(t, window, whole.Hello())
	if status != NeedMore {
		checkFinal(t, window, &whole)
	}
	if got, most := allocations(window), mayAllocate(&whole); got > most {
		t.Errorf("got %v allocations, want at most %v", got, most)
	}
	if !bytes.Equal(window, before) {
		t.Error("the window was changed")
	}
}

// checkReads feeds the window in pieces, each time at another place in memory, and wants the answer of the whole.
func checkReads(t *testing.T, window, cuts []byte, want string) {
	t.Helper()
	var p Parser
	end := 0
	for _, cut := range cuts {
		end = min(end+int(cut), len(window))
		if p.Parse(bytes.Clone(window[:end])) != NeedMore {
			break
		}
	}
	p.Parse(bytes.Clone(window))
	if got := outcome(&p); got != want {
		t.Errorf("in reads of %v: got %v, want %v", cuts, got, want)
	}
}

// checkFinal wants the same answer on a longer window, from the parser that gave it and from a fresh one.
func checkFinal(t *testing.T, window []byte, decided *Parser) {
	t.Helper()
	want := outcome(decided)
	for _, more := range []string{"\x00", "\x15\x03\x03\xff\xff", string(window)} {
		longer := append(bytes.Clone(window), more...)
		var fresh Parser
		fresh.Parse(longer)
		decided.Parse(longer)
		if got := outcome(&fresh); got != want {
			t.Errorf("with %d more bytes: got %v, want %v", len(more), got, want)
		}
		if got := outcome(decided); got != want {
			t.Errorf("called again with %d more bytes: got %v, want %v", len(more), got, want)
		}
	}
}

// checkViews wants the slices of a hello in the window when its message lies in one record, outside of it
// otherwise, and in both cases without room to append to.
func checkViews(t *testing.T, window []byte, h *Hello) {
	t.Helper()
	if h == nil {
		return
	}
	if h.WireSize > len(window) || h.Size+recordHeader*h.Records > h.WireSize {
		t.Errorf("got size %d in %d records, wire size %d of %d", h.Size, h.Records, h.WireSize, len(window))
	}
	want := len(fragments(window[:h.WireSize])) == 1
	for _, view := range [][]byte{h.ServerName, h.ALPN, h.SupportedVersions} {
		if cap(view) != len(view) {
			t.Errorf("got capacity %d of view %q, want %d", cap(view), view, len(view))
		}
		if len(view) > 0 && inside(view, window[:h.WireSize]) != want {
			t.Errorf("view %q lies in the window: got %v, want %v", view, !want, want)
		}
	}
}

// inside says whether view is a part of memory.
func inside(view, memory []byte) bool {
	for i := range memory {
		if &memory[i] == &view[0] {
			return len(view) <= len(memory)-i
		}
	}
	return false
}

// fragments returns the contents of complete records that have any.
func fragments(wire []byte) [][]byte {
	var all [][]byte
	for len(wire) > 0 {
		end := recordHeader + int(wire[3])<<8 + int(wire[4])
		if end > recordHeader {
			all = append(all, wire[recordHeader:end])
		}
		wire = wire[end:]
	}
	return all
}

// allocations counts what a parse of the window allocates.
func allocations(window []byte) float64 {
	return testing.AllocsPerRun(5, func() {
		var p Parser
		p.Parse(window)
	})
}

// mayAllocate is how often a parse that ended like p may allocate: only for a message that lies in several records,
// and only once all of it is there.
func mayAllocate(p *Parser) float64 {
	h := p.Hello()
	if p.status == MalformedHandshake || h != nil && h.Records > 1 {
		return 1
	}
	return 0
}

// checkRecords cuts the message of a hello into other records and wants the same hello.
func checkRecords(t *testing.T, message []byte, sizes []int) {
	t.Helper()
	var one, many Parser
	oneStatus := one.Parse(hellos.Wrap(message, hellos.MaxRecord))
	wire := hellos.Wrap(message, sizes...)
	if got := many.Parse(wire); got != oneStatus {
		t.Fatalf("in records of %v: got %v, want %v", sizes, got, oneStatus)
	}
	if oneStatus != Complete {
		return
	}
	got, want := many.Hello().Clone(), one.Hello().Clone()
	if got.WireSize != len(wire) || got.WireSize != got.Size+recordHeader*got.Records {
		t.Errorf("got %d bytes on the wire in %d records, want %d", got.WireSize, got.Records, len(wire))
	}
	got.Records, got.WireSize = want.Records, want.WireSize
	if g, w := outcome(&Parser{status: Complete, hello: *got}), outcome(&one); g != w {
		t.Errorf("in records of %v: got %v, want %v", sizes, g, w)
	}
}
