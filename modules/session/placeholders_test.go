package session

import (
	"net"
	"testing"

	"github.com/caddy-sluice/sluice/internal/clienthello"
	"github.com/caddy-sluice/sluice/internal/preread"
)

// protocols is a protocol list with these names.
func protocols(names ...string) clienthello.Protocols {
	var list clienthello.Protocols
	for _, name := range names {
		list = append(append(list, byte(len(name))), name...)
	}
	return list
}

// TestPlaceholders checks each placeholder before its value is known and after. "-" stands for empty; a name that is
// not known stays as it is.
func TestPlaceholders(t *testing.T) {
	cx := newConnection(t)
	s := Of(cx)
	s.Client = &net.TCPAddr{IP: net.IPv4(192, 0, 2, 1), Port: 40000}
	check := func(placeholder, want string) {
		t.Helper()
		if got := cx.Replacer().ReplaceKnown(placeholder, "-"); got != want {
			t.Errorf("%s: got %q, want %q", placeholder, got, want)
		}
	}
	table := []struct{ name, before, after string }{
		{"sni", "-", "a.example.com"},
		{"alpn", "-", `h2,x\x2cy`},
		{"ech", "false", "true"},
		{"hello_size", "0", "517"},
		{"hello_records", "0", "2"},
		{"pattern", "-", "*.example.com"},
		{"reason", "-", "alpn_unmatched"},
		{"close_reason", "-", "preread_alpn_unmatched"},
		{"client", "192.0.2.1:40000", "198.51.100.7:1"},
		{"upstream", "-", "10.0.0.1:443"},
		{"attempts", "0", "2"},
		{"bytes_in", "0", "9000000000"},
		{"bytes_out", "0", "1"},
		{"tags.team", "-", "blue"},
		{"tags.other", "-", "-"},
		{"tags.", "-", "-"},
		{"tags", "{l4.sluice.tags}", "{l4.sluice.tags}"},
		{"nonesuch", "{l4.sluice.nonesuch}", "{l4.sluice.nonesuch}"},
		{"", "{l4.sluice.}", "{l4.sluice.}"},
	}
	for _, tc := range table {
		check("{l4.sluice."+tc.name+"}", tc.before)
	}
	check("{l4.sni}", "{l4.sni}")

	s.Hello = &Hello{ServerName: "a.example.com", ALPN: protocols("h2", "x,y"), ECH: true, Size: 517, Records: 2}
	s.Pattern, s.Reason, s.Tags = "*.example.com", preread.ALPNUnmatched, map[string]string{"team": "blue"}
	s.End(ForPreread(s.Reason))
	s.Client = &net.TCPAddr{IP: net.IPv4(198, 51, 100, 7), Port: 1}
	s.Upstream, s.Attempts, s.BytesIn, s.BytesOut = "10.0.0.1:443", 2, 9_000_000_000, 1
	for _, tc := range table {
		check("{l4.sluice."+tc.name+"}", tc.after)
	}
}

// TestFormatALPN checks that a list reads as one, whatever bytes its names hold.
func TestFormatALPN(t *testing.T) {
	for _, tc := range []struct {
		name string
		list clienthello.Protocols
		want string
	}{
		{"none", nil, ""},
		{"one", protocols("h2"), "h2"},
		{"order", protocols("http/1.1", "h2"), "http/1.1,h2"},
		{"comma", protocols("a,b", "c"), `a\x2cb,c`},
		{"comma_alone", protocols(","), `\x2c`},
		{"backslash", protocols(`\x2c`), `\x5cx2c`},
		{"space", protocols("a b"), `a\x20b`},
		{"control", protocols("\x00\t\n\x1b\x7f"), `\x00\x09\x0a\x1b\x7f`},
		{"edges_of_ascii", protocols("!~"), "!~"},
		{"not_ascii", protocols("ä\xff"), `\xc3\xa4\xff`},
		{"grease", protocols("\x0a\x0a", "h2"), `\x0a\x0a,h2`},
		{"not_well_formed", clienthello.Protocols{2, 'h', '2', 9, 'x'}, "h2"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if got := FormatALPN(tc.list); got != tc.want {
				t.Errorf("got %q, want %q", got, tc.want)
			}
		})
	}
}
