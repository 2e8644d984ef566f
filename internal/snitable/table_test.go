package snitable

import (
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/caddy-sluice/sluice/internal/clienthello"
)

// mustNew builds a table of routes that are valid.
func mustNew(t testing.TB, routes []Route) *Table {
	t.Helper()
	table, err := New(routes)
	if err != nil {
		t.Fatalf("New: %v", err)
	}
	return table
}

// offerOf writes names as a client's protocol list.
func offerOf(names ...string) clienthello.Protocols {
	var p clienthello.Protocols
	for _, name := range names {
		p = append(append(p, byte(len(name))), name...)
	}
	return p
}

// offers splits a list written with spaces.
func offers(list string) clienthello.Protocols { return offerOf(strings.Split(list, " ")...) }

// patternsOf makes one route of each pattern.
func patternsOf(patterns ...string) []Route {
	routes := make([]Route, len(patterns))
	for i, p := range patterns {
		routes[i].Names = []string{p}
	}
	return routes
}

func TestLookupNames(t *testing.T) {
	all := []string{"x.com", "*.x.com", "**.x.com", ".x.com"}
	long := strings.Repeat("a.", 126) + "a" // 253 bytes, 127 labels
	for _, tc := range []struct {
		name     string
		patterns []string
		lookup   string
		want     string // pattern; empty: unknown
	}{
		{"T01_exact", []string{"a.x.com"}, "a.x.com", "a.x.com"},
		{"T02_one_label", []string{"*.x.com"}, "a.x.com", "*.x.com"},
		{"T03_one_label_not_two", []string{"*.x.com"}, "a.b.x.com", ""},
		{"T03_any_depth_one_label", []string{"**.x.com"}, "a.x.com", "**.x.com"},
		{"T03_any_depth_two_labels", []string{"**.x.com"}, "a.b.x.com", "**.x.com"},
		{"T03_any_depth_many_labels", []string{"**.x.com"}, "a.b.c.d.e.x.com", "**.x.com"},
		{"T04_apex_not_under_one", []string{"*.x.com"}, "x.com", ""},
		{"T04_apex_not_under_many", []string{"**.x.com"}, "x.com", ""},
		{"tree_apex", []string{".x.com"}, "x.com", ".x.com"},
		{"tree_one_label", []string{".x.com"}, "a.x.com", ".x.com"},
		{"tree_two_labels", []string{".x.com"}, "a.b.x.com", ".x.com"},
		{"T05_exact_beats_wildcards", append([]string{"a.x.com"}, all...), "a.x.com", "a.x.com"},
		{"T06_longest_suffix", []string{".com", "**.x.com", "**.y.x.com"}, "a.y.x.com", "**.y.x.com"},
		{"T06_longer_suffix_of_weaker_form", []string{"**.com", "*.x.com", ".a.x.com"}, "a.x.com", ".a.x.com"},
		{"T06_back_to_shorter_suffix", []string{"**.x.com", "*.y.x.com"}, "a.b.y.x.com", "**.x.com"},
		{"T06_back_past_an_exact_name", []string{"**.x.com", "y.x.com"}, "a.y.x.com", "**.x.com"},
		{"T07_upper_case_pattern", []string{"A.X.Com"}, "a.x.com", "a.x.com"},
		{"T07_upper_case_wildcard", []string{"*.X.COM"}, "a.x.com", "*.x.com"},
		{"forms_one_label", all, "a.x.com", "*.x.com"},
		{"forms_two_labels", all, "a.b.x.com", "**.x.com"},
		{"forms_apex", all, "x.com", "x.com"},
		{"forms_apex_without_exact", all[1:], "x.com", ".x.com"},
		{"forms_many_before_tree", all[2:], "a.x.com", "**.x.com"},
		{"order_in_config_is_nothing", []string{".x.com", "**.x.com", "*.x.com", "x.com"}, "a.x.com", "*.x.com"},
		{"C17_other_name", all, "unknown.example.net", ""},
		{"C17_no_routes", nil, "x.com", ""},
		{"C18_pattern_is_kept", []string{"*.wild.example.com"}, "host1.wild.example.com", "*.wild.example.com"},
		{"suffix_is_cut_at_a_label", []string{".x.com", "**.x.com"}, "ax.com", ""},
		{"name_longer_on_the_right", []string{"a.x.com", ".x.com"}, "a.x.com.evil", ""},
		{"C15_trailing_dot_is_not_ours", all, "a.x.com.", ""},
		{"C14_case_is_not_ours", all, "A.X.COM", ""},
		{"C21_leading_dot_one", []string{"*.x.com"}, ".x.com", ""},
		{"C21_leading_dot_many", []string{"**.x.com"}, ".x.com", ""},
		{"C21_leading_dot_tree", []string{".x.com", "x.com"}, ".x.com", ""},
		{"C21_two_leading_dots", all, "..x.com", ""},
		{"C21_leading_dot_below", all, ".a.x.com", ""},
		{"C21_empty_label_inside", all, "a..b.x.com", ""},
		{"C21_empty_label_before_base", all, "a..x.com", ""},
		{"C21_leading_dot_short_suffix", []string{"*.com"}, ".x.com", ""},
		{"empty_name", all, "", ""},
		{"dots_only", append(all, ".com"), "...", ""},
		{"C22_star_is_a_label_like_any", []string{"*.x.com"}, "*.x.com", "*.x.com"},
		{"C22_control_bytes_are_not_ours", []string{"*.x.com"}, "a\x00b.x.com", "*.x.com"},
		{"single_label", []string{"localhost"}, "localhost", "localhost"},
		{"single_label_tree", []string{".localhost"}, "a.localhost", ".localhost"},
		{"top_level_wildcard", []string{"*.test"}, "a.test", "*.test"},
		{"underscore", []string{"_sip.x.com"}, "_sip.x.com", "_sip.x.com"},
		{"unicode_pattern", []string{"*.bücher.example"}, "www.xn--bcher-kva.example", "*.xn--bcher-kva.example"},
		{"longest_name", []string{".a"}, long, ".a"},
		{"longest_name_exact", []string{long}, long, long},
		{"longest_name_deepest_base", []string{"**" + long[1:]}, long, "**" + long[1:]},
		{"name_too_long", []string{".a"}, "aa" + long[1:], ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			table := mustNew(t, patternsOf(tc.patterns...))
			got, result := table.Lookup([]byte(tc.lookup), nil)
			if (result == Matched) != (tc.want != "") || got.Pattern != tc.want {
				t.Fatalf("got %q, result %v, want %q", got.Pattern, result, tc.want)
			}
			if result == Matched && !strings.EqualFold(tc.patterns[got.Route], tc.want) && tc.name != "unicode_pattern" {
				t.Errorf("got route %d, which has %q, want that of %q", got.Route, tc.patterns[got.Route], tc.want)
			}
		})
	}
}

