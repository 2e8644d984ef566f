package snitable

import (
	"errors"
	"slices"
	"strings"
	"testing"
)

// FuzzNormalize has any pattern and protocol in a table of one route. Laws: it is refused with one of the sentinel
// errors, or taken; then the pattern is as Normalize returns it, Normalize leaves that alone, it is ASCII, and it
// covers a name that may be sent.
func FuzzNormalize(f *testing.F) {
	for _, pattern := range []string{
		"a.example.com", "*.Example.com", "**.example.com", ".example.com", "bücher.example", "*.例え。テスト", "_x.straße",
		"", "*", "**", ".", "*.", "*foo", "***.a", "a.*.b", "a..b", "a.", "/a/", "a b", "1.2.3.4", "*.１.2.3.4", "[::1]", "::1%a", "a\xff",
		"＊.a", "\u00ad.a", "xn--a.é", strings.Repeat("a", 64), strings.Repeat("a.", 126) + "a", "*." + strings.Repeat("a.", 126) + "a",
	} {
		f.Add(pattern, "h2")
	}
	f.Add("a.b", "")
	f.Add("a.b", strings.Repeat("p", 256))
	f.Fuzz(func(t *testing.T, pattern, protocol string) {
		table, err := New([]Route{{[]string{pattern}, []string{protocol}}})
		if err != nil {
			checkRefused(t, err)
			return
		}
		normal, err := Normalize(pattern)
		if err != nil {
			t.Fatalf("%q: taken by New, but Normalize says %v", pattern, err)
		}
		if again, err := Normalize(normal); again != normal {
			t.Fatalf("%q: got %q, then %q, %v", pattern, normal, again, err)
		}
		name := coveredName(t, normal)
		want := Match{0, normal, protocol}
		if got, result := table.Lookup([]byte(name), offerOf(protocol)); got != want || result != Matched {
			t.Fatalf("%q of %q: got %+v, %v, want %+v", name, pattern, got, result, want)
		}
		if !Covers(normal, name) {
			t.Fatalf("%q doesn't cover %q", normal, name)
		}
	})
}

func checkRefused(t *testing.T, err error) {
	t.Helper()
	for _, sentinel := range []error{ErrPattern, ErrIPLiteral, ErrTooLong, ErrProtocol} {
		if errors.Is(err, sentinel) && strings.HasPrefix(err.Error(), "routes[0].") {
			return
		}
	}
	t.Fatalf("got %v, want a sentinel error of route 0", err)
}

// coveredName puts the shortest label in place of a wildcard and checks that the name is one that DNS allows.
func coveredName(t *testing.T, pattern string) string {
	t.Helper()
	name := strings.TrimPrefix(strings.Replace(strings.Replace(pattern, "**.", "a.", 1), "*.", "a.", 1), ".")
	if len(name) > 253 {
		t.Fatalf("%q: covers only names over 253 bytes", pattern)
	}
	for label := range strings.SplitSeq(name, ".") {
		if len(label) == 0 || len(label) > 63 || strings.Trim(label, "abcdefghijklmnopqrstuvwxyz0123456789-_") != "" {
			t.Fatalf("%q: label %q", pattern, label)
		}
	}
	return name
}

// FuzzLookup reads a table from text: a route on each line, names before a bar and protocols behind it, spaces
// between. Laws: New finds the faults that the model finds, Lookup answers as the model does, and it allocates nothing.
func FuzzLookup(f *testing.F) {
	f.Add("a.b|h2\n*.b|\n**.b b|\n.b|x", "a.b", "h2 x")
	f.Add("a.b|h2\nA.b|h3\na.B|", "a.b", "h3")
	f.Add("*.b|h2\n.b|", "a.b", "x")
	f.Add("*.b|h2\n*.B|h2", "a.b", "")
	f.Add("*.b *.b", "a.b", "")
	f.Add(".b|", ".b", "")
	f.Add("**.a.b.c|\n.c|", "x..a.b.c", "")
	f.Add("|h2", "", "")
	f.Fuzz(func(t *testing.T, text, name, offer string) {
		routes, ok := readRoutes(text)
		if !ok {
			return
		}
		table := checkNew(t, routes)
		if table == nil {
			return
		}
		protocols := readProtocols(offer)
		checkLookup(t, table, routes, name, protocols)
		lookup, list := []byte(name), offerOf(protocols...)
		if allocs := testing.AllocsPerRun(10, func() { table.Lookup(lookup, list) }); allocs != 0 {
			t.Fatalf("%q: got %v allocations, want 0", name, allocs)
		}
	})
}

// readRoutes returns the routes of a text; ok is false when a pattern isn't good in itself, or not ASCII, which the
// model can't read.
func readRoutes(text string) (routes []Route, ok bool) {
	for line := range strings.Lines(text) {
		names, alpn, _ := strings.Cut(strings.TrimSuffix(line, "\n"), "|")
		r := Route{Names: strings.Fields(names), ALPN: readProtocols(alpn)}
		for _, name := range r.Names {
			if _, err := Normalize(name); err != nil || !isASCII(name) {
				return nil, false
			}
		}
		routes = append(routes, r)
	}
	return routes, true
}

// readProtocols returns the words that can be protocol names.
func readProtocols(text string) []string {
	return slices.DeleteFunc(strings.Fields(text), func(word string) bool { return len(word) > 255 })
}
