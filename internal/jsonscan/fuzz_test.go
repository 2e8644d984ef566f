package jsonscan

import (
	"bytes"
	"encoding/json"
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"
)

// fuzzNames are what the fuzz target looks for. It must be what json tags of the struct in sameAsStruct say.
var fuzzNames = []string{"model", "k"}

// FuzzScan states the laws of the scanner. seed says how the document is cut.
func FuzzScan(f *testing.F) {
	for _, tc := range cases {
		if len(tc.document) < 1000 {
			f.Add([]byte(tc.document), uint64(len(tc.document)))
		}
	}
	f.Add([]byte(`{"\u212a":1}`), uint64(1))
	f.Add([]byte(`{"k":1,"model":[],"K":2}`), uint64(1))
	f.Add([]byte(`{"_":1,"mode-":2,"\u005fK":3}`), uint64(1))
	f.Add([]byte(`{"mo`+strings.Repeat("_", 100)+`del":1}`), uint64(1))
	f.Add([]byte(`{"k`+strings.Repeat("_", 100)+`l":1}`), uint64(1))
	strict := mustQuery(f, Options{Names: fuzzNames, Strict: true})
	lax := mustQuery(f, Options{Names: fuzzNames})
	var s Scanner
	f.Fuzz(func(t *testing.T, data []byte, seed uint64) {
		for _, q := range []*Query{strict, lax} {
			whole := scan(q, string(data), max(len(data), 1))
			sameWhenCut(t, &s, whole, data, seed)
			if whole.State() == NeedMore {
				t.Fatal("the end was not enough")
			}
			reasonHolds(t, whole, data)
		}
		asEncodingJSON(t, scan(strict, string(data), max(len(data), 1)), data)
		asTokens(t, scan(lax, string(data), max(len(data), 1)), data)
	})
}

// sameWhenCut: all that a scanner says is the same byte by byte and cut at random, also for a scanner that has read
// something else before. The chunks stay as they are, and are gone when the answer is asked for.
func sameWhenCut(t *testing.T, s, whole *Scanner, data []byte, seed uint64) {
	t.Helper()
	if got, want := outcome(scan(&whole.query, string(data), 1)), outcome(whole); got != want {
		t.Fatalf("%q byte by byte: got %s, want %s", data, got, want)
	}
	random := rand.New(rand.NewPCG(seed, 0))
	s.Reset(&whole.query)
	final := false
	for rest := data; len(rest) > 0; {
		n := random.IntN(min(len(rest), 24)) + 1
		chunk := bytes.Clone(rest[:n])
		before := s.Offset()
		if got := s.Feed(chunk); final && s.Offset() != before || !final && got == NeedMore && s.Offset() != before+int64(n) {
			t.Fatalf("%q: got %v after %d bytes, %d before them", data, got, s.Offset(), before)
		}
		if !bytes.Equal(chunk, rest[:n]) {
			t.Fatal("the chunk was changed")
		}
		clear(chunk)
		final = s.State() != NeedMore
		rest = rest[n:]
	}
	s.Close()
	if got, want := outcome(s), outcome(whole); got != want {
		t.Fatalf("%q cut with %d: got %s, want %s", data, seed, got, want)
	}
}

// halfPair is an escape for one half of a surrogate pair, or for both: reason enough to look.
var halfPair = regexp.MustCompile(`\\u[dD][89a-fA-F]`)

// reasonHolds: what a scanner says against a document is true, as far as others can tell.
func reasonHolds(t *testing.T, s *Scanner, data []byte) {
	t.Helper()
	trimmed := bytes.TrimLeft(data, " \r\n\t")
	object := len(trimmed) > 0 && trimmed[0] == '{'
	holds := true
	switch s.Reason() {
	case Empty:
		holds = len(trimmed) == 0
	case NotObject, BOM:
		holds = !object && len(trimmed) > 0
	case Syntax, Control, Trailing, Truncated:
		holds = object && !json.Valid(data)
	case Encoding:
		holds = !utf8.Valid(data)
	case Surrogate:
		holds = halfPair.Match(data)
	case Duplicate:
		holds = s.State() == Ambiguous && s.query.strict
	case Alike:
		name := lastName(t, data[:s.Offset()])
		holds = s.State() == Ambiguous && s.query.strict && (likeWanted(name) || len(name) > s.query.maxName && padded(name) > padding)
	case Depth:
		holds = s.State() == TooDeep && bytes.Count(data, []byte("["))+bytes.Count(data, []byte("{")) > MaxDepth
	}
	if !holds || (s.Reason() == NoReason) != (s.State() == Found || s.State() == Absent) {
		t.Fatalf("%q: got %s", data, outcome(s))
	}
}

// lastName returns the name at the end of the beginning of a document.
func lastName(t *testing.T, beginning []byte) (name string) {
	t.Helper()
	decoder := json.NewDecoder(bytes.NewReader(beginning))
	_, err := decoder.Token()
	for err == nil {
		var token json.Token
		if token, err = decoder.Token(); err == nil {
			name = token.(string)
			var value json.RawMessage
			err = decoder.Decode(&value)
		}
	}
	if decoder.InputOffset() != int64(len(beginning)) {
		t.Fatalf("%q: got no name at the end: %v", beginning, err)
	}
	return name
}

