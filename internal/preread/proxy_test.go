package preread

import (
	"net/netip"
	"slices"
	"strings"
	"testing"
)

const proxySignature = "\r\n\r\n\x00\r\nQUIT\n"

// proxyV2 builds a version 2 header.
func proxyV2(command, family byte, block ...byte) []byte {
	return slices.Concat([]byte(proxySignature), []byte{command, family, byte(len(block) >> 8), byte(len(block))}, block)
}

var (
	inetBlock  = []byte{192, 0, 2, 1, 198, 51, 100, 2, 0xdc, 0x04, 0x01, 0xbb}
	inet6Block = append(append(slices.Repeat([]byte{0x20}, 16), slices.Repeat([]byte{0x21}, 16)...), 0xdc, 0x04, 0x01, 0xbb)
	proxyInet  = proxyV2(0x21, 0x11, inetBlock...)
	proxyLine  = []byte("PROXY TCP4 192.0.2.1 198.51.100.2 56324 443\r\n")
)

// proxyHeaders are valid headers; an empty source means that there is no address in them.
var proxyHeaders = []struct {
	name   string
	header []byte
	source string
}{
	{"C29_inet", proxyInet, "192.0.2.1:56324"},
	{"C29_inet6", proxyV2(0x21, 0x21, inet6Block...), "[2020:2020:2020:2020:2020:2020:2020:2020]:56324"},
	{"C29_unspec", proxyV2(0x21, 0x00), ""},
	{"C30_tlvs", proxyV2(0x21, 0x11, slices.Concat(inetBlock, []byte{4, 0, 3, 22, 3, 1})...), "192.0.2.1:56324"},
	{"C31_local_inet", proxyV2(0x20, 0x11, inetBlock...), ""},
	{"C31_local_inet6", proxyV2(0x20, 0x21, inet6Block...), ""},
	{"C36_datagram", proxyV2(0x21, 0x12, inetBlock...), "192.0.2.1:56324"},
	{"v1_tcp4", proxyLine, "192.0.2.1:56324"},
	{"v1_unknown", []byte("PROXY UNKNOWN\r\n"), ""},
}

func TestProxyHeader(t *testing.T) {
	cfg := testConfig(t)
	cfg.Proxy = true
	for _, tc := range proxyHeaders {
		t.Run(tc.name, func(t *testing.T) {
			window := slices.Concat(tc.header, hello("exact.example.com"))
			want := routed(0, "exact.example.com", "")
			want.Offset = len(tc.header)
			check(t, decide(cfg, window), want)

			var c Core
			for n := range window { // C32
				v := c.Bytes(cfg, window[:n], t0)
				if got := c.ProxyHeader() != nil; v.Kind != NeedMore || got != (n >= len(tc.header)) {
					t.Fatalf("%d bytes: got %+v, header %v", n, v, got)
				}
			}
			check(t, c.Bytes(cfg, window, t0), want)
			var source netip.AddrPort
			if tc.source != "" {
				source = netip.MustParseAddrPort(tc.source)
			}
			if got := c.ProxyHeader().Source; got != source {
				t.Errorf("got source %v, want %v", got, source)
			}
		})
	}
}

