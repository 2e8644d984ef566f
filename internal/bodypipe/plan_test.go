package bodypipe

import (
	"math"
	"strings"
	"testing"
)

const (
	kib = 1 << 10
	mib = 1 << 20
)

func mustPlan(t testing.TB, ceiling int64, wishes ...Wish) *Plan {
	t.Helper()
	p, err := NewPlan(ceiling, wishes...)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestTerms(t *testing.T) {
	none := int64(math.MaxInt64)
	look, write := Wish{Access: ReadOnly}, Wish{Access: ReadWrite}
	buffer := func(most int64) Wish { return Wish{Access: ReadOnly, Mode: Buffer, Max: most} }
	limit := func(most int64) Wish { return Wish{Mode: SizeLimit, Max: most} }
	for _, tt := range []struct {
		name    string
		ceiling int64
		wishes  []Wish
		skip    Set
		want    Terms
	}{
		{"no filters", 0, nil, 0, Terms{Limit: none}},
		{"H91_access_none_everywhere", 0, []Wish{{}, {}}, 0, Terms{Limit: none, Whole: 2}},
		{"a reader streams", 0, []Wish{look}, 0, Terms{Limit: none, Whole: 1, Reads: true}},
		{"a writer reads", 0, []Wish{write}, 0, Terms{Limit: none, Whole: 1, Reads: true, Writes: true}},
		{"a size limit is more than a stream", 0, []Wish{limit(7), look}, 0, Terms{Mode: SizeLimit, Limit: 7, Whole: 2, Reads: true}},
		{"of two size limits the smaller", 0, []Wish{limit(9), limit(7), limit(8)}, 0, Terms{Mode: SizeLimit, Limit: 7, Whole: 3}},
		{"a size limit may be above the ceiling", 5, []Wish{limit(100 * mib)}, 0, Terms{Mode: SizeLimit, Limit: 100 * mib, Whole: 1}},
		{
			"a buffer is more than a size limit, which stays", 0,
			[]Wish{buffer(9), limit(7)},
			0,
			Terms{Mode: Buffer, Hold: 9, Limit: 7, Whole: 2, Reads: true},
		},
		{
			"H88_of_two_buffers_the_larger", 10 * mib,
			[]Wish{buffer(mib), buffer(4 * mib), buffer(2 * mib)},
			0,
			Terms{Mode: Buffer, Hold: 4 * mib, Limit: none, Whole: 3, Reads: true},
		},
		{"a buffer above the ceiling", kib, []Wish{buffer(4 * kib)}, 0, Terms{Mode: Buffer, Hold: kib, Limit: none, Whole: 1, Reads: true}},
		{"a buffer without a limit", kib, []Wish{buffer(0), buffer(1)}, 0, Terms{Mode: Buffer, Hold: kib, Limit: none, Whole: 2, Reads: true}},
		{"default ceiling", 0, []Wish{buffer(0)}, 0, Terms{Mode: Buffer, Hold: 10 * mib, Limit: none, Whole: 1, Reads: true}},
		{"H90_highest_ceiling", 100 * mib, []Wish{buffer(0)}, 0, Terms{Mode: Buffer, Hold: 64 * mib, Limit: none, Whole: 1, Reads: true}},
		{
			"the first that wants the whole body", 0,
			[]Wish{look, {Mode: Buffer, Max: 5, Whole: true}, {Access: ReadWrite, Mode: Buffer, Max: 6, Whole: true}},
			0,
			Terms{Mode: Buffer, Hold: 6, Limit: none, Whole: 1, Reads: true, Writes: true},
		},
		{
			"wishes of skipped filters don't count", 0,
			[]Wish{{Access: ReadWrite, Mode: Buffer, Whole: true}, limit(3), look},
			Set(0).With(0).With(1),
			Terms{Limit: none, Whole: 3, Reads: true},
		},
		{"all skipped", 0, []Wish{write, buffer(3)}, 3, Terms{Limit: none, Whole: 2}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got := mustPlan(t, tt.ceiling, tt.wishes...).Terms(tt.skip)
			if got != tt.want {
				t.Errorf("got %+v, want %+v", got, tt.want)
			}
			if idle := !got.Reads && got.Mode == Stream; got.Idle() != idle {
				t.Errorf("idle: got %v, want %v", got.Idle(), idle)
			}
		})
	}
}

func TestNewPlanRefuses(t *testing.T) {
	for _, tt := range []struct {
		name    string
		ceiling int64
		wishes  []Wish
		want    string
	}{
		{"ceiling", -1, nil, "negative ceiling -1"},
		{"too many", 0, make([]Wish, 65), "65 filters, more than 64"},
		{"access", 0, []Wish{{Access: 3}}, "filter 0: unknown access 3"},
		{"mode", 0, []Wish{{}, {Mode: 3}}, "filter 1: unknown access 0 or mode 3"},
		{"negative", 0, []Wish{{Mode: Buffer, Max: -1}}, "negative limit -1"},
		{"no size", 0, []Wish{{Mode: SizeLimit}}, "without a limit"},
		{"limit on a stream", 0, []Wish{{Max: 1}}, "limit of 1 bytes on a stream"},
		{"whole stream", 0, []Wish{{Whole: true}}, "without a buffer"},
		{"whole size limit", 0, []Wish{{Mode: SizeLimit, Max: 1, Whole: true}}, "without a buffer"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p, err := NewPlan(tt.ceiling, tt.wishes...)
			if err == nil || p != nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %v, %v, want an error with %q", p, err, tt.want)
			}
		})
	}
}

// TestPlanOwnsItsWishes has the caller change its slice later.
func TestPlanOwnsItsWishes(t *testing.T) {
	wishes := make([]Wish, MaxFilters)
	p := mustPlan(t, 0, wishes...)
	wishes[63] = Wish{Access: ReadWrite, Mode: Buffer}
	if got := p.Terms(1); !got.Idle() {
		t.Errorf("got %+v, want idle terms", got)
	}
	if s := Set(0).With(63); !s.Has(63) || s.Has(0) || s.Has(62) {
		t.Errorf("got %b, want the last bit", s)
	}
}

// TestTermsLaws merges all pairs of wishes: the order doesn't matter, a wish counts once, and no wish weakens another.
func TestTermsLaws(t *testing.T) {
	var wishes []Wish
	for access := range Access(3) {
		wishes = append(
			wishes, Wish{Access: access},
			Wish{Access: access, Mode: SizeLimit, Max: 3}, Wish{Access: access, Mode: SizeLimit, Max: 300},
			Wish{Access: access, Mode: Buffer}, Wish{Access: access, Mode: Buffer, Max: 5}, Wish{Access: access, Mode: Buffer, Max: 500},
		)
	}
	for _, a := range wishes {
		alone := mustPlan(t, 100, a).Terms(0)
		twice := mustPlan(t, 100, a, a).Terms(0)
		if twice.Whole = alone.Whole; twice != alone {
			t.Errorf("%+v twice: got %+v, want %+v", a, twice, alone)
		}
		for _, b := range wishes {
			ab, ba := mustPlan(t, 100, a, b).Terms(0), mustPlan(t, 100, b, a).Terms(0)
			if ab != ba {
				t.Errorf("%+v and %+v: got %+v in one order, %+v in the other", a, b, ab, ba)
			}
			weaker := ab.Mode < alone.Mode || ab.Hold < alone.Hold || ab.Limit > alone.Limit
			if weaker || ab.Hold > 100 || alone.Reads && !ab.Reads || alone.Writes && !ab.Writes {
				t.Errorf("%+v with %+v: got %+v, want no less than %+v", a, b, ab, alone)
			}
		}
	}
}
