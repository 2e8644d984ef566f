package preread

import (
	"bytes"
	"slices"
	"testing"
	"time"
	"unsafe"

	"github.com/caddy-sluice/sluice/internal/clienthello"
	"github.com/caddy-sluice/sluice/internal/snitable"
	"github.com/caddy-sluice/sluice/internal/testkit/hellos"
)

// t0 is the time of the first input in tests of one core.
var t0 = time.Unix(1_000_000_000, 0)

// testRoutes is the table of the tests; the index of a route is what a Match holds.
var testRoutes = []snitable.Route{
	0:  {Names: []string{"exact.example.com"}},
	1:  {Names: []string{"*.wild.example.com"}},
	2:  {Names: []string{"prefs.example.com"}, ALPN: []string{"http/1.1"}},
	3:  {Names: []string{"prefs.example.com"}, ALPN: []string{"h2"}},
	4:  {Names: []string{"mixed.example.com"}, ALPN: []string{"h2"}},
	5:  {Names: []string{"mixed.example.com"}},
	6:  {Names: []string{"alpn.example.com"}, ALPN: []string{"h2"}},
	7:  {Names: []string{"any-first.example.com"}},
	8:  {Names: []string{"any-first.example.com"}, ALPN: []string{"h2"}},
	9:  {Names: []string{"strict.wild.example.com"}, ALPN: []string{"h2"}},
	10: {Names: []string{"**.deep.example.com"}},
	11: {Names: []string{".tree.example.com"}},
}

func newTable(t testing.TB, routes []snitable.Route) *snitable.Table {
	t.Helper()
	table, err := snitable.New(routes)
	if err != nil {
		t.Fatal(err)
	}
	return table
}

func testTable(t testing.TB) *snitable.Table {
	t.Helper()
	return newTable(t, testRoutes)
}

func testConfig(t testing.TB) *Config {
	t.Helper()
	return &Config{Table: testTable(t), MaxBytes: DefaultMaxBytes, Timeout: DefaultTimeout}
}

// decide feeds window to a fresh core at once.
func decide(cfg *Config, window []byte) Verdict {
	var c Core
	return c.Bytes(cfg, window, t0)
}

func rejected(r Reason) Verdict { return Verdict{Kind: Reject, Reason: r} }

func routed(route int, pattern, protocol string) Verdict {
	return Verdict{Kind: Routed, Match: snitable.Match{Route: route, Pattern: pattern, Protocol: protocol}}
}

func needMore(deadline time.Time) Verdict { return Verdict{Kind: NeedMore, Deadline: deadline} }