func TestLookupProtocols(t *testing.T) {
	const name = "a.x.com"
	long, other := strings.Repeat("p", 255), strings.Repeat("p", 254)+"q"
	for _, tc := range []struct {
		name   string
		routes []string // "pattern protocol…"
		offer  clienthello.Protocols
		want   Match
		result Result
	}{
		{"C23_client_order", []string{name + " http/1.1", name + " h2"}, offers("h2 http/1.1"), Match{1, name, "h2"}, Matched},
		{"C23_reversed", []string{name + " http/1.1", name + " h2"}, offers("http/1.1 h2"), Match{0, name, "http/1.1"}, Matched},
		{"C23_within_one_route", []string{name + " http/1.1 h2"}, offers("h2 http/1.1"), Match{0, name, "h2"}, Matched},
		{"C24_catch_all", []string{name + " h2", name}, offers("spdy/1"), Match{1, name, ""}, Matched},
		{"C24_no_offer", []string{name + " h2", name}, nil, Match{1, name, ""}, Matched},
		{"C24_second_offer", []string{name, name + " h2"}, offers("spdy/1 h2"), Match{1, name, "h2"}, Matched},
		{"C25_other_protocol", []string{name + " h2"}, offers("http/1.1"), Match{0, name, ""}, UnknownProtocol},
		{"C25_no_offer", []string{name + " h2"}, nil, Match{0, name, ""}, UnknownProtocol},
		{"C25_case", []string{name + " h2"}, offers("H2"), Match{0, name, ""}, UnknownProtocol},
		{"C26_grease_first", []string{name, name + " h2"}, offers("\x0a\x0a h2"), Match{1, name, "h2"}, Matched},
		{"C27_catch_all_listed_first", []string{name, name + " h2"}, offers("h2"), Match{1, name, "h2"}, Matched},
		{"C19_exact_refuses", []string{name + " h2", "*.x.com", ".x.com"}, offers("http/1.1"), Match{0, name, ""}, UnknownProtocol},
		{"C19_one_refuses", []string{"*.x.com h2", "**.x.com", ".x.com"}, offers("http/1.1"), Match{0, "*.x.com", ""}, UnknownProtocol},
		{"C19_longer_suffix_refuses", []string{".com", ".x.com h2"}, offers("http/1.1"), Match{0, ".x.com", ""}, UnknownProtocol},
		{"catch_all_takes_any_offer", []string{name}, offers("h2 acme-tls/1"), Match{0, name, ""}, Matched},
		{"part_of_a_protocol", []string{name + " h2c h"}, offers("h2"), Match{0, name, ""}, UnknownProtocol},
		{"many_routes", []string{name + " xmpp-client", name + " h2 http/1.1", name + " acme-tls/1", name + " mqtt", name}, offers("imap mqtt"), Match{3, name, "mqtt"}, Matched},
		{"any_bytes", []string{name + " \x00\xff", name}, offers("\x00\xfe \x00\xff"), Match{0, name, "\x00\xff"}, Matched},
		{"longest_protocol", []string{name + " " + long, name}, offers(long), Match{0, name, long}, Matched},
		{"longest_protocol_last_byte", []string{name + " " + long, name}, offers(other), Match{1, name, ""}, Matched},
		{"same_protocol_of_another_pattern", []string{"*.x.com h2", name + " h2"}, offers("h2"), Match{1, name, "h2"}, Matched},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var routes []Route
			for _, r := range tc.routes {
				words := strings.Split(r, " ")
				routes = append(routes, Route{Names: words[:1], ALPN: words[1:]})
			}
			got, result := mustNew(t, routes).Lookup([]byte(name), tc.offer)
			if result == UnknownProtocol {
				got.Route = 0
			}
			if got != tc.want || result != tc.result {
				t.Errorf("got %+v, %v, want %+v, %v", got, result, tc.want, tc.result)
			}
		})
	}
}

