package bodypipe

import (
	"bytes"
	"errors"
	"strings"
	"testing"
)

// start returns a pipe on a plan whose filters say what the bytes tell them.
func start(t *testing.T, ceiling int64, wishes ...Wish) *Pipe {
	t.Helper()
	p := new(Pipe)
	p.Start(Setup{Plan: mustPlan(t, ceiling, wishes...), Host: new(log), Budget: newBudget(0)})
	return p
}

// TestLimits has bodies of exactly the limit, and of one byte more, cut in all ways into two chunks and an end.
func TestLimits(t *testing.T) {
	const limit = 10
	for _, tt := range []struct {
		name   string
		wishes []Wish
		// gone says that bytes go on before the limit is reached.
		gone bool
	}{
		{"H71_H72_size limit", []Wish{{Mode: SizeLimit, Max: limit}, reads}, true},
		{"H74_buffer", []Wish{{Access: ReadOnly, Mode: Buffer, Max: limit}}, false},
		{"H74_whole", []Wish{{Access: ReadWrite, Mode: Buffer, Max: limit, Whole: true}}, false},
		{"buffer and size limit", []Wish{peeks, {Mode: SizeLimit, Max: limit}}, false},
		{"kept", []Wish{{Mode: Buffer, Max: limit, Whole: true}}, false},
	} {
		for size := range limit + 3 {
			for cut := range size + 1 {
				body := strings.Repeat("x", size)
				p := start(t, 0, tt.wishes...)
				out, err := push(t, p, body[:cut], body[cut:], ".")
				if size <= limit && (err != nil || strings.Join(out, "") != body) {
					t.Errorf("%s: %d bytes, cut at %d: got %q, %v, want all", tt.name, size, cut, out, err)
				}
				if size > limit && (!errors.Is(err, ErrTooLarge) || !tt.gone && strings.Join(out, "") != "") {
					t.Errorf("%s: %d bytes, cut at %d: got %q, %v, want %v", tt.name, size, cut, out, err, ErrTooLarge)
				}
				if gone := strings.Join(out, ""); size > limit && len(gone) > limit {
					t.Errorf("%s: got %d bytes gone before the error", tt.name, len(gone))
				}
				if err != nil {
					wantHeld(t, p.setup.Budget, 0)
				}
			}
		}
	}
}

// TestReleaseAtTheLimit has a filter that releases as soon as it sees the last byte of what may be held.
func TestReleaseAtTheLimit(t *testing.T) {
	const body = "0123456789abcdef"
	for at := 1; at <= 12; at++ {
		for cut := 1; cut < len(body); cut++ {
			seen := 0
			releases := func(c *Chunk) (Action, error) {
				if seen += len(c.Bytes()); seen >= at {
					return Release, nil
				}
				return Continue, nil
			}
			var p Pipe
			budget := newBudget(0)
			p.Start(Setup{Plan: mustPlan(t, 10, peeks), Host: host{releases}, Budget: budget})
			out, err := pushAll(&p, []byte(body), cut, cut)
			if at <= 10 && (err != nil || string(out) != body) {
				t.Errorf("released at %d, chunks of %d: got %q, %v, want all", at, cut, out, err)
			}
			if at > 10 && (!errors.Is(err, ErrTooLarge) || out != nil || seen > 10) {
				t.Errorf("released at %d, chunks of %d: got %q, %v with %d bytes seen, want %v", at, cut, out, err, seen, ErrTooLarge)
			}
			p.Close()
			wantHeld(t, budget, 0)
		}
	}
}

// pushAll pushes a body, the first chunk of one size and the others of another, and returns all that went on.
func pushAll(p *Pipe, body []byte, first, rest int) (out []byte, err error) {
	size := first
	for {
		in := body[:min(size, len(body))]
		n, got, err := p.Push(in, len(in) == len(body))
		if err != nil {
			return out, err
		}
		if out, body, size = append(out, got...), body[n:], rest; p.Ended() {
			return out, nil
		}
	}
}