func check(t *testing.T, got, want Verdict) {
	t.Helper()
	if got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

func hello(name string, alpn ...string) []byte {
	return hellos.New(hellos.Options{ServerName: name, ALPN: alpn})
}

// emptyName is a hello whose server_name extension holds an empty name.
func emptyName() []byte {
	return hellos.New(hellos.Options{Extensions: []hellos.Extension{hellos.ServerName(hellos.Name{})}})
}

func TestRouting(t *testing.T) {
	const wild = "*.wild.example.com"
	noRoute := func(pattern string) Verdict {
		return Verdict{Kind: Reject, Reason: ALPNUnmatched, Match: snitable.Match{Pattern: pattern}}
	}
	for _, tc := range []struct {
		name  string
		hello []byte
		want  Verdict
	}{
		{"exact", hello("exact.example.com"), routed(0, "exact.example.com", "")},
		{"C14_upper_case", hello("EXACT.Example.COM"), routed(0, "exact.example.com", "")},
		{"C15_trailing_dot", hello("exact.example.com."), routed(0, "exact.example.com", "")},
		{"C15_two_trailing_dots", hello("exact.example.com.."), rejected(NoSNI)},
		{"C15_dot", hello("."), rejected(NoSNI)},
		{"C15_dot_ech", hellos.New(hellos.Options{ServerName: ".", ECH: true}), rejected(ECHOuterAbsent)},
		{"C16_ipv4", hello("192.0.2.1"), rejected(NoSNI)},
		{"C16_ipv6", hello("2001:db8::1"), rejected(NoSNI)},
		{"C16_ipv4_ech", hellos.New(hellos.Options{ServerName: "192.0.2.1", ECH: true}), rejected(ECHOuterAbsent)},
		{"C17_unknown", hello("unknown.example.net"), rejected(SNIUnmatched)},
		{"C18_wildcard", hello("host1.wild.example.com"), routed(1, wild, "")},
		{"C18_two_labels", hello("a.b.wild.example.com"), rejected(SNIUnmatched)},
		{"C18_apex", hello("wild.example.com"), rejected(SNIUnmatched)},
		{"C18_deep_wildcard", hello("a.b.deep.example.com"), routed(10, "**.deep.example.com", "")},
		{"C18_tree_apex", hello("tree.example.com"), routed(11, ".tree.example.com", "")},
		{"C19_exact_refuses_alpn", hello("strict.wild.example.com", "http/1.1"), noRoute("strict.wild.example.com")},
		{"C21_empty_label", hello(".wild.example.com"), rejected(NoSNI)},
		{"C21_two_empty_labels", hello("..wild.example.com"), rejected(NoSNI)},
		{"C22_star", hello("*.wild.example.com"), rejected(NoSNI)},
		{"C22_nul", hello("a\x00.wild.example.com"), rejected(NoSNI)},
		{"C23_h2_first", hello("prefs.example.com", "h2", "http/1.1"), routed(3, "prefs.example.com", "h2")},
		{"C23_http11_first", hello("prefs.example.com", "http/1.1", "h2"), routed(2, "prefs.example.com", "http/1.1")},
		{"C24_catch_all", hello("mixed.example.com", "spdy/1"), routed(5, "mixed.example.com", "")},
		{"C24_no_alpn", hello("mixed.example.com"), routed(5, "mixed.example.com", "")},
		{"C24_second_offer", hello("mixed.example.com", "spdy/1", "h2"), routed(4, "mixed.example.com", "h2")},
		{"C25_other_alpn", hello("alpn.example.com", "http/1.1"), noRoute("alpn.example.com")},
		{"C25_no_alpn", hello("alpn.example.com"), noRoute("alpn.example.com")},
		{"C25_alpn_case", hello("alpn.example.com", "H2"), noRoute("alpn.example.com")},
		{"C26_grease_alpn", hello("mixed.example.com", "\x0a\x0a", "h2"), routed(4, "mixed.example.com", "h2")},
		{"C27_catch_all_listed_first", hello("any-first.example.com", "h2"), routed(8, "any-first.example.com", "h2")},
		{"C28_no_sni", hello(""), rejected(NoSNI)},
		{"C28_empty_name", emptyName(), rejected(NoSNI)},
		{"C28_no_sni_ech", hellos.New(hellos.Options{ECH: true}), rejected(ECHOuterAbsent)},
		{"C28_outer_name", hellos.New(hellos.Options{ServerName: "exact.example.com", ECH: true}), routed(0, "exact.example.com", "")},
		{"no_sni_no_alpn_either", hello("", "http/1.1"), rejected(NoSNI)},
	} {
		t.Run(tc.name, func(t *testing.T) {
			before := bytes.Clone(tc.hello)
			check(t, decide(testConfig(t), tc.hello), tc.want)
			if !bytes.Equal(tc.hello, before) {
				t.Error("C01: the window was changed")
			}
			for n := range tc.hello {
				check(t, decide(testConfig(t), tc.hello[:n]), needMore(t0.Add(DefaultTimeout)))
			}
		})
	}
}

func TestFraming(t *testing.T) {
	message := hellos.Message(hellos.Options{ServerName: "exact.example.com"})
	alert := hellos.Record(hellos.TypeAlert, 0x0303, []byte{2, 40})
	serverHello := hellos.Record(hellos.TypeHandshake, 0x0303, hellos.Handshake(2, make([]byte, 40)))
	twoNames := hellos.ServerName(hellos.Name{Name: "a"}, hellos.Name{Name: "b"})
	for _, tc := range []struct {
		name   string
		window []byte
		want   Verdict
	}{
		{"first_byte_decides", []byte{'G'}, rejected(NotTLS)},
		{"C35_proxy_v1_not_expected", []byte("PROXY TCP4 192.0.2.1 192.0.2.2 1 2\r\n"), rejected(NotTLS)},
		{"C35_proxy_v2_not_expected", slices.Concat(proxyInet, message), rejected(NotTLS)},
		{"alert_first", alert, rejected(NotTLS)},
		{"record_too_long", []byte{22, 3, 3, 0x40, 1}, rejected(MalformedRecord)},
		{"alert_inside", slices.Concat(hellos.Wrap(message[:20]), alert[:5]), rejected(MalformedRecord)},
		{"server_hello", serverHello, rejected(MalformedHandshake)},
		{"two_names", hellos.New(hellos.Options{Extensions: []hellos.Extension{twoNames}}), rejected(MalformedHandshake)},
		{"bad_alpn_beats_no_sni", hellos.New(hellos.Options{Extensions: []hellos.Extension{hellos.ALPN("")}}), rejected(MalformedHandshake)},
		{"many_records", hellos.Wrap(message, 1), routed(0, "exact.example.com", "")},
		{"empty_records", hellos.Wrap(message, 0, 0, 0, 30, 0, 100), routed(0, "exact.example.com", "")},
	} {
		t.Run(tc.name, func(t *testing.T) {
			check(t, decide(testConfig(t), tc.window), tc.want)
			check(t, decide(testConfig(t), tc.window[:len(tc.window)-1]), beforeLastByte(tc.window, tc.want))
		})
	}
}

// beforeLastByte is the verdict with one byte less: what the first byte decides stays decided.
func beforeLastByte(window []byte, want Verdict) Verdict {
	if want.Reason == NotTLS && len(window) > 1 {
		return want
	}
	return needMore(t0.Add(DefaultTimeout))
}

// TestEmptyTable is C17's second half, and the handler that has no routes.
func TestEmptyTable(t *testing.T) {
	cfg := testConfig(t)
	cfg.Table = newTable(t, nil)
	check(t, decide(cfg, hello("exact.example.com")), rejected(SNIUnmatched))

	cfg.Table = nil
	for _, name := range []string{"exact.example.com", "192.0.2.1", ""} {
		check(t, decide(cfg, hello(name)), Verdict{Kind: Routed})
	}
	check(t, decide(cfg, hellos.New(hellos.Options{ECH: true})), Verdict{Kind: Routed})
}

// TestTableAtDecisionTime is C42: the table of the call that completes the hello decides.
func TestTableAtDecisionTime(t *testing.T) {
	with, without := testConfig(t), testConfig(t)
	without.Table = newTable(t, []snitable.Route{{Names: []string{"other.example.com"}}})
	window := hello("exact.example.com")
	for _, tc := range []struct {
		name          string
		first, second *Config
		want          Verdict
	}{
		{"removed", with, without, rejected(SNIUnmatched)},
		{"added", without, with, routed(0, "exact.example.com", "")},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var c Core
			c.Bytes(tc.first, window[:60], t0)
			check(t, c.Bytes(tc.second, window, t0), tc.want)
			check(t, c.Bytes(tc.first, window, t0), tc.want)
		})
	}
}

