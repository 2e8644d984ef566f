package bodypipe

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
)

// errBroken is a failure of a filter.
var errBroken = errors.New("filter broke")

// host runs one function for each filter.
type host []func(c *Chunk) (Action, error)

func (h host) Filter(i int, c *Chunk) (Action, error) { return h[i](c) }

// log is a host that writes down what its filters see, as "0:bytes" or "0:bytes." at the end. What a filter answers is
// told by the bytes: see answer.
type log struct{ seen []string }

func (l *log) Filter(i int, c *Chunk) (Action, error) {
	entry := fmt.Sprintf("%d:%s", i, c.Bytes())
	if c.End() {
		entry += "."
	}
	l.seen = append(l.seen, entry)
	return answer(i, c)
}

// answer has filter i look for a word that ends with its number.
func answer(i int, c *Chunk) (Action, error) {
	has := func(word string) bool { return bytes.Contains(c.Bytes(), fmt.Appendf(nil, "%s%d", word, i)) }
	act := Continue
	if has("release") {
		act |= Release
	}
	if has("done") {
		act |= Done
	}
	switch {
	case has("refuse"):
		return act, Refuse(403)
	case has("break"):
		c.Replace([]byte("half of it"))
		return act, errBroken
	case has("upper"):
		c.Replace(bytes.ToUpper(c.Bytes()))
	case has("empty"):
		c.Replace(nil)
	case has("more"):
		c.Replace(append(slices.Clone(c.Bytes()), "+++"...))
	}
	return act, nil
}

// push pushes chunks, the last one as the end if it ends with a full stop, and returns what went on and the error.
func push(t *testing.T, p *Pipe, chunks ...string) (out []string, err error) {
	t.Helper()
	for _, chunk := range chunks {
		in, end := strings.CutSuffix(chunk, ".")
		n, got, err := p.Push([]byte(in), end)
		if err != nil {
			if n != 0 || got != nil {
				t.Errorf("got %d bytes taken and %q with error %v", n, got, err)
			}
			return out, err
		}
		if n != len(in) {
			t.Fatalf("got %d of %d bytes taken", n, len(in))
		}
		out = append(out, string(got))
	}
	return out, nil
}

var (
	reads   = Wish{Access: ReadOnly}
	writes  = Wish{Access: ReadWrite}
	peeks   = Wish{Access: ReadOnly, Mode: Buffer}
	edits   = Wish{Access: ReadWrite, Mode: Buffer}
	judges  = Wish{Access: ReadOnly, Mode: Buffer, Whole: true}
	rewords = Wish{Access: ReadWrite, Mode: Buffer, Whole: true}
	keeps   = Wish{Mode: Buffer, Whole: true}
)

// open returns a wish that fails open.
func open(w Wish) Wish {
	w.FailOpen = true
	return w
}

