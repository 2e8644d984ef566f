package bodypipe

import (
	"math"
	"testing"
)

// maxLimit is no limit.
const maxLimit = math.MaxInt64

// TestSkipLater leaves out filters after others have asked for something, and before anything was pushed: what is left are the
// wishes of the others, and what they have asked for.
func TestSkipLater(t *testing.T) {
	looks := Wish{Access: ReadOnly}
	for name, tc := range map[string]struct {
		wishes []Wish
		ask    func(p *Pipe)
		skip   Set
		want   Terms
		holds  Set
	}{
		"one that looks": {[]Wish{looks, looks}, nil, 0b01, Terms{Limit: maxLimit, Whole: 2, Reads: true}, 0},
		"all":            {[]Wish{looks, looks}, nil, 0b11, Terms{Limit: maxLimit, Whole: 2}, 0},
		"the one that holds": {
			[]Wish{{Access: ReadWrite, Mode: Buffer, Max: 50, Whole: true}, looks}, nil, 0b01, Terms{Limit: maxLimit, Whole: 2, Reads: true}, 0,
		},
		"the one that holds, another has asked for less": {
			[]Wish{{Access: ReadWrite, Mode: Buffer, Max: 50}, looks},
			func(p *Pipe) { p.Upgrade(1, Buffer, 20) }, 0b01,
			Terms{Mode: Buffer, Hold: 20, Limit: maxLimit, Whole: 2, Reads: true},
			0b10,
		},
		"another, the one that holds has asked for more": {
			[]Wish{{Access: ReadWrite, Mode: Buffer, Max: 50}, looks},
			func(p *Pipe) { p.Upgrade(0, Buffer, 80) }, 0b10,
			Terms{Mode: Buffer, Hold: 50, Limit: maxLimit, Whole: 2, Reads: true, Writes: true},
			0b01,
		},
		"limits": {
			[]Wish{{Mode: SizeLimit, Max: 10}, looks},
			func(p *Pipe) { p.Upgrade(1, SizeLimit, 30); p.Upgrade(1, SizeLimit, 20) }, 0b01,
			Terms{Mode: SizeLimit, Limit: 20, Whole: 2, Reads: true},
			0,
		},
		"as much as there may be": {
			[]Wish{looks, looks},
			func(p *Pipe) { p.Upgrade(1, Buffer, 0) }, 0b01,
			Terms{Mode: Buffer, Hold: 100, Limit: maxLimit, Whole: 2, Reads: true},
			0b10,
		},
	} {
		t.Run(name, func(t *testing.T) {
			plan, err := NewPlan(100, tc.wishes...)
			if err != nil {
				t.Fatal(err)
			}
			var p Pipe
			p.Start(Setup{Plan: plan})
			if tc.ask != nil {
				tc.ask(&p)
			}
			p.Skip(tc.skip)
			if got := p.Terms(); got != tc.want || p.holders != tc.holds || p.setup.Skip != tc.skip {
				t.Errorf("got %+v, holders %b, want %+v, %b", got, p.holders, tc.want, tc.holds)
			}
		})
	}
}