func TestAccessors(t *testing.T) {
	cfg := testConfig(t)
	for _, tc := range []struct {
		name     string
		window   []byte
		hello    bool
		server   string
		protocol string
	}{
		{"routed", hello("Mixed.example.com.", "h2"), true, "mixed.example.com", "h2"},
		{"unknown_name", hello("Unknown.example.net", "h2"), true, "unknown.example.net", "h2"},
		{"unknown_protocol", hello("alpn.example.com", "x"), true, "alpn.example.com", "x"},
		{"address", hello("192.0.2.1", "x"), true, "", "x"},
		{"half", hello("exact.example.com")[:40], false, "", ""},
		{"not_tls", []byte("GET /"), false, "", ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var c Core
			c.Bytes(cfg, tc.window, t0)
			if got := c.ServerName(); got != tc.server {
				t.Errorf("got name %q, want %q", got, tc.server)
			}
			if got := c.Hello() != nil; got != tc.hello {
				t.Fatalf("got hello %v, want %v", got, tc.hello)
			}
			if tc.hello {
				if got, _ := c.Hello().ALPN.Next(); string(got) != tc.protocol {
					t.Errorf("got protocol %q, want %q", got, tc.protocol)
				}
			}
			if c.ProxyHeader() != nil {
				t.Errorf("got PROXY header %+v, want none", c.ProxyHeader())
			}
		})
	}
}

// TestRecorded feeds the hellos of real clients whole and byte by byte.
func TestRecorded(t *testing.T) {
	cfg := testConfig(t)
	cfg.Table = nil
	for _, rec := range hellos.Recorded() {
		t.Run(rec.Name, func(t *testing.T) {
			var c Core
			for n := range rec.Bytes {
				check(t, c.Bytes(cfg, rec.Bytes[:n], t0), needMore(t0.Add(DefaultTimeout)))
			}
			check(t, c.Bytes(cfg, rec.Bytes, t0), Verdict{Kind: Routed})
			check(t, decide(cfg, rec.Bytes), Verdict{Kind: Routed})
			check(t, decide(cfg, append(bytes.Clone(rec.Bytes), "more"...)), Verdict{Kind: Routed})
			if got := c.ServerName(); got != rec.ServerName {
				t.Errorf("got name %q, want %q", got, rec.ServerName)
			}
			if got := protocols(c.Hello().ALPN); !slices.Equal(got, rec.ALPN) {
				t.Errorf("got protocols %q, want %q", got, rec.ALPN)
			}
			_, _, reason := Resolve(testTable(t), c.Hello())
			if want := reasonOf(rec); reason != want {
				t.Errorf("got %v, want %v", reason, want)
			}
		})
	}
}

// reasonOf is why the test table, which knows none of the names, has no route for a recording.
func reasonOf(rec hellos.Recording) Reason {
	switch {
	case rec.ServerName != "":
		return SNIUnmatched
	case rec.ECH:
		return ECHOuterAbsent
	}
	return NoSNI
}

func protocols(list clienthello.Protocols) []string {
	var names []string
	for name := range list.All() {
		names = append(names, string(name))
	}
	return names
}

// TestSize keeps the core small: each undecided connection holds one.
func TestSize(t *testing.T) {
	if got := unsafe.Sizeof(Core{}); got > 384 {
		t.Errorf("got %d bytes, want at most 384", got)
	}
}
