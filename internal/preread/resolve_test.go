package preread

import (
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/caddy-sluice/sluice/internal/clienthello"
	"github.com/caddy-sluice/sluice/internal/snitable"
)

var (
	label63 = strings.Repeat("a", 63)
	name253 = label63 + "." + label63 + "." + label63 + "." + label63[:61]
)

func TestNormalize(t *testing.T) {
	for _, tc := range []struct{ name, raw, want string }{
		{"plain", "exact.example.com", "exact.example.com"},
		{"upper_case", "EXACT.Example.COM", "exact.example.com"},
		{"az_AZ_09", "abcxyz-ABCXYZ_019", "abcxyz-abcxyz_019"},
		{"one_trailing_dot", "exact.example.com.", "exact.example.com"},
		{"single_label", "localhost", "localhost"},
		{"underscore", "_dns.example.com", "_dns.example.com"},
		{"hyphens", "-a-.b--c", "-a-.b--c"},
		{"a_label", "xn--bcher-kva.example", "xn--bcher-kva.example"},
		{"digits_but_no_address", "1.2.3", "1.2.3"},
		{"leading_zero_is_no_address", "192.0.2.01", "192.0.2.01"},
		{"address_in_a_name", "192.0.2.1.example.com", "192.0.2.1.example.com"},
		{"label_63", label63 + ".com", label63 + ".com"},
		{"name_253", name253, name253},
		{"name_253_trailing_dot", name253 + ".", name253},

		{"absent", "", ""},
		{"dot", ".", ""},
		{"two_dots", "..", ""},
		{"two_trailing_dots", "exact.example.com..", ""},
		{"leading_dot", ".example.com", ""},
		{"two_leading_dots", "..example.com", ""},
		{"dots_inside", "a..example.com", ""},
		{"ipv4", "192.0.2.1", ""},
		{"ipv4_trailing_dot", "192.0.2.1.", ""},
		{"ipv6", "2001:db8::1", ""},
		{"ipv6_without_digits", "::", ""},
		{"ipv6_mapped", "::ffff:192.0.2.1", ""},
		{"ipv6_bracketed", "[2001:db8::1]", ""},
		{"ipv4_bracketed", "[192.0.2.1]", ""},
		{"port", "example.com:443", ""},
		{"wildcard", "*.example.com", ""},
		{"nul", "a\x00.example.com", ""},
		{"space", "a b.example.com", ""},
		{"line_feed", "example.com\n", ""},
		{"delete", "a\x7f.example.com", ""},
		{"slash", "/a.example.com", ""},
		{"at", "a@example.com", ""},
		{"bracket", "a[b", ""},
		{"backquote", "a`b", ""},
		{"brace", "a{b", ""},
		{"u_label", "bücher.example", ""},
		{"kelvin_sign", "\u212a.example", ""},
		{"invalid_utf8", "\xff\xfe", ""},
		{"label_64", label63 + "a.com", ""},
		{"last_label_64", "com." + label63 + "a", ""},
		{"name_254", "a" + name253, ""},
		{"name_254_with_dot", "a." + name253[1:], ""},
		{"very_long", strings.Repeat("a.", 8000) + "com", ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var buf [maxName]byte
			if got := string(normalize(&buf, []byte(tc.raw))); got != tc.want {
				t.Errorf("got %q, want %q", got, tc.want)
			}
			if tc.want == "" {
				return
			}
			if again := string(normalize(&buf, []byte(tc.want))); again != tc.want {
				t.Errorf("normalised again: got %q, want %q", again, tc.want)
			}
		})
	}
}

// TestNormalizeByteSet goes through all bytes, alone in the middle of a label.
func TestNormalizeByteSet(t *testing.T) {
	const allowed = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_."
	for b := range 256 {
		var buf [maxName]byte
		got := normalize(&buf, []byte{'a', byte(b), 'a'}) != nil
		if want := strings.IndexByte(allowed, byte(b)) >= 0; got != want {
			t.Errorf("byte %#02x: got %v, want %v", b, got, want)
		}
	}
}

// FuzzNormalize holds normalize against a reading of the rules with the standard library.
func FuzzNormalize(f *testing.F) {
	for _, s := range []string{"Exact.Example.com.", "192.0.2.1", "a..b", "::1", name253, "*.a", ".", "a_b-c"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		before := string(raw)
		want := strings.TrimSuffix(before, ".")
		if strings.ContainsFunc(want, func(r rune) bool {
			return !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("-_.", r))
		}) || len(want) > 253 || slices.ContainsFunc(strings.Split(want, "."), func(l string) bool { return l == "" || len(l) > 63 }) {
			want = ""
		}
		if _, err := netip.ParseAddr(want); err == nil {
			want = ""
		}
		var buf [maxName]byte
		if got := string(normalize(&buf, raw)); got != strings.ToLower(want) {
			t.Errorf("%q: got %q, want %q", raw, got, strings.ToLower(want))
		}
		if string(raw) != before {
			t.Errorf("the name was changed from %q to %q", before, raw)
		}
	})
}

// TestResolveIsPure asks twice, and once more with another table in between.
func TestResolveIsPure(t *testing.T) {
	table := testTable(t)
	hello := &clienthello.Hello{ServerName: []byte("Mixed.example.com."), ALPN: clienthello.Protocols("\x06spdy/1\x02h2")}
	for range 2 {
		name, m, r := Resolve(table, hello)
		want := snitable.Match{Route: 4, Pattern: "mixed.example.com", Protocol: "h2"}
		if name != "mixed.example.com" || m != want || r != None {
			t.Errorf("got %q, %+v, %v, want %+v", name, m, r, want)
		}
		if name, m, r := Resolve(nil, hello); name != "mixed.example.com" || m != (snitable.Match{}) || r != None {
			t.Errorf("without a table: got %q, %+v, %v", name, m, r)
		}
	}
	if got := string(hello.ServerName); got != "Mixed.example.com." {
		t.Errorf("the hello was changed: %q", got)
	}
}

func TestResolveAllocations(t *testing.T) {
	table := testTable(t)
	for _, tc := range []struct {
		name string
		want float64
	}{{"host1.wild.example.com", 1}, {"unknown.example.net", 1}, {"192.0.2.1", 1}, {"", 0}, {"*.example.com", 0}} {
		hello := &clienthello.Hello{ServerName: []byte(tc.name)}
		if got := testing.AllocsPerRun(10, func() { Resolve(table, hello) }); got > tc.want {
			t.Errorf("%q: got %v allocations, want at most %v", tc.name, got, tc.want)
		}
	}
}