func TestProxyHeaderRejects(t *testing.T) {
	invalid := rejected(ProxyHeaderInvalid)
	behind := func(r Reason, offset int) Verdict { return Verdict{Kind: Reject, Reason: r, Offset: offset} }
	more := needMore(t0.Add(DefaultTimeout))
	for _, tc := range []struct {
		name   string
		window []byte
		want   Verdict
	}{
		{"C33_rubbish", []byte(strings.Repeat("\xaa", 16)), invalid},
		{"C33_v1_first_byte", []byte("P"), more},
		{"C33_v2_first_byte", []byte("\r"), more},
		{"C33_http_put", []byte("PUT"), invalid},
		{"C34_tls", hello("exact.example.com"), invalid},
		{"C34_tls_first_byte", []byte{22}, invalid},
		{"C36_version_1", proxyV2(0x11, 0x11, inetBlock...), invalid},
		{"C36_command_2", proxyV2(0x22, 0x11, inetBlock...), invalid},
		{"C36_version_3", proxyV2(0x31, 0x11, inetBlock...), invalid},
		{"C36_unix", proxyV2(0x21, 0x31, make([]byte, 216)...), invalid},
		{"C36_unix_incomplete", proxyV2(0x21, 0x31, make([]byte, 216)...)[:231], more},
		{"C37_short_block", proxyV2(0x21, 0x11, 1, 2, 3, 4), invalid},
		{"C38_two_headers", slices.Concat(proxyInet, proxyInet), behind(NotTLS, 28)},
		{"C38_line_behind_binary", slices.Concat(proxyInet, proxyLine), behind(NotTLS, 28)},
		{"rubbish_behind", slices.Concat(proxyLine, []byte("GET /")), behind(NotTLS, len(proxyLine))},
		{"unmatched_behind", slices.Concat(proxyInet, hello("a.example.net")), behind(SNIUnmatched, 28)},
	} {
		t.Run(tc.name, func(t *testing.T) {
			cfg := testConfig(t)
			cfg.Proxy = true
			check(t, decide(cfg, tc.window), tc.want)
		})
	}
}

// TestProxyHeaderAndLimit is the boundary table with a header in front: its bytes count.
func TestProxyHeaderAndLimit(t *testing.T) {
	window := slices.Concat(proxyInet, hello("exact.example.com"))
	size, offset := len(window), len(proxyInet)
	route := routed(0, "exact.example.com", "")
	route.Offset = offset
	tooLarge := Verdict{Kind: Reject, Reason: TooLarge, Offset: offset}
	more := needMore(t0.Add(DefaultTimeout))
	behind := more
	behind.Offset = offset
	longest := proxyV2(0x21, 0x11, make([]byte, 65535)...)
	for _, tc := range []struct {
		name   string
		window []byte
		limit  int
		want   Verdict
	}{
		{"C39_header_incomplete_at_limit", window[:10], 10, rejected(TooLarge)},
		{"C39_header_incomplete_below_limit", window[:10], 11, more},
		{"C39_one_byte_short", window[:size-1], size - 1, tooLarge},
		{"C39_fits", window, size, route},
		{"one_byte_to_come", window[:size-1], size, behind},
		{"trailing_bytes_over_limit", slices.Concat(window, []byte("more")), size, route},
		{"header_complete_at_limit", window[:offset], offset, tooLarge},
		{"header_complete_below_limit", window[:offset], offset + 1, behind},
		{"hello_malformed_at_limit", slices.Concat(proxyInet, []byte{22, 3, 3, 0xff, 0xff}), offset + 5, Verdict{Kind: Reject, Reason: MalformedRecord, Offset: offset}},
		{"header_invalid_at_limit", []byte{22}, 1, rejected(ProxyHeaderInvalid)},
		{"C37_longest_header_at_default", longest[:DefaultMaxBytes], DefaultMaxBytes, rejected(TooLarge)},
		{"C37_longest_header_below_default", longest[:DefaultMaxBytes-1], DefaultMaxBytes, more},
	} {
		t.Run(tc.name, func(t *testing.T) {
			cfg := testConfig(t)
			cfg.Proxy, cfg.MaxBytes = true, tc.limit
			check(t, decide(cfg, tc.window), tc.want)
		})
	}
}

// TestOffsetSurvivesOutOfBand: whoever replays the bytes of a connection that timed out must know where they begin.
func TestOffsetSurvivesOutOfBand(t *testing.T) {
	cfg := testConfig(t)
	cfg.Proxy = true
	for name, signal := range map[string]func(*Core) Verdict{
		"timeout":      (*Core).Timeout,
		"front_closed": (*Core).FrontClosed,
		"late_bytes":   func(c *Core) Verdict { return c.Bytes(cfg, proxyLine, t0.Add(DefaultTimeout)) },
	} {
		t.Run(name, func(t *testing.T) {
			var c Core
			c.Bytes(cfg, proxyLine, t0)
			if got := signal(&c); got.Kind != Reject || got.Offset != len(proxyLine) || c.ProxyHeader() == nil {
				t.Errorf("got %+v, header %v, want offset %d", got, c.ProxyHeader(), len(proxyLine))
			}
		})
	}
}