// TestPass has chunks pass filters: what they see, what goes on after each chunk.
func TestPass(t *testing.T) {
	for _, tt := range []struct {
		name   string
		wishes []Wish
		in     []string
		out    []string
		seen   []string
		err    error
	}{
		{"H70_no_filters", nil, []string{"a", "b", "."}, []string{"a", "b", ""}, nil, nil},
		{"H91_access_none", []Wish{{}, {}}, []string{"a", "."}, []string{"a", ""}, nil, nil},
		{"H80_in_order", []Wish{reads, writes, reads}, []string{"a", "b."}, []string{"a", "b"}, []string{"0:a", "1:a", "2:a", "0:b.", "1:b.", "2:b."}, nil},
		{"an empty chunk is nothing", []Wish{reads}, []string{"", "a", "", "."}, []string{"", "a", "", ""}, []string{"0:a", "0:."}, nil},
		{"release means nothing in a stream", []Wish{reads}, []string{"release0", "b."}, []string{"release0", "b"}, []string{"0:release0", "0:b."}, nil},
		{"a later filter sees what an earlier one made", []Wish{writes, reads}, []string{"upper0", "x."}, []string{"UPPER0", "x"}, []string{"0:upper0", "1:UPPER0", "0:x.", "1:x."}, nil},
		{"nothing is left for a later filter", []Wish{writes, reads}, []string{"empty0", "empty0."}, []string{"", ""}, []string{"0:empty0", "0:empty0.", "1:."}, nil},
		{"appended at the end", []Wish{writes}, []string{"a", "more0."}, []string{"a", "more0+++"}, []string{"0:a", "0:more0."}, nil},
		{"H85_done", []Wish{reads, reads}, []string{"done0", "b", "c."}, []string{"done0", "b", "c"}, []string{"0:done0", "1:done0", "1:b", "1:c."}, nil},
		{"H79_refused", []Wish{reads, reads}, []string{"a", "refuse0"}, []string{"a"}, []string{"0:a", "1:a", "0:refuse0"}, Refuse(403)},
		{"H81_broken", []Wish{reads, reads}, []string{"break0"}, nil, []string{"0:break0"}, errBroken},
		{"H82_broken and open", []Wish{open(writes), reads}, []string{"break0", "b."}, []string{"break0", "b"}, []string{"0:break0", "1:break0", "0:b.", "1:b."}, nil},
		{"refused is not broken", []Wish{open(reads)}, []string{"refuse0"}, nil, []string{"0:refuse0"}, Refuse(403)},
		{"a reader that writes", []Wish{reads}, []string{"upper0"}, nil, []string{"0:upper0"}, ErrReadOnly},
		{"a reader that writes, open", []Wish{open(reads), reads}, []string{"upper0."}, []string{"upper0"}, []string{"0:upper0.", "1:upper0."}, nil},
		{"an open filter keeps what others made", []Wish{writes, open(writes)}, []string{"upper0 break1."}, []string{"UPPER0 BREAK1"}, []string{"0:upper0 break1.", "1:UPPER0 BREAK1."}, nil},

		{"held to the end", []Wish{peeks, reads}, []string{"a", "b", "."}, []string{"", "", "ab"}, []string{"0:a", "1:a", "0:b", "1:b", "0:.", "1:."}, nil},
		{"H75_empty_body", []Wish{peeks}, []string{"."}, []string{""}, []string{"0:."}, nil},
		{"at once", []Wish{peeks}, []string{"ab."}, []string{"ab"}, []string{"0:ab."}, nil},
		{"H86_released", []Wish{peeks}, []string{"a", "release0", "b", "c."}, []string{"", "arelease0", "b", "c"}, []string{"0:a", "0:release0", "0:b", "0:c."}, nil},
		{"released at once", []Wish{peeks}, []string{"release0", "b."}, []string{"release0", "b"}, []string{"0:release0", "0:b."}, nil},
		{"not released by one that hasn't asked", []Wish{peeks, reads}, []string{"a", "release1", "b."}, []string{"", "", "arelease1b"}, []string{"0:a", "1:a", "0:release1", "1:release1", "0:b.", "1:b."}, nil},
		{"released by one of two", []Wish{peeks, peeks}, []string{"release0", "b."}, []string{"", "release0b"}, []string{"0:release0", "1:release0", "0:b.", "1:b."}, nil},
		{"released by both, one after the other", []Wish{peeks, peeks}, []string{"release1", "a", "release0", "b."}, []string{"", "", "release1arelease0", "b"}, []string{"0:release1", "1:release1", "0:a", "1:a", "0:release0", "1:release0", "0:b.", "1:b."}, nil},
		{"released by one, the other is done", []Wish{peeks, peeks}, []string{"done1", "release0", "b."}, []string{"", "done1release0", "b"}, []string{"0:done1", "1:done1", "0:release0", "0:b."}, nil},
		{"released by one, another breaks", []Wish{peeks, open(peeks)}, []string{"release0 break1", "b."}, []string{"", "release0 break1b"}, []string{"0:release0 break1", "1:release0 break1", "0:b.", "1:b."}, nil},
		{"nobody can release what is held for one without access", []Wish{{Mode: Buffer}, reads}, []string{"release1", "b."}, []string{"", "release1b"}, []string{"1:release1", "1:b."}, nil},
		{"released, but a later filter refuses", []Wish{peeks, peeks}, []string{"a", "release0 refuse1"}, []string{""}, []string{"0:a", "1:a", "0:release0 refuse1", "1:release0 refuse1"}, Refuse(403)},
		{"released and done", []Wish{peeks, reads}, []string{"release0 done0", "b."}, []string{"release0 done0", "b"}, []string{"0:release0 done0", "1:release0 done0", "1:b."}, nil},
		{"all done", []Wish{peeks}, []string{"done0", "b", "c."}, []string{"done0", "b", "c"}, []string{"0:done0"}, nil},
		{"a broken filter releases nothing", []Wish{open(edits)}, []string{"release0 break0", "b."}, []string{"", "release0 break0b"}, []string{"0:release0 break0", "0:b."}, nil},
		{"edited while held", []Wish{edits, edits}, []string{"upper0", "empty1", "more0."}, []string{"", "", "UPPER0more0+++"}, []string{"0:upper0", "1:UPPER0", "0:empty1", "1:empty1", "0:more0.", "1:more0+++."}, nil},
		{"edited as it is released", []Wish{edits}, []string{"a", "upper0 release0."}, []string{"", "aUPPER0 RELEASE0"}, []string{"0:a", "0:upper0 release0."}, nil},
		{"refused while held", []Wish{peeks}, []string{"a", "refuse0"}, []string{""}, []string{"0:a", "0:refuse0"}, Refuse(403)},
		{"broken at the end", []Wish{peeks}, []string{"a", "break0."}, []string{""}, []string{"0:a", "0:break0."}, errBroken},

		{"whole", []Wish{judges}, []string{"a", "b", "."}, []string{"", "", "ab"}, []string{"0:ab."}, nil},
		{"whole and empty", []Wish{judges}, []string{"."}, []string{""}, []string{"0:."}, nil},
		{"H77_whole and rewritten", []Wish{rewords, judges}, []string{"upper", "0."}, []string{"", "UPPER0"}, []string{"0:upper0.", "1:UPPER0."}, nil},
		{"H94_whole and emptied", []Wish{rewords, rewords}, []string{"empty", "0."}, []string{"", ""}, []string{"0:empty0.", "1:."}, nil},
		{"chunks before, chunks behind", []Wish{writes, judges, reads}, []string{"upper0", "b."}, []string{"", "UPPER0b"}, []string{"0:upper0", "0:b.", "1:UPPER0b.", "2:UPPER0b."}, nil},
		{"nobody releases what one wants whole", []Wish{peeks, judges}, []string{"release0", "b."}, []string{"", "release0b"}, []string{"0:release0", "0:b.", "1:release0b."}, nil},
		{"kept for later", []Wish{peeks, keeps}, []string{"release0", "b."}, []string{"", "release0b"}, []string{"0:release0", "0:b."}, nil},
		{"whole and refused", []Wish{judges}, []string{"refuse", "0."}, []string{""}, []string{"0:refuse0."}, Refuse(403)},
		{"whole, broken and open", []Wish{open(rewords)}, []string{"break", "0."}, []string{"", "break0"}, []string{"0:break0."}, nil},
		{"a reader that rewrites the whole", []Wish{judges}, []string{"upper0."}, nil, []string{"0:upper0."}, ErrReadOnly},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var p Pipe
			var l log
			budget := newBudget(0)
			p.Start(Setup{Plan: mustPlan(t, 0, tt.wishes...), Host: &l, Budget: budget})
			out, err := push(t, &p, tt.in...)
			if !slices.Equal(out, tt.out) || !errors.Is(err, tt.err) {
				t.Errorf("got %q, %v, want %q, %v", out, err, tt.out, tt.err)
			}
			if !slices.Equal(l.seen, tt.seen) {
				t.Errorf("got filters called with %q, want %q", l.seen, tt.seen)
			}
			if p.Ended() != (err == nil) || p.Holding() {
				t.Errorf("got ended %v, holding %v", p.Ended(), p.Holding())
			}
			p.Close()
			wantHeld(t, budget, 0)
		})
	}
}

