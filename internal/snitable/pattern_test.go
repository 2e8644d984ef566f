package snitable

import (
	"errors"
	"strings"
	"testing"
)

func TestNormalize(t *testing.T) {
	label63 := strings.Repeat("a", 63)
	name251 := strings.Repeat("a.", 125) + "a"
	name253 := strings.Repeat("a.", 126) + "a"
	for _, tc := range []struct{ name, pattern, want string }{
		{"exact", "a.example.com", "a.example.com"},
		{"one", "*.example.com", "*.example.com"},
		{"many", "**.example.com", "**.example.com"},
		{"tree", ".example.com", ".example.com"},
		{"case", "*.Example.COM", "*.example.com"},
		{"single_label", "localhost", "localhost"},
		{"top_level", "*.test", "*.test"},
		{"underscore", "_dmarc.example.com", "_dmarc.example.com"},
		{"hyphens_that_idna_refuses", "r3---sn-a.-x-.example.com", "r3---sn-a.-x-.example.com"},
		{"digits", "*.2.3.4", "*.2.3.4"},
		{"not_quite_an_address", "1.2.3", "1.2.3"},
		{"a_label_in_upper_case", "XN--BCHER-KVA.example", "xn--bcher-kva.example"},
		{"a_label_that_decodes_to_nothing", "xn--a.example", "xn--a.example"},
		{"unicode", "bücher.example", "xn--bcher-kva.example"},
		{"unicode_upper_case", "*.BÜCHER.example", "*.xn--bcher-kva.example"},
		{"unicode_decomposed", ".bu\u0308cher.example", ".xn--bcher-kva.example"},
		{"unicode_many", "**.例え.テスト", "**.xn--r8jz45g.xn--zckzah"},
		{"unicode_full_stop", "例え。テスト", "xn--r8jz45g.xn--zckzah"},
		{"unicode_sharp_s_is_kept", "straße.example", "xn--strae-oqa.example"},
		{"unicode_full_width", "ＡＢＣ.example", "abc.example"},
		{"unicode_beside_underscore", "_sip.bücher.r3---sn.example", "_sip.xn--bcher-kva.r3---sn.example"},
		{"unicode_right_to_left", "אב.example", "xn--4dbc.example"},
		{"longest_label", label63 + ".b", label63 + ".b"},
		{"longest_exact", name253, name253},
		{"longest_one", "*." + name251, "*." + name251},
		{"longest_many", "**." + name251, "**." + name251},
		{"longest_tree", "." + name253, "." + name253},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got, err := Normalize(tc.pattern)
			if err != nil || got != tc.want {
				t.Errorf("got %q, %v, want %q", got, err, tc.want)
			}
		})
	}
}