// TestReleaseTakesPart has a chunk of which only a part may be held: the rest is taken only after the release, and no
// more than the limit is held for it.
func TestReleaseTakesPart(t *testing.T) {
	p := start(t, 10, peeks)
	if out, err := push(t, p, "ab"); err != nil || out[0] != "" {
		t.Fatalf("got %q, %v", out, err)
	}
	n, out, err := p.Push([]byte("release0!!!!"), true)
	if n != 8 || string(out) != "abrelease0" || err != nil || p.Ended() || p.Holding() {
		t.Errorf("got %d taken, %q, %v, ended %v, holding %v", n, out, err, p.Ended(), p.Holding())
	}
	wantHeld(t, p.setup.Budget, 512)
	n, out, err = p.Push([]byte("!!!!"), true)
	if n != 4 || string(out) != "!!!!" || err != nil || !p.Ended() {
		t.Errorf("got %d taken, %q, %v, ended %v", n, out, err, p.Ended())
	}
	wantHeld(t, p.setup.Budget, 0)
}

// TestGrownPastTheLimit has filters make more of a body than may be held.
func TestGrownPastTheLimit(t *testing.T) {
	for _, tt := range []struct {
		name string
		wish Wish
		in   []string
		want error
	}{
		{"chunk", edits, []string{"more0", "."}, nil},
		{"chunks", edits, []string{"more0", "1."}, ErrTooLarge},
		{"held", edits, []string{"more01", "."}, ErrTooLarge},
		{"at the end", edits, []string{"more01."}, ErrTooLarge},
		{"but released", edits, []string{"more0 release0."}, nil},
		{"H96_whole", rewords, []string{"more0."}, nil},
		{"H96_whole, one more", rewords, []string{"more0", "1."}, ErrTooLarge},
		{"stream", writes, []string{"more0more0more0."}, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			ceiling := int64(8)
			if tt.name == "but released" {
				ceiling = 14
			}
			p := start(t, ceiling, tt.wish)
			out, err := push(t, p, tt.in...)
			if !errors.Is(err, tt.want) {
				t.Errorf("got %v, want %v", err, tt.want)
			}
			if gone := strings.Join(out, ""); err != nil && gone != "" {
				t.Errorf("got %q gone on", gone)
			}
			p.Close()
			wantHeld(t, p.setup.Budget, 0)
		})
	}
}

// TestDeclare has bodies announce their length.
func TestDeclare(t *testing.T) {
	limit := Wish{Mode: SizeLimit, Max: 5}
	for _, tt := range []struct {
		name   string
		wishes []Wish
		length int64
		want   error
	}{
		{"none", []Wish{limit, judges}, -1, nil},
		{"stream", []Wish{reads}, 1 << 40, nil},
		{"size limit", []Wish{limit}, 5, nil},
		{"size limit, one more", []Wish{limit}, 6, ErrTooLarge},
		{"whole", []Wish{judges}, 10, nil},
		{"whole, one more", []Wish{judges}, 11, ErrTooLarge},
		{"kept, one more", []Wish{peeks, keeps}, 11, ErrTooLarge},
		{"may be released", []Wish{peeks}, 1 << 30, nil},
	} {
		p := start(t, 10, tt.wishes...)
		if err := p.Declare(tt.length); !errors.Is(err, tt.want) {
			t.Errorf("%s: got %v, want %v", tt.name, err, tt.want)
		}
		if _, _, err := p.Push([]byte("a"), true); !errors.Is(err, tt.want) {
			t.Errorf("%s, pushed: got %v, want %v", tt.name, err, tt.want)
		}
	}
}