// likeWanted says whether some reader takes a name for one that is wanted.
func likeWanted(name string) bool {
	name, _, _ = strings.Cut(name, "\x00")
	name = withoutPadding.Replace(name)
	return slices.ContainsFunc(fuzzNames, func(wanted string) bool { return strings.EqualFold(name, wanted) })
}

var withoutPadding = strings.NewReplacer("-", "", "_", "")

// padded returns how many bytes of a name some readers pass over.
func padded(name string) int { return len(name) - len(withoutPadding.Replace(name)) }

// asEncodingJSON: what a strict scan takes is JSON, and has the same members for encoding/json, whether that reads it
// into a map or, without regard to case, into a struct. Nor does it have other names that some reader takes for the wanted.
func asEncodingJSON(t *testing.T, s *Scanner, data []byte) {
	t.Helper()
	if s.State() != Found && s.State() != Absent {
		return
	}
	if !json.Valid(data) || !utf8.Valid(data) {
		t.Fatalf("%q: got %s of what is not JSON", data, outcome(s))
	}
	var folded struct {
		Model json.RawMessage `json:"model"`
		K     json.RawMessage `json:"k"`
	}
	exact := make(map[string]json.RawMessage)
	if err := json.Unmarshal(data, &exact); err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(data, &folded); err != nil {
		t.Fatal(err)
	}
	for name := range exact {
		if likeWanted(name) && !slices.Contains(fuzzNames, name) {
			t.Fatalf("%q: got %s, and some reader takes %q", data, outcome(s), name)
		}
	}
	for i, inStruct := range []json.RawMessage{folded.Model, folded.K} {
		inMap := exact[fuzzNames[i]]
		if !bytes.Equal(inMap, inStruct) {
			t.Fatalf("%q: %q and %q are different, and the scanner says %s", data, inMap, inStruct, outcome(s))
		}
		sameValue(t, s.Member(i), inMap)
	}
}

// sameValue: a member is what encoding/json makes of its value. Without one, there is no member.
func sameValue(t *testing.T, got Member, raw json.RawMessage) {
	t.Helper()
	if len(raw) == 0 {
		if got.Kind != None {
			t.Fatalf("got %v for a member that is not there", got.Kind)
		}
		return
	}
	decoder := json.NewDecoder(bytes.NewReader(raw))
	decoder.UseNumber()
	var value any
	if err := decoder.Decode(&value); err != nil {
		t.Fatal(err)
	}
	want := memberOf(value)
	if got.Kind != want.Kind || got.Unfit != want.Unfit || !bytes.Equal(got.Text, want.Text) {
		t.Fatalf("%s: got %v %v %q, want %v %v %q", raw, got.Kind, got.Unfit, got.Text, want.Kind, want.Unfit, want.Text)
	}
}

// memberOf says what a scanner should make of a value of encoding/json.
func memberOf(value any) Member {
	m := Member{}
	switch value := value.(type) {
	case nil:
		m.Kind = Null
	case bool:
		m.Kind, m.Text = Bool, []byte("false")
		if value {
			m.Text = []byte("true")
		}
	case json.Number:
		m.Kind, m.Text = Number, []byte(value)
	case string:
		m.Kind, m.Text = String, []byte(value)
	case []any:
		m.Kind = Array
	case map[string]any:
		m.Kind = Object
	}
	if m.Unfit = wantUnfit(m.Text); m.Unfit != Fit {
		m.Text = nil
	}
	return m
}

var (
	controls = regexp.MustCompile(`[\x00-\x1f\x7f]`)
	visible  = regexp.MustCompile(`^([!-~]([ -~]*[!-~])?)?$`)
	ascii    = regexp.MustCompile(`^[ -~]*$`)
)

func wantUnfit(text []byte) Unfit {
	switch {
	case len(text) > DefaultMaxValue:
		return TooLong
	case controls.Match(text):
		return ControlChars
	case visible.Match(text):
		return Fit
	case ascii.Match(text):
		return EdgeSpace
	}
	return NonASCII
}

// asTokens: a lax scan has of each member the first, as encoding/json reads the document up to where the scan ended.
func asTokens(t *testing.T, s *Scanner, data []byte) {
	t.Helper()
	if s.State() != Found && s.State() != Absent {
		return
	}
	read := bytes.Clone(data[:s.Offset()])
	switch read[len(read)-1] {
	case '{':
		read = append(read, '}')
	case '[':
		read = append(read, ']')
	}
	first := make(map[string]json.RawMessage)
	decoder := json.NewDecoder(bytes.NewReader(read))
	if _, err := decoder.Token(); err != nil {
		t.Fatal(err)
	}
	for decoder.More() {
		name, err := decoder.Token()
		if err != nil {
			t.Fatalf("%q: %v, and the scanner says %s", data, err, outcome(s))
		}
		var value json.RawMessage
		if err := decoder.Decode(&value); err != nil {
			t.Fatalf("%q: %v, and the scanner says %s", data, err, outcome(s))
		}
		if _, seen := first[name.(string)]; !seen {
			first[name.(string)] = value
		}
	}
	for i, name := range fuzzNames {
		sameValue(t, s.Member(i), first[name])
	}
}
