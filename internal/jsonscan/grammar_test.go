package jsonscan

import (
	"encoding/json"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

// tokens are what documents are made of here: all that the grammar has, and strings that are plain, escaped and wide.
var tokens = []string{"{", "}", "[", "]", ",", ":", " ", `"a"`, `"b c"`, `"long enough for a word"`, `"\n"`, `"x\u0041"`, `"é"`, "1", "true"}

// grown appends a random value to a document.
func grown(r *rand.Rand, document []string, depth int) []string {
	space := func() {
		if r.IntN(4) == 0 {
			document = append(document, " ")
		}
	}
	kind := r.IntN(8)
	if kind > 3 || depth > 5 {
		return append(document, tokens[7+r.IntN(len(tokens)-7)])
	}
	open, end := "{", "}"
	if kind == 0 {
		open, end = "[", "]"
	}
	document = append(document, open)
	for i := range r.IntN(4) {
		if i > 0 {
			document = append(document, ",")
			space()
		}
		if open == "{" {
			document = append(document, tokens[7+r.IntN(6)], ":")
			space()
		}
		document = grown(r, document, depth+1)
	}
	return append(document, end)
}

// spoiled returns the document with a token more, one or two less, or one in the place of another.
func spoiled(r *rand.Rand, document []string) []string {
	at := r.IntN(len(document))
	to := at + 1
	var with []string
	switch r.IntN(4) {
	case 0:
		with, to = []string{tokens[r.IntN(len(tokens))]}, at
	case 1:
		with = []string{tokens[r.IntN(len(tokens))]}
	case 2:
		to = min(at+2, len(document))
	}
	return slices.Concat(document[:at], with, document[to:])
}

// TestGrammar compares what a strict scan takes, deep in a document and however it is cut, with what encoding/json takes.
func TestGrammar(t *testing.T) {
	query := mustQuery(t, Options{Names: []string{"model"}, Strict: true})
	var s Scanner
	valid, seed := 0, rand.Uint64()
	r := rand.New(rand.NewPCG(seed, 1))
	const rounds = 100_000
	for range rounds {
		inner := grown(r, nil, 0)
		if r.IntN(2) == 0 {
			inner = spoiled(r, inner)
		}
		document := `{"x":[{"y":` + strings.Join(inner, "") + `},{"z":1}],"model":"m"}`
		want := json.Valid([]byte(document))
		s.Reset(query)
		cut := r.IntN(len(document))
		s.Feed([]byte(document[:cut]))
		s.Feed([]byte(document[cut:]))
		if got := s.Close() == Found; got != want {
			t.Fatalf("%s, cut at %d: got %s, %s, but valid is %v (seed %d)", document, cut, s.State(), s.Reason(), want, seed)
		}
		if want {
			valid++
		}
	}
	if valid < rounds/2 || valid > rounds*9/10 {
		t.Errorf("%d of %d documents are valid", valid, rounds)
	}
}
