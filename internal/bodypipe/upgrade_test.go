package bodypipe

import (
	"bytes"
	"errors"
	"slices"
	"testing"
)

// TestUpgrade asks for modes before a body, on the way and after it went on.
func TestUpgrade(t *testing.T) {
	limit := Wish{Mode: SizeLimit, Max: 50}
	for _, tt := range []struct {
		name   string
		wishes []Wish
		before []string
		mode   Mode
		most   int64
		ok     bool
		want   Terms // mode and limits
	}{
		{"stream to buffer", []Wish{reads}, nil, Buffer, 20, true, Terms{Mode: Buffer, Hold: 20}},
		{"stream to buffer, clamped", []Wish{reads}, nil, Buffer, 200, true, Terms{Mode: Buffer, Hold: 100}},
		{"stream to buffer without a limit", []Wish{reads}, nil, Buffer, 0, true, Terms{Mode: Buffer, Hold: 100}},
		{"H87_buffer keeps the plan's limit", []Wish{{Access: ReadOnly, Mode: Buffer, Max: 10}}, nil, Buffer, 40, true, Terms{Mode: Buffer, Hold: 10}},
		{"buffer is not lowered", []Wish{peeks}, nil, Buffer, 5, true, Terms{Mode: Buffer, Hold: 100}},
		{"never down", []Wish{peeks}, nil, Stream, 0, true, Terms{Mode: Buffer, Hold: 100}},
		{"a size limit beside a buffer", []Wish{peeks}, nil, SizeLimit, 7, true, Terms{Mode: Buffer, Hold: 100, Limit: 7}},
		{"a size limit is lowered", []Wish{limit}, nil, SizeLimit, 7, true, Terms{Mode: SizeLimit, Limit: 7}},
		{"a size limit is not raised", []Wish{limit}, nil, SizeLimit, 70, true, Terms{Mode: SizeLimit, Limit: 50}},
		{"size limit to buffer", []Wish{limit}, nil, Buffer, 7, true, Terms{Mode: Buffer, Hold: 7, Limit: 50}},
		{"held so far", []Wish{peeks}, []string{"a"}, Buffer, 0, true, Terms{Mode: Buffer, Hold: 100}},
		{"released", []Wish{peeks}, []string{"release0"}, Buffer, 0, false, Terms{Mode: Buffer, Hold: 100}},
		{"gone", []Wish{reads}, []string{"a"}, Buffer, 0, false, Terms{}},
		{"a size limit after bytes have gone", []Wish{reads}, []string{"a"}, SizeLimit, 3, true, Terms{Mode: SizeLimit, Limit: 3}},
		{"after an error", []Wish{reads}, []string{"refuse0"}, SizeLimit, 3, false, Terms{}},
		{"no size", []Wish{reads}, nil, SizeLimit, 0, false, Terms{}},
		{"negative", []Wish{reads}, nil, Buffer, -1, false, Terms{}},
		{"unknown", []Wish{reads}, nil, 3, 1, false, Terms{}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p := start(t, 100, tt.wishes...)
			want := p.Terms()
			want.Mode, want.Hold = tt.want.Mode, tt.want.Hold
			if tt.want.Limit != 0 {
				want.Limit = tt.want.Limit
			}
			_, _ = push(t, p, tt.before...)
			if got := p.Upgrade(0, tt.mode, tt.most); got != tt.ok {
				t.Errorf("got %v, want %v", got, tt.ok)
			}
			if p.Terms() != want {
				t.Errorf("got %+v, want %+v", p.Terms(), want)
			}
		})
	}
}

// TestUpgradesAddUp has two filters upgrade a stream: the larger buffer counts.
func TestUpgradesAddUp(t *testing.T) {
	p := start(t, 100, reads)
	for _, most := range []int64{10, 40, 20} {
		if !p.Upgrade(0, Buffer, most) {
			t.Errorf("%d: refused", most)
		}
	}
	if got := p.Terms().Hold; got != 40 {
		t.Errorf("got %d bytes to hold, want 40", got)
	}
}