// TestRoutesShareNothing has two routes that list several names, of which only one is the same: its key must not
// write into what the others use.
func TestRoutesShareNothing(t *testing.T) {
	table := mustNew(t, []Route{
		{Names: []string{"a", "b"}, ALPN: []string{"m", "z"}},
		{Names: []string{"b", "c"}, ALPN: []string{"a", "n"}},
		{Names: []string{"b", "d"}, ALPN: []string{"b"}},
	})
	for name, routes := range map[string]map[string]int{
		"a": {"m": 0, "z": 0},
		"b": {"m": 0, "z": 0, "a": 1, "n": 1, "b": 2},
		"c": {"a": 1, "n": 1},
		"d": {"b": 2},
	} {
		for _, protocol := range []string{"a", "b", "m", "n", "z"} {
			want, taken := routes[protocol]
			got, result := table.Lookup([]byte(name), offerOf(protocol))
			if (result == Matched) != taken || taken && (got.Route != want || got.Protocol != protocol) {
				t.Errorf("%s offering %s: got %+v, %v, want route %d, %v", name, protocol, got, result, want, taken)
			}
		}
	}
}

func TestTablesWithoutRoutes(t *testing.T) {
	for name, table := range map[string]*Table{"nil": nil, "zero": {}, "New(nil)": mustNew(t, nil)} {
		if got, result := table.Lookup([]byte("a.b"), offers("h2")); got != (Match{}) || result != UnknownName {
			t.Errorf("%s: got %+v, %v, want UnknownName", name, got, result)
		}
	}
}

func TestNewKeepsNothing(t *testing.T) {
	routes := []Route{{Names: []string{"a.b"}, ALPN: []string{"h2"}}}
	table := mustNew(t, routes)
	routes[0].Names[0], routes[0].ALPN[0] = "c.d", "h3"
	want := Match{0, "a.b", "h2"}
	if got, result := table.Lookup([]byte("a.b"), offers("h2")); got != want || result != Matched {
		t.Errorf("got %+v, %v, want %+v", got, result, want)
	}
}

func TestLookupAllocatesNothing(t *testing.T) {
	long := strings.Repeat("p", 255) // longer than what the compiler copies to the stack
	deep := strings.Repeat("a.", 126) + "a"
	table := mustNew(t, []Route{
		{Names: []string{"a.x.com", "*.x.com", "**.x.com", ".x.com"}, ALPN: []string{"h2", long}},
		{Names: []string{"a.x.com", ".a", "**" + deep[1:]}},
	})
	for _, s := range []string{"a.x.com", "b.x.com", "a.b.x.com", "x.com", "a.b.c.d", deep, deep + "a"} {
		name := []byte(s)
		for _, offer := range []clienthello.Protocols{nil, offers("http/1.1 h2"), offers("x " + long), offers(long[1:])} {
			allocs := testing.AllocsPerRun(10, func() { table.Lookup(name, offer) })
			if allocs != 0 {
				t.Errorf("%s: got %v allocations, want 0", name, allocs)
			}
		}
	}
}

// TestSwapWhileReading has readers that must see one table or the other, each whole.
func TestSwapWhileReading(t *testing.T) {
	var tables [2]*Table
	for i := range tables {
		routes := make([]Route, i+1)
		routes[i] = Route{Names: []string{"a.x.com", ".x.com"}, ALPN: []string{fmt.Sprint("p", i)}}
		tables[i] = mustNew(t, append(patternsOf("q")[:i:i], routes[i]))
	}
	var current atomic.Pointer[Table]
	current.Store(tables[0])
	var readers sync.WaitGroup
	for range 4 {
		readers.Go(func() { readTables(t, &current) })
	}
	for i := range 2000 {
		current.Store(tables[i%2])
	}
	readers.Wait()
}

// readTables looks names up in tables of which the first has its names in route 0 for protocol p0, the second in
// route 1 for p1.
func readTables(t *testing.T, current *atomic.Pointer[Table]) {
	offer := offers("p0 p1")
	for range 2000 {
		for _, name := range []string{"a.x.com", "b.c.x.com"} {
			got, result := current.Load().Lookup([]byte(name), offer)
			if result != Matched || got.Protocol != fmt.Sprint("p", got.Route) {
				t.Errorf("%s: got %+v, %v", name, got, result)
			}
		}
	}
}
