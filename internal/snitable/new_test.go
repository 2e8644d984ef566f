package snitable

import (
	"errors"
	"hash/maphash"
	"strings"
	"testing"
)

func TestNewRefuses(t *testing.T) {
	ok := Route{Names: []string{"ok.example"}}
	names := func(names ...string) Route { return Route{Names: names} }
	alpn := func(name string, alpn ...string) Route { return Route{[]string{name}, alpn} }
	for _, tc := range []struct {
		name   string
		routes []Route
		want   error
		text   string
	}{
		{"no_names", []Route{ok, {}}, ErrNoNames, `routes[1].names: needs at least one name`},
		{"no_names_but_alpn", []Route{{ALPN: []string{"h2"}}}, ErrNoNames, `routes[0].names: needs at least one name`},
		{"empty_names", []Route{{Names: []string{}}}, ErrNoNames, `routes[0].names: needs at least one name`},
		{"pattern", []Route{ok, ok, names("a.b", "*")}, ErrCatchAlls, `routes[1].names: "ok.example": has another catch-all: route 0 takes "ok.example" without alpn, too`},
		{"bare_star", []Route{ok, names("a.b", "*")}, ErrPattern, `routes[1].names: "*": invalid pattern: a wildcard needs a name behind it`},
		{"empty_pattern", []Route{names("")}, ErrPattern, `routes[0].names: "": invalid pattern: it is empty`},
		{"trailing_dot", []Route{names("A.b.")}, ErrPattern, `routes[0].names: "A.b.": invalid pattern: empty label (a dot too many)`},
		{"charset", []Route{names("a\n.b")}, ErrPattern, `routes[0].names: "a\n.b": invalid pattern: character '\n'; a name has letters, digits, '-', '_' and dots`},
		{"address", []Route{names("*.192.0.2.1")}, ErrIPLiteral, `routes[0].names: "*.192.0.2.1": an IP address is not a server name`},
		{"long_label", []Route{names(strings.Repeat("a", 64))}, ErrTooLong, `routes[0].names: "` + strings.Repeat("a", 64) + `": too long: label of 64 bytes, at most 63`},
		{"empty_protocol", []Route{alpn("a.b", "h2", "")}, ErrProtocol, `routes[0].alpn: "": invalid protocol: 0 bytes, must be 1 to 255`},
		{"long_protocol", []Route{alpn("a.b", strings.Repeat("p", 256))}, ErrProtocol, `routes[0].alpn: "` + strings.Repeat("p", 256) + `": invalid protocol: 256 bytes, must be 1 to 255`},
		{"protocol_twice", []Route{alpn("a.b", "h2", "h3", "h2")}, ErrDuplicate, `routes[0].alpn: "h2": is listed twice in this route`},
		{"name_twice", []Route{names("a.b", "c.d", "A.B")}, ErrDuplicate, `routes[0].names: "A.B": is listed twice in this route`},
		{"name_twice_with_alpn", []Route{{[]string{"*.a.b", "*.A.b"}, []string{"h2"}}}, ErrDuplicate, `routes[0].names: "*.A.b": is listed twice in this route`},
		{"name_twice_in_unicode", []Route{names("bücher.example", "xn--bcher-kva.example")}, ErrDuplicate, `routes[0].names: "xn--bcher-kva.example": is listed twice in this route`},
		{"name_twice_beside_a_catch_all", []Route{ok, {[]string{"ok.example", "ok.example"}, []string{"h2"}}}, ErrDuplicate, `routes[1].names: "ok.example": is listed twice in this route`},
		{"overlap", []Route{ok, alpn("a.b", "h2", "h3"), ok2(), alpn("A.b", "http/1.1", "h3")}, ErrOverlap, `routes[3].names: "A.b": has another route for a protocol: route 1 takes "a.b" with "h3", too`},
		{"E25_overlap_of_wildcards", []Route{alpn("*.a.b", "h2"), alpn("*.A.B", "h2")}, ErrOverlap, `routes[1].names: "*.A.B": has another route for a protocol: route 0 takes "*.a.b" with "h2", too`},
		{"E25_catch_alls_of_a_wildcard", []Route{ok, names("*.a.b"), names("c.d", "*.A.b")}, ErrCatchAlls, `routes[2].names: "*.A.b": has another catch-all: route 1 takes "*.a.b" without alpn, too`},
		{"catch_alls_in_unicode", []Route{names("*.bücher.example"), names("*.XN--bcher-kva.example")}, ErrCatchAlls, `routes[1].names: "*.XN--bcher-kva.example": has another catch-all: route 0 takes "*.xn--bcher-kva.example" without alpn, too`},
		{"first_of_several", []Route{names("a.b", "*"), names(""), {}}, ErrPattern, `routes[0].names: "*": invalid pattern: a wildcard needs a name behind it`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			table, err := New(tc.routes)
			if table != nil || !errors.Is(err, tc.want) {
				t.Fatalf("got %v, error %v, want %v", table, err, tc.want)
			}
			if err.Error() != tc.text {
				t.Errorf("got  %s\nwant %s", err, tc.text)
			}
		})
	}
}