// TestSkip has filters that have no part in a message.
func TestSkip(t *testing.T) {
	var p Pipe
	var l log
	budget := newBudget(0)
	p.Start(Setup{Plan: mustPlan(t, 0, reads, rewords, reads), Host: &l, Budget: budget, Skip: Set(0).With(0).With(1)})
	if out, err := push(t, &p, "a", "b."); err != nil || !slices.Equal(out, []string{"a", "b"}) {
		t.Errorf("got %q, %v, want a stream", out, err)
	}
	if want := []string{"2:a", "2:b."}; !slices.Equal(l.seen, want) {
		t.Errorf("got %q, want %q", l.seen, want)
	}
}

// TestSkippedHolders has the filters skipped for which the plan holds bodies back: the others agree without them.
func TestSkippedHolders(t *testing.T) {
	for _, tt := range []struct {
		wishes []Wish
		skip   Set
		out    []string
	}{
		{[]Wish{peeks, peeks}, Set(0).With(0), []string{"release1 release2", "b"}},
		{[]Wish{peeks, peeks, {Mode: Buffer}}, Set(0).With(0), []string{"release1 release2", "b"}},
		{[]Wish{peeks, reads, {Mode: Buffer}}, Set(0).With(0), []string{"", "release1 release2b"}},
		{[]Wish{judges, peeks}, Set(0).With(0), []string{"release1 release2", "b"}},
	} {
		var p Pipe
		p.Start(Setup{Plan: mustPlan(t, 0, tt.wishes...), Host: new(log), Budget: newBudget(0), Skip: tt.skip})
		if out, err := push(t, &p, "release1 release2", "b."); err != nil || !slices.Equal(out, tt.out) {
			t.Errorf("%+v: got %q, %v, want %q", tt.wishes, out, err, tt.out)
		}
		p.Close()
	}
}