func TestNormalizeRefuses(t *testing.T) {
	name252 := strings.Repeat("a.", 125) + "aa"
	for _, tc := range []struct {
		name, pattern string
		want          error
	}{
		{"empty", "", ErrPattern},
		{"bare_star", "*", ErrPattern},
		{"bare_two_stars", "**", ErrPattern},
		{"bare_dot", ".", ErrPattern},
		{"nothing_behind_one", "*.", ErrPattern},
		{"nothing_behind_many", "**.", ErrPattern},
		{"two_dots", "..", ErrPattern},
		{"star_without_dot", "*foo.com", ErrPattern},
		{"two_stars_without_dot", "**foo.com", ErrPattern},
		{"three_stars", "***.foo.com", ErrPattern},
		{"star_in_label", "f*o.com", ErrPattern},
		{"star_at_end_of_label", "foo*.com", ErrPattern},
		{"star_in_the_middle", "a.*.com", ErrPattern},
		{"star_at_the_end", "a.*", ErrPattern},
		{"star_twice", "*.*.com", ErrPattern},
		{"star_behind_many", "**.*.com", ErrPattern},
		{"star_behind_tree", ".*.com", ErrPattern},
		{"star_full_width", "＊.example.com", ErrPattern},
		{"leading_dots", "..example.com", ErrPattern},
		{"leading_dot_behind_one", "*..example.com", ErrPattern},
		{"leading_dot_full_width", "。example.com", ErrPattern},
		{"trailing_dot", "example.com.", ErrPattern},
		{"trailing_dot_of_one", "*.example.com.", ErrPattern},
		{"trailing_dot_full_width", "例え。テスト。", ErrPattern},
		{"double_dot", "a..b", ErrPattern},
		{"label_of_nothing", "a.\u00ad.b", ErrPattern},
		{"slash", "a/b", ErrPattern},
		{"slash_full_width", "a／b", ErrPattern},
		{"regex", "/a.b/", ErrPattern},
		{"space", "a b.com", ErrPattern},
		{"leading_space", " a.com", ErrPattern},
		{"tab", "a\tb", ErrPattern},
		{"nul", "a\x00.com", ErrPattern},
		{"del", "a\x7f.com", ErrPattern},
		{"port", "a.com:443", ErrPattern},
		{"placeholder", "{env.HOST}", ErrPattern},
		{"invalid_utf8", "a\xff.com", ErrPattern},
		{"replacement_character", "a\ufffd.com", ErrPattern},
		{"disallowed_rune", "a\u2028b.com", ErrPattern},
		{"mixed_direction", "אa.example", ErrPattern},
		{"v4", "192.0.2.1", ErrIPLiteral},
		{"v4_behind_one", "*.192.0.2.1", ErrIPLiteral},
		{"v4_behind_many", "**.192.0.2.1", ErrIPLiteral},
		{"v4_behind_tree", ".192.0.2.1", ErrIPLiteral},
		{"v4_in_brackets", "[192.0.2.1]", ErrIPLiteral},
		{"v4_full_width", "１.２.３.４", ErrIPLiteral},
		{"v6", "2001:db8::1", ErrIPLiteral},
		{"v6_in_brackets", "[2001:DB8::1]", ErrIPLiteral},
		{"v6_behind_one", "*.2001:db8::1", ErrIPLiteral},
		{"v6_in_brackets_behind_many", "**.[::1]", ErrIPLiteral},
		{"v6_with_v4", "::ffff:192.0.2.1", ErrIPLiteral},
		{"v6_with_zone", "fe80::1%eth0", ErrIPLiteral},
		{"label_of_64", strings.Repeat("a", 64) + ".b", ErrTooLong},
		{"label_of_64_converted", strings.Repeat("ü", 63) + strings.Repeat("a", 30), ErrTooLong},
		{"exact_of_254", name252 + "aa", ErrTooLong},
		{"tree_of_254", "." + name252 + "aa", ErrTooLong},
		{"one_of_252", "*." + name252, ErrTooLong},
		{"many_of_252", "**." + name252, ErrTooLong},
		{"name_of_254_converted", strings.Repeat("bücher.", 18) + "xx", ErrTooLong},
		{"far_too_long_to_convert", strings.Repeat("ü", 1<<20), ErrTooLong},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if got, err := Normalize(tc.pattern); !errors.Is(err, tc.want) || got != "" {
				t.Errorf("got %q, error %v, want %v", got, err, tc.want)
			}
		})
	}
}

func TestCovers(t *testing.T) {
	for _, tc := range []struct {
		pattern, name string
		want          bool
	}{
		{"a.b", "a.b", true},
		{"a.b", "b", false},
		{"a.b", "x.a.b", false},
		{"a.b", "xa.b", false},
		{"a.b", ".a.b", false},
		{"*.a.b", "x.a.b", true},
		{"*.a.b", "a.b", false},
		{"*.a.b", "x.y.a.b", false},
		{"*.a.b", ".a.b", false},
		{"**.a.b", "x.a.b", true},
		{"**.a.b", "x.y.a.b", true},
		{"**.a.b", "a.b", false},
		{"**.a.b", "xa.b", false},
		{"**.a.b", "x..a.b", false},
		{".a.b", "a.b", true},
		{".a.b", "x.a.b", true},
		{".a.b", "x.y.a.b", true},
		{".a.b", "b", false},
		{".a.b", "", false},
		{".a.b", ".a.b", false},
		// The name is a wildcard: what is under it and what is covered have a name in common.
		{"a.b", "*.b", true},
		{"a.b", "*.a.b", false},
		{"x.a.b", "*.b", false},
		{"a.c", "*.b", false},
		{"*.a.b", "*.a.b", true},
		{"*.a.b", "*.b", false},
		{"*.a.b", "*.x.a.b", false},
		{"**.a.b", "*.a.b", true},
		{"**.a.b", "*.x.a.b", true},
		{"**.a.b", "*.b", false},
		{".a.b", "*.a.b", true},
		{".a.b", "*.x.a.b", true},
		{".a.b", "*.b", true},
		{".x.a.b", "*.b", false},
		{".a.b", "*.c", false},
		{".b", "*.b", true},
	} {
		if got := Covers(tc.pattern, tc.name); got != tc.want {
			t.Errorf("Covers(%q, %q): got %v, want %v", tc.pattern, tc.name, got, tc.want)
		}
	}
}