// TestBudget has bodies meet a spent budget: nothing of them goes on.
func TestBudget(t *testing.T) {
	for _, tt := range []struct {
		name  string
		wish  Wish
		limit int64
		in    []string
		want  error
		held  int64
	}{
		{"a stream needs none", writes, 1, []string{"more0", "."}, nil, 0},
		{"a body in one piece needs none", judges, 1, []string{"a."}, nil, 0},
		{"one block", peeks, 512, []string{"a", "b."}, nil, 512},
		{"no block", peeks, 511, []string{"a"}, ErrBudget, 0},
		{"no block at the end", peeks, 512, []string{strings.Repeat("a", 512), "b."}, ErrBudget, 0},
		{"no block for the release", peeks, 512, []string{strings.Repeat("a", 512), "release0"}, ErrBudget, 0},
		{"what a filter put in its place counts", rewords, 8, []string{"more0."}, nil, 8},
		{"what is joined counts once", edits, 512, []string{"a", "upper0 release0"}, nil, 512},
		{"and may be too much", rewords, 7, []string{"more0."}, ErrBudget, 0},
		{"as with a release", edits, 14, []string{"more0 release0"}, ErrBudget, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p := new(Pipe)
			budget := newBudget(tt.limit)
			p.Start(Setup{Plan: mustPlan(t, 0, tt.wish), Host: new(log), Budget: budget})
			out, err := push(t, p, tt.in...)
			if gone := strings.Join(out, ""); !errors.Is(err, tt.want) || err != nil && gone != "" {
				t.Errorf("got %q, %v, want %v", out, err, tt.want)
			}
			wantHeld(t, budget, tt.held)
			p.Close()
			wantHeld(t, budget, 0)
		})
	}
}

// TestAdapt derives bodies for attempts from one that stays as it is.
func TestAdapt(t *testing.T) {
	var p Pipe
	for _, tt := range []struct {
		name, body string
		wishes     []Wish
		skip       Set
		want       string
		err        error
	}{
		{"rewritten", "upper0", []Wish{rewords}, 0, "UPPER0", nil},
		{"untouched", "a", []Wish{rewords}, 0, "a", nil},
		{"skipped", "upper0 and much more", []Wish{rewords}, 1, "upper0 and much more", nil},
		{"empty", "", []Wish{rewords}, 0, "", nil},
		{"H94_emptied", "empty0", []Wish{rewords}, 0, "", nil},
		{"H94_grown", "more0", []Wish{rewords}, 0, "more0+++", nil},
		{"H94_grown too much", "more0more0", []Wish{rewords}, 0, "", ErrTooLarge},
		{"too large", "0123456789a", []Wish{rewords}, 0, "", ErrTooLarge},
		{"refused", "refuse0", []Wish{judges}, 0, "", Refuse(403)},
	} {
		t.Run(tt.name, func(t *testing.T) {
			body := []byte(tt.body)
			budget := newBudget(0)
			s := Setup{Plan: mustPlan(t, 10, tt.wishes...), Host: new(log), Budget: budget, Skip: tt.skip}
			for range 3 { // attempts
				got, err := p.Adapt(s, body)
				if string(got) != tt.want || !errors.Is(err, tt.err) {
					t.Errorf("got %q, %v, want %q, %v", got, err, tt.want, tt.err)
				}
				if string(body) != tt.body {
					t.Errorf("got the body changed to %q", body)
				}
			}
			p.Close()
			wantHeld(t, budget, 0)
		})
	}
}

// TestAdaptReleased has a filter that takes chunks release more than the limit at once.
func TestAdaptReleased(t *testing.T) {
	doubles := func(c *Chunk) (Action, error) {
		c.Replace(bytes.Repeat(c.Bytes(), 2))
		return Release, nil
	}
	var p Pipe
	budget := newBudget(0)
	for _, tt := range []struct {
		body string
		want error
	}{{"12345", nil}, {"123456", ErrTooLarge}} {
		out, err := p.Adapt(Setup{Plan: mustPlan(t, 10, edits), Host: host{doubles}, Budget: budget}, []byte(tt.body))
		if !errors.Is(err, tt.want) || err != nil && out != nil {
			t.Errorf("%s: got %q, %v, want %v", tt.body, out, err, tt.want)
		}
	}
	wantHeld(t, budget, 0)
}