// ok2 is a route without faults.
func ok2() Route { return Route{Names: []string{"ok.example"}, ALPN: []string{"x"}} }

func TestNewAccepts(t *testing.T) {
	for name, routes := range map[string][]Route{
		"E25_exact_and_wildcards":      {{[]string{"a.b"}, []string{"h2"}}, {[]string{"*.b"}, []string{"h2"}}, {[]string{".b", "**.b"}, []string{"h2"}}},
		"all_forms_on_one_base":        {{[]string{"a.b", "*.a.b", "**.a.b", ".a.b"}, nil}},
		"disjoint_protocols":           {{[]string{"a.b"}, []string{"h2"}}, {[]string{"A.B"}, []string{"http/1.1", "H2"}}, {[]string{"a.b"}, nil}},
		"protocols_at_the_limits":      {{[]string{"a.b"}, []string{"\x00", strings.Repeat("p", 255)}}},
		"same_protocol_in_other_names": {{[]string{"a.b"}, []string{"h2"}}, {[]string{"c.d"}, []string{"h2"}}},
	} {
		if _, err := New(routes); err != nil {
			t.Errorf("%s: got %v", name, err)
		}
	}
}

// TestSameHash plants the key of one name where another is searched for: the names must be compared, not only their
// hashes.
func TestSameHash(t *testing.T) {
	table := mustNew(t, patternsOf("a.example"))
	place, tag := table.place(maphash.String(table.seed, "b.example"))
	table.slots[place] = slot{tag: tag, key: 1}
	table.slots[table.after(place)] = slot{}
	if k := table.find([]byte("b.example")); k != nil {
		t.Errorf("got %q, want nothing", k.pattern)
	}
}

// TestFullestTable fills every second slot, the most that a table has, and looks for all names and for as many more.
func TestFullestTable(t *testing.T) {
	var names []string
	for i := range 1 << 12 {
		names = append(names, "n"+strings.Repeat("x", i%50)+".e"+string(rune('a'+i/50%26))+string(rune('a'+i/50/26)))
	}
	table := mustNew(t, patternsOf(names...))
	if len(table.slots) != 2*len(names) {
		t.Fatalf("got %d slots for %d names, want the double", len(table.slots), len(names))
	}
	for i, name := range names {
		if got, result := table.Lookup([]byte(name), nil); result != Matched || got.Route != i {
			t.Errorf("%s: got %+v, %v, want route %d", name, got, result, i)
		}
		if got, result := table.Lookup([]byte("m"+name), nil); result != UnknownName {
			t.Errorf("m%s: got %+v, %v, want UnknownName", name, got, result)
		}
	}
}
