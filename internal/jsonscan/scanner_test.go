package jsonscan

import (
	"strings"
	"testing"
)

func TestSeveralNames(t *testing.T) {
	names := []string{"model", "stream", "user"}
	for _, tc := range []struct{ name, document, strict, lax string }{
		{
			"all", `{"user":"u","stream":false,"model":"m","rest":1}`,
			`found 48: string "m", bool "false", string "u"`, `found 38: string "m", bool "false", string "u"`,
		},
		{"some", `{"user":null}`, `found 13: none, none, null`, `found 13: none, none, null`},
		{"none", `{}`, `absent 2: none, none, none`, `absent 2: none, none, none`},
		{"one_unfit", `{"model":"\n","user":"u"}`, `found 25: string control_chars, none, string "u"`, `found 25: string control_chars, none, string "u"`},
		{"one_twice", `{"model":1,"user":2,"model":3,"stream":4}`, `ambiguous 27: duplicate`, `found 40: number "1", number "4", number "2"`},
		{"nested_among", `{"model":{"user":1},"user":[{"stream":2}],"stream":3}`, `found 53: object, number "3", array`, `found 52: object, number "3", array`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			for size := 1; size <= len(tc.document); size++ {
				if got := outcome(scan(mustQuery(t, Options{Names: names, Strict: true}), tc.document, size)); got != tc.strict {
					t.Errorf("strict, %d bytes at a time: got %s, want %s", size, got, tc.strict)
				}
				if got := outcome(scan(mustQuery(t, Options{Names: names}), tc.document, size)); got != tc.lax {
					t.Errorf("lax, %d bytes at a time: got %s, want %s", size, got, tc.lax)
				}
			}
		})
	}
}

// TestPassedOverBetween has a wrong byte in a value between two that are wanted. A lax scan passes over that one alone.
func TestPassedOverBetween(t *testing.T) {
	query := mustQuery(t, Options{Names: []string{"model", "user"}})
	for _, tc := range []struct{ document, want string }{
		{"{\"user\":\"u\",\"a\":\"\xff\",\"model\":\"m\"}", `found 31: string "m", string "u"`},
		{"{\"user\":\"u\",\"a\":\"\",\"model\":\"\xff\"}", "not_json 29: encoding"},
	} {
		if got := outcome(scan(query, tc.document, len(tc.document))); got != tc.want {
			t.Errorf("%q: got %s, want %s", tc.document, got, tc.want)
		}
	}
}

// TestShortestValue allows one byte. Null has no text that could be too long.
func TestShortestValue(t *testing.T) {
	query := mustQuery(t, Options{Names: []string{"s", "n", "b", "null"}, MaxValue: 1})
	const document = `{"s":"x","n":1,"b":true,"null":null}`
	const want = `found 35: string "x", number "1", bool too_long, null`
	for size := 1; size <= len(document); size++ {
		if got := outcome(scan(query, document, size)); got != want {
			t.Errorf("%d bytes at a time: got %s, want %s", size, got, want)
		}
	}
}

