package wordlimit

import (
	"testing"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
)

func TestCount(t *testing.T) {
	for text, want := range map[string]int{
		"": 0, " \n": 0, "one": 1, "one two": 2, "  one\ttwo\r\nthree ": 3, "naïve café": 2,
	} {
		for cut := range len(text) + 1 {
			var n count
			n.add([]byte(text[:cut]))
			n.add([]byte(text[cut:]))
			if n.words != want {
				t.Errorf("%q, cut at %d: got %d words, want %d", text, cut, n.words, want)
			}
		}
	}
}

func TestCaddyfile(t *testing.T) {
	for text, want := range map[string]int{
		"word_limit": 0, "word_limit 5": 5,
		"word_limit 0": -1, "word_limit many": -1, "word_limit 5 6": -1, "word_limit 5 {\nmax 6\n}": -1,
	} {
		var f Filter
		err := f.UnmarshalCaddyfile(caddyfile.NewTestDispenser(text))
		if (err != nil) != (want < 0) || err == nil && f.Max != want {
			t.Errorf("%s: got %d, %v, want %d", text, f.Max, err, want)
		}
	}
}

func TestSettings(t *testing.T) {
	ctx, end := caddy.NewContext(caddy.Context{Context: t.Context()})
	defer end()
	for value, want := range map[int]int{0: defaultMax, 1: 1, highestMax: highestMax, -1: -1, highestMax + 1: -1} {
		f := Filter{Max: value}
		err := f.Provision(ctx)
		if (err != nil) != (want < 0) || err == nil && f.Max != want {
			t.Errorf("max %d: got %d, %v, want %d", value, f.Max, err, want)
		}
	}
}