// TestUpgradeOnTheWay has a filter upgrade the mode when it sees the first chunk, which is then held.
func TestUpgradeOnTheWay(t *testing.T) {
	var p Pipe
	upgrades := func(c *Chunk) (Action, error) {
		p.Upgrade(0, Buffer, 4)
		if bytes.HasPrefix(c.Bytes(), []byte("-")) {
			c.Replace(nil)
		}
		if bytes.Contains(c.Bytes(), []byte("!")) {
			return Release, nil
		}
		return Continue, nil
	}
	for _, tt := range []struct {
		in, out []string
		want    error
	}{
		{[]string{"ab", "cd", "."}, []string{"", "", "abcd"}, nil},
		{[]string{"ab", "c!", "d."}, []string{"", "abc!", "d"}, nil},
		{[]string{"ab", "cde"}, []string{""}, ErrTooLarge},
		{[]string{"abcde"}, nil, ErrTooLarge},
		{[]string{"abcde."}, nil, ErrTooLarge},
		{[]string{"abcde!", "f."}, []string{"abcde!", "f"}, nil},
		{[]string{"-abcd."}, nil, ErrTooLarge}, // however little is made of it
		{[]string{"-ab", "cd."}, []string{""}, ErrTooLarge},
	} {
		p.Start(Setup{Plan: mustPlan(t, 0, writes), Host: host{upgrades}, Budget: newBudget(0)})
		if out, err := push(t, &p, tt.in...); !slices.Equal(out, tt.out) || !errors.Is(err, tt.want) {
			t.Errorf("%q: got %q, %v, want %q, %v", tt.in, out, err, tt.out, tt.want)
		}
	}
}

// TestWhoAsksHolds has filters ask for a buffer: the body goes on when all of those who look at it have released it.
func TestWhoAsksHolds(t *testing.T) {
	in := []string{"a", "release0", "release1", "b."}
	for _, tt := range []struct {
		name   string
		wishes []Wish
		ask    []int
		out    []string
	}{
		{"one", []Wish{reads, reads}, []int{0}, []string{"", "arelease0", "release1", "b"}},
		{"another one", []Wish{reads, reads}, []int{1}, []string{"", "", "arelease0release1", "b"}},
		{"both", []Wish{reads, reads}, []int{0, 1}, []string{"", "", "arelease0release1", "b"}},
		{"one beside one that wished", []Wish{peeks, reads}, []int{1}, []string{"", "", "arelease0release1", "b"}},
		{"one that looks at nothing", []Wish{reads, reads, {}}, []int{2}, []string{"", "", "", "arelease0release1b"}},
		{"one that looks at nothing beside one that does", []Wish{peeks, reads, {}}, []int{2}, []string{"", "arelease0", "release1", "b"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p := start(t, 100, tt.wishes...)
			for _, i := range tt.ask {
				if !p.Upgrade(i, Buffer, 50) {
					t.Errorf("%d: refused", i)
				}
			}
			if out, err := push(t, p, in...); err != nil || !slices.Equal(out, tt.out) {
				t.Errorf("got %q, %v, want %q", out, err, tt.out)
			}
			p.Close()
			wantHeld(t, p.setup.Budget, 0)
		})
	}
}

// TestDoneAsksForNobody has a filter that is done ask for a buffer: the body doesn't wait for it.
func TestDoneAsksForNobody(t *testing.T) {
	p := start(t, 100, peeks, reads)
	if out, err := push(t, p, "done1"); err != nil || !slices.Equal(out, []string{""}) {
		t.Fatalf("got %q, %v, want nothing yet", out, err)
	}
	if !p.Upgrade(1, Buffer, 50) {
		t.Error("refused")
	}
	if out, err := push(t, p, "release0", "b."); err != nil || !slices.Equal(out, []string{"done1release0", "b"}) {
		t.Errorf("got %q, %v", out, err)
	}
}

// TestLimitOnTheWay has a filter ask for a limit when it sees the first chunk: it is the same for a body in one piece.
func TestLimitOnTheWay(t *testing.T) {
	var p Pipe
	limits := func(*Chunk) (Action, error) {
		p.Upgrade(0, SizeLimit, 4)
		return Continue, nil
	}
	for _, tt := range []struct {
		in   []string
		want error
	}{
		{[]string{"abcd."}, nil},
		{[]string{"abcd", "."}, nil},
		{[]string{"abcde."}, ErrTooLarge},
		{[]string{"abcde", "."}, ErrTooLarge},
		{[]string{"ab", "cde."}, ErrTooLarge},
	} {
		for _, wish := range []Wish{reads, peeks} {
			p.Start(Setup{Plan: mustPlan(t, 0, wish), Host: host{limits}, Budget: newBudget(0)})
			if _, err := push(t, &p, tt.in...); !errors.Is(err, tt.want) {
				t.Errorf("%q: got %v, want %v", tt.in, err, tt.want)
			}
			p.Close()
		}
	}
}