// TestNames looks for names that are not plain.
func TestNames(t *testing.T) {
	for _, tc := range []struct{ name, document, want string }{
		{"", `{"":1}`, `found 6: number "1"`},
		{"", `{"\u0000":1}`, `ambiguous 9: alike`},
		{"k", `{"\u212a":1}`, `ambiguous 9: alike`},
		{"straße", `{"stra\u00dfe":1}`, `found 17: number "1"`},
		{"straße", `{"STRAẞE":1}`, `ambiguous 11: alike`},
		{"a\"\\", `{"a\"\\":1}`, `found 11: number "1"`},
		{"😀", `{"\ud83d\ude00":1}`, `found 18: number "1"`},
		{strings.Repeat("k", MaxName), `{"` + strings.Repeat("k", MaxName) + `":1}`, `found 134: number "1"`},
		{strings.Repeat("k", MaxName), `{"` + strings.Repeat("\u212a", MaxName) + `":1}`, `ambiguous 387: alike`},
		{strings.Repeat("k", MaxName), `{"` + strings.Repeat("k", MaxName+1) + `":1}`, `absent 135: none`},
		{strings.Repeat("k", MaxName), `{"` + strings.Repeat("\u212a", MaxName) + `\u0000x":1}`, `ambiguous 394: alike`},
		{"tenant_id", `{"tenant_id":1}`, `found 15: number "1"`},
		{"tenant_id", `{"tenantId":1}`, `ambiguous 11: alike`},
		{"tenant_id", `{"tenant-id":1}`, `ambiguous 12: alike`},
		{"tenantid", `{"tenant_ids":1,"tenant_i":2}`, `absent 29: none`},
		{"_", `{"_":1}`, `found 7: number "1"`},
		{"_", `{"":1}`, `ambiguous 3: alike`},
		{"k", `{"` + strings.Repeat("_", 67) + `x":1}`, `absent 74: none`},
		{"k", `{"` + strings.Repeat("_", 67) + `kx":1}`, `ambiguous 72: alike`}, // the x is behind what is kept
		{strings.Repeat("k", MaxName), `{"` + strings.Repeat("-", 66) + strings.Repeat("\u212a", MaxName) + `":1}`, `ambiguous 453: alike`},
		{"\U00010000\U0010ffff", `{"\ud800\udc00\udbff\udfff":1}`, `found 30: number "1"`},
		{"a/b", `{"a` + strings.Repeat("é", 100) + `\/b\u0000":1}`, `absent 216: none`},
		{"a/b", `{"a\/` + strings.Repeat("é", 100) + `b\u0000":1}`, `absent 216: none`},
	} {
		query := mustQuery(t, Options{Names: []string{tc.name}, Strict: true})
		for _, size := range []int{1, 2, 7, 1000} {
			if got := outcome(scan(query, tc.document, size)); got != tc.want {
				t.Errorf("%q in %s, %d bytes at a time: got %s, want %s", tc.name, tc.document, size, got, tc.want)
			}
		}
	}
}

func TestNewQueryRefuses(t *testing.T) {
	for _, tc := range []struct {
		want    string
		options Options
	}{
		{"0 names are not from 1 to 16", Options{}},
		{"17 names are not from 1 to 16", Options{Names: make([]string, 17)}},
		{`name "a" is given twice`, Options{Names: []string{"a", "b", "a"}}},
		{`names "a" and "A" are one name to some readers, so that no strict scan can have both`, Options{Names: []string{"a", "A"}, Strict: true}},
		{`names "a_b" and "aB" are one name to some readers, so that no strict scan can have both`, Options{Names: []string{"a_b", "aB"}, Strict: true}},
		{`name "\xff" is not UTF-8`, Options{Names: []string{"\xff"}}},
		{`name "a\x00" has a NUL, behind which some readers don't look`, Options{Names: []string{"a\x00"}}},
		{`name "` + strings.Repeat("x", 129) + `" has 129 bytes, more than 128`, Options{Names: []string{strings.Repeat("x", 129)}}},
		{"longest value -1 is not from 1 to 4096", Options{Names: []string{"a"}, MaxValue: -1}},
		{"longest value 4097 is not from 1 to 4096", Options{Names: []string{"a"}, MaxValue: 4097}},
	} {
		if _, err := NewQuery(tc.options); err == nil || err.Error() != tc.want {
			t.Errorf("got %v, want %s", err, tc.want)
		}
	}
	if _, err := NewQuery(Options{Names: []string{"a", "A"}, MaxValue: MaxMaxValue}); err != nil {
		t.Errorf("lax, names that differ by case: %v", err)
	}
}

// TestZeroScanner has no query. It looks for nothing, and says so.
func TestZeroScanner(t *testing.T) {
	for _, tc := range cases {
		var s Scanner
		s.Feed([]byte(tc.document))
		if got := s.Close(); got == NeedMore || got == Found {
			t.Errorf("%s: got %v", tc.name, got)
		}
	}
}

// TestFinal gives more to a scanner that has answered.
func TestFinal(t *testing.T) {
	for _, tc := range []struct {
		document string
		strict   bool
	}{{`{"model":"x"`, false}, {`{]`, true}, {`{}`, false}, {`{"MODEL"`, true}, {deep(MaxDepth + 1), true}} {
		var s Scanner
		s.Reset(modelQuery(t, tc.strict))
		s.Feed([]byte(tc.document))
		want := outcome(&s)
		if strings.HasPrefix(want, NeedMore.String()) {
			t.Fatalf("%s: got %s", tc.document, want)
		}
		s.Feed([]byte(`{"model":"y"}`))
		s.Close()
		if got := outcome(&s); got != want {
			t.Errorf("%s: got %s, want %s", tc.document, got, want)
		}
	}
}