// TestChanged tells bodies that somebody changed from others.
func TestChanged(t *testing.T) {
	for _, tt := range []struct {
		wishes []Wish
		in     []string
		want   bool
	}{
		{[]Wish{writes}, []string{"a."}, false},
		{[]Wish{writes}, []string{"upper0", "."}, true},
		{[]Wish{edits}, []string{"upper0", "b."}, true},
		{[]Wish{edits}, []string{"a", "release0 upper0."}, true},
		{[]Wish{rewords}, []string{"upper", "0."}, true},
		{[]Wish{rewords}, []string{"a", "0."}, false},
		{[]Wish{open(writes)}, []string{"break0."}, false},
	} {
		var p Pipe
		p.Start(Setup{Plan: mustPlan(t, 0, tt.wishes...), Host: new(log), Budget: newBudget(0)})
		if _, err := push(t, &p, tt.in...); err != nil {
			t.Fatal(err)
		}
		if p.Changed() != tt.want {
			t.Errorf("%q: got changed %v, want %v", tt.in, p.Changed(), tt.want)
		}
		if want := int64(len(strings.Join(tt.in, "")) - 1); p.Read() != want {
			t.Errorf("%q: got %d read, want %d", tt.in, p.Read(), want)
		}
	}
}

// TestLatch has a body that is over pushed on, and a new one begun in its place.
func TestLatch(t *testing.T) {
	for _, tt := range []struct {
		name string
		in   []string
		want error
	}{
		{"ended", []string{"a."}, ErrEnded},
		{"refused", []string{"a", "refuse0"}, Refuse(403)},
		{"broken", []string{"a", "break0"}, errBroken},
		{"too large", []string{"a", "0123456789."}, ErrTooLarge},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var p Pipe
			var l log
			setup := Setup{Plan: mustPlan(t, 10, peeks), Host: &l, Budget: newBudget(0)}
			for range 2 {
				p.Start(setup)
				_, _ = push(t, &p, tt.in...)
				l.seen = nil
				for range 2 {
					if _, err := push(t, &p, "more."); !errors.Is(err, tt.want) {
						t.Errorf("got %v, want %v", err, tt.want)
					}
				}
				if l.seen != nil {
					t.Errorf("got filters called with %q after the end", l.seen)
				}
				if tt.want != ErrEnded {
					wantHeld(t, setup.Budget, 0)
				}
			}
			p.Close()
			p.Close()
			if _, err := push(t, &p, "more."); !errors.Is(err, tt.want) {
				t.Errorf("closed: got %v, want %v", err, tt.want)
			}
			if err := p.Declare(1); !errors.Is(err, tt.want) {
				t.Errorf("closed: got %v, want %v", err, tt.want)
			}
			wantHeld(t, setup.Budget, 0)
		})
	}
}

// TestRetryResetsDone begins a body again.
func TestRetryResetsDone(t *testing.T) {
	var p Pipe
	var l log
	for range 2 {
		p.Start(Setup{Plan: mustPlan(t, 0, reads), Host: &l, Budget: newBudget(0)})
		if _, err := push(t, &p, "done0", "b."); err != nil {
			t.Fatal(err)
		}
	}
	if want := []string{"0:done0", "0:done0"}; !slices.Equal(l.seen, want) {
		t.Errorf("got %q, want %q", l.seen, want)
	}
}