// TestMemberBeforeTheAnswer asks for a member that was seen in a document that may still be refused, and was.
func TestMemberBeforeTheAnswer(t *testing.T) {
	var s Scanner
	s.Reset(modelQuery(t, true))
	for _, chunk := range []string{`{"model":"x"`, `,]`} {
		s.Feed([]byte(chunk))
		if m := s.Member(0); m.Kind != None || m.Text != nil {
			t.Errorf("%v: got %v %q", s.State(), m.Kind, m.Text)
		}
	}
}

// TestNothingOfTheLastDocument has a document that ends within a character, a pair, a number, a word, and then another.
func TestNothingOfTheLastDocument(t *testing.T) {
	var s Scanner
	for _, strict := range []bool{true, false} {
		query := modelQuery(t, strict)
		for _, before := range cases {
			for n := range len(before.document) {
				s.Reset(query)
				s.Feed([]byte(before.document[:n]))
				s.Reset(query)
				s.Feed([]byte(`{"a":["b"]}`))
				if s.Close() != Absent || s.Offset() != 11 {
					t.Fatalf("behind %q: got %s", before.document[:n], outcome(&s))
				}
			}
		}
	}
}

// TestAllocatesNothing scans all cases, cut and whole, with one scanner.
func TestAllocatesNothing(t *testing.T) {
	queries := []*Query{modelQuery(t, true), modelQuery(t, false)}
	var s Scanner
	s.Reset(queries[0])
	for _, tc := range cases {
		document := []byte(tc.document)
		got := testing.AllocsPerRun(5, func() {
			for _, q := range queries {
				s.Reset(q)
				for i := range document {
					s.Feed(document[i : i+1])
				}
				s.Close()
				s.Member(0)
				s.Reset(q)
				s.Feed(document)
				s.Close()
			}
		})
		if got != 0 {
			t.Errorf("%s: got %v allocations, want 0", tc.name, got)
		}
	}
}

// TestKeepsNoMore has a document with 16 MiB in names and values that are read past, which are not kept.
func TestKeepsNoMore(t *testing.T) {
	var s Scanner
	s.Reset(modelQuery(t, true))
	want := cap(s.memory)
	chunk := []byte(strings.Repeat("x", 1<<20))
	s.Feed([]byte(`{"`))
	for range 16 {
		s.Feed(chunk)
	}
	s.Feed([]byte(`":"`))
	for range 16 {
		s.Feed(chunk)
	}
	s.Feed([]byte(`","model":"`))
	for range 16 {
		s.Feed(chunk)
	}
	s.Feed([]byte(`"}`))
	if got := members(&s); s.Close() != Found || members(&s) != "string too_long" || cap(s.memory) != want {
		t.Errorf("got %s, %d bytes of memory, want %d", got, cap(s.memory), want)
	}
}

func TestStrings(t *testing.T) {
	for _, tc := range []struct{ got, want string }{
		{NeedMore.String(), "need_more"},
		{TooDeep.String(), "too_deep"},
		{stateCount.String(), "invalid"},
		{NoReason.String(), "none"},
		{Depth.String(), "depth"},
		{reasonCount.String(), "invalid"},
		{Array.String(), "array"},
		{kindCount.String(), "invalid"},
		{EdgeSpace.String(), "edge_space"},
		{unfitCount.String(), "invalid"},
	} {
		if tc.got != tc.want {
			t.Errorf("got %s, want %s", tc.got, tc.want)
		}
	}
}

// TestPlain looks for every byte at every place of more than two words, among others that may be mistaken.
func TestPlain(t *testing.T) {
	for _, filler := range []byte{' ', '!', '#', '[', ']', 0x7f, 0x7e} {
		for at := range 20 {
			for c := range 256 {
				b := []byte(strings.Repeat(string(rune(filler)), 20))
				b[at] = byte(c)
				checkPlain(t, b, at)
			}
		}
	}
}

func checkPlain(t *testing.T, b []byte, at int) {
	t.Helper()
	c := b[at]
	always := c == '"' || c == '\\' || c < ' '
	for _, checked := range []bool{false, true} {
		want := len(b)
		if always || checked && c >= 0x80 {
			want = at
		}
		if got := plain(b, 0, checked); got != want {
			t.Fatalf("%q, checked %v: got %d, want %d", b, checked, got, want)
		}
	}
}
