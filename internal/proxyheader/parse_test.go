package proxyheader

import (
	"bytes"
	"fmt"
	"net/netip"
	"strings"
	"testing"
)

// binaryHeader builds a version 2 header; length is that of the block given.
func binaryHeader(command, family byte, block ...[]byte) string {
	b := bytes.Join(block, nil)
	return signature2 + string([]byte{command, family, byte(len(b) >> 8), byte(len(b))}) + string(b)
}

var (
	inetBlock  = []byte{192, 0, 2, 1, 198, 51, 100, 2, 0xdc, 0x04, 0x01, 0xbb}
	inet6Block = bytes.Join([][]byte{
		netip.MustParseAddr("2001:db8::1").AsSlice(), netip.MustParseAddr("2001:db8::2").AsSlice(), {0xdc, 0x04, 0x01, 0xbb},
	}, nil)
	tlvs = []byte{0x02, 0x00, 0x03, 'a', '.', 'b', 0x04, 0x00, 0x00}
)

const (
	src4, dst4 = "192.0.2.1:56324", "198.51.100.2:443"
	src6, dst6 = "[2001:db8::1]:56324", "[2001:db8::2]:443"
)

// accepted are whole headers. An empty source means that the header carries no address.
var accepted = []struct {
	name, wire string
	version    int
	src, dst   string
	tlvs       string
}{
	{"tcp4", "PROXY TCP4 192.0.2.1 198.51.100.2 56324 443\r\n", 1, src4, dst4, ""},
	{"tcp4_shortest", "PROXY TCP4 1.1.1.1 2.2.2.2 0 0\r\n", 1, "1.1.1.1:0", "2.2.2.2:0", ""},
	{"tcp4_longest", "PROXY TCP4 255.255.255.255 255.255.255.255 65535 65535\r\n", 1, "255.255.255.255:65535", "255.255.255.255:65535", ""},
	{"tcp6", "PROXY TCP6 2001:db8::1 2001:db8::2 56324 443\r\n", 1, src6, dst6, ""},
	{"tcp6_upper_case", "PROXY TCP6 2001:DB8::1 2001:0db8::0002 56324 443\r\n", 1, src6, dst6, ""},
	{"tcp6_longest", "PROXY TCP6 " + full6 + " " + full6 + " 65535 65535\r\n", 1, "[" + full6 + "]:65535", "[" + full6 + "]:65535", ""},
	{"tcp6_mapped_stays_mapped", "PROXY TCP6 ::ffff:192.0.2.1 ::ffff:c633:6402 1 2\r\n", 1, "[::ffff:192.0.2.1]:1", "[::ffff:198.51.100.2]:2", ""},
	{"unknown_bare", "PROXY UNKNOWN\r\n", 1, "", "", ""},
	{"unknown_with_addresses", "PROXY UNKNOWN ffff:f::ffff ::1 65535 65535\r\n", 1, "", "", ""},
	{"unknown_with_anything", "PROXY UNKNOWN  \x00\xff\r.\r\n", 1, "", "", ""},
	{"unknown_longest", "PROXY UNKNOWN " + strings.Repeat("x", 107-16) + "\r\n", 1, "", "", ""},

	{"inet", binaryHeader(0x21, 0x11, inetBlock), 2, src4, dst4, ""},
	{"inet_datagram", binaryHeader(0x21, 0x12, inetBlock), 2, src4, dst4, ""},
	{"inet_transport_ignored", binaryHeader(0x21, 0x1f, inetBlock), 2, src4, dst4, ""},
	{"inet_tlvs", binaryHeader(0x21, 0x11, inetBlock, tlvs), 2, src4, dst4, string(tlvs)},
	{"inet_one_tlv_byte", binaryHeader(0x21, 0x11, inetBlock, tlvs[:1]), 2, src4, dst4, string(tlvs[:1])},
	{"inet6", binaryHeader(0x21, 0x21, inet6Block), 2, src6, dst6, ""},
	{"inet6_tlvs", binaryHeader(0x21, 0x21, inet6Block, tlvs), 2, src6, dst6, string(tlvs)},
	{"inet6_longest", binaryHeader(0x21, 0x21, inet6Block, make([]byte, 65535-blockInet6)), 2, src6, dst6, strings.Repeat("\x00", 65535-blockInet6)},
	{"unspec", binaryHeader(0x21, 0x00), 2, "", "", ""},
	{"unspec_tlvs", binaryHeader(0x21, 0x01, tlvs), 2, "", "", string(tlvs)},
	{"local", binaryHeader(0x20, 0x00), 2, "", "", ""},
	{"local_inet_forged", binaryHeader(0x20, 0x11, inetBlock), 2, "", "", ""},
	{"local_inet6_forged", binaryHeader(0x20, 0x21, inet6Block, tlvs), 2, "", "", ""},
	{"local_short_block", binaryHeader(0x20, 0x11, inetBlock[:3]), 2, "", "", ""},
	{"local_family_ignored", binaryHeader(0x20, 0xff, inetBlock), 2, "", "", ""},
}

const full6 = "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff"

func addrPort(t *testing.T, s string) netip.AddrPort {
	t.Helper()
	if s == "" {
		return netip.AddrPort{}
	}
	return netip.MustParseAddrPort(s)
}

func TestAccepted(t *testing.T) {
	for _, tc := range accepted {
		t.Run(tc.name, func(t *testing.T) {
			var p Parser
			if got := p.Parse([]byte(tc.wire + "rest")); got != Complete {
				t.Fatalf("got %v, want %v", got, Complete)
			}
			h := p.Header()
			if h.Version != tc.version || h.Len != len(tc.wire) {
				t.Errorf("got version %d, length %d, want %d, %d", h.Version, h.Len, tc.version, len(tc.wire))
			}
			if h.Source != addrPort(t, tc.src) || h.Destination != addrPort(t, tc.dst) {
				t.Errorf("got %v → %v, want %q → %q", h.Source, h.Destination, tc.src, tc.dst)
			}
			if string(h.TLVs) != tc.tlvs {
				t.Errorf("got TLVs %x, want %x", h.TLVs, tc.tlvs)
			}
			if cap(h.TLVs) != len(h.TLVs) {
				t.Errorf("got TLVs with room for %d bytes behind them, want none", cap(h.TLVs)-len(h.TLVs))
			}
		})
	}
}

// TestEveryPrefixNeedsMore feeds each header byte by byte to one parser, each time from a window of its own.
func TestEveryPrefixNeedsMore(t *testing.T) {
	for _, tc := range accepted {
		t.Run(tc.name, func(t *testing.T) {
			var drip Parser
			step := 1 + len(tc.wire)/1000
			for n := 0; n < len(tc.wire); n += step {
				var fresh Parser
				if got := fresh.Parse([]byte(tc.wire[:n])); got != NeedMore {
					t.Fatalf("%d of %d bytes at once: got %v, want %v", n, len(tc.wire), got, NeedMore)
				}
				if got := drip.Parse([]byte(tc.wire[:n])); got != NeedMore || drip.Header() != nil {
					t.Fatalf("%d of %d bytes: got %v, %v, want %v, nil", n, len(tc.wire), got, drip.Header(), NeedMore)
				}
			}
			if got := drip.Parse([]byte(tc.wire)); got != Complete {
				t.Fatalf("got %v, want %v", got, Complete)
			}
		})
	}
}

// TestRefusedAtOnce names for each input the number of bytes that suffice to refuse it; one byte less needs more.
func TestRefusedAtOnce(t *testing.T) {
	const tcp4 = "PROXY TCP4 192.0.2.1 198.51.100.2 "
	for _, tc := range []struct {
		name, wire string
		after      int
	}{
		{"tls", "\x16\x03\x01", 1},
		{"http_get", "GET / HTTP/1.1\r\n", 1},
		{"http_put", "PUT / HTTP/1.1\r\n", 2},
		{"lower_case", "proxy TCP4", 1},
		{"v1_signature_runs_on", "PROXYjunk TCP4", 6},
		{"v1_signature_cut", "PROX TCP4", 5},
		{"v1_tab", "PROXY\tTCP4", 6},
		{"v1_two_spaces", "PROXY  TCP4", 7},
		{"v1_signature_ends_line", "PROXY\r\n", 6},
		{"v1_udp4", "PROXY UDP4", 8},
		{"v1_tcp5", "PROXY TCP5", 10},
		{"v1_tcp4_runs_on", "PROXY TCP44", 11},
		{"v1_family_cut", "PROXY TCP 1", 10},
		{"v1_unknown_cut_to_four", "PROXY UNKN 1.1.1.1 2.2.2.2 1 2\r\n", 11},
		{"v1_unknown_runs_on", "PROXY UNKNOWNS", 14},
		{"v1_unknown_lf", "PROXY UNKNOWN\n", 14},
		{"v1_unknown_space_lf", "PROXY UNKNOWN \n", 15},
		{"v1_family_ends_line", "PROXY TCP4\r\n", 11},
		{"v1_name_for_address", "PROXY TCP4 localhost", 12},
		{"v1_address_empty", "PROXY TCP4  1.1.1.1", 12},
		{"v1_octet_leading_zero", "PROXY TCP4 192.0.02.1 ", 22},
		{"v1_octet_256", "PROXY TCP4 192.0.2.256 ", 23},
		{"v1_three_octets", "PROXY TCP4 192.0.2 ", 19},
		{"v1_v6_in_tcp4", "PROXY TCP4 2001:db8::1 ", 16},
		{"v1_v4_in_tcp6", "PROXY TCP6 192.0.2.1 ", 21},
		{"v1_zone", "PROXY TCP6 fe80::1%eth0 ", 19},
		{"v1_two_ellipses", "PROXY TCP6 1::2::3 ", 19},
		{"v1_second_address_bad", "PROXY TCP4 192.0.2.1 198.51.100 ", 32},
		{"v1_line_ends_after_address", "PROXY TCP4 192.0.2.1\r", 21},
		{"v1_port_empty", tcp4 + " 443\r\n", len(tcp4) + 1},
		{"v1_port_leading_zero", tcp4 + "080 ", len(tcp4) + 4},
		{"v1_port_two_zeros", tcp4 + "00 ", len(tcp4) + 3},
		{"v1_port_plus", tcp4 + "+1 ", len(tcp4) + 1},
		{"v1_port_65536", tcp4 + "65536 ", len(tcp4) + 6},
		{"v1_port_six_digits", tcp4 + "100000 ", len(tcp4) + 7},
		{"v1_one_port", tcp4 + "1\r\n", len(tcp4) + 2},
		{"v1_space_before_crlf", tcp4 + "1 2 \r\n", len(tcp4) + 4},
		{"v1_third_port", tcp4 + "1 2 3\r\n", len(tcp4) + 4},
		{"v1_lf", tcp4 + "1 2\n", len(tcp4) + 4},
		{"v1_cr_without_lf", tcp4 + "1 2\rx", len(tcp4) + 5},
		{"v1_too_long", "PROXY UNKNOWN " + strings.Repeat("x", 107-15) + "\r\n", 107},
		{"v1_endless_port", tcp4 + strings.Repeat("1", 107), 107},
		{"v1_port_wraps_around", tcp4 + "18446744073709551617 ", len(tcp4) + 21},

		{"v2_signature_last_byte", signature2[:11] + "\r", 12},
		{"v2_signature_is_blank_lines", "\r\n\r\nGET /", 5},
		{"v2_version_1", signature2 + "\x11", 13},
		{"v2_version_3", signature2 + "\x31", 13},
		{"v2_command_2", signature2 + "\x22", 13},
		{"v2_inet_short", binaryHeader(0x21, 0x11, inetBlock[:11]), 16},
		{"v2_inet_empty", binaryHeader(0x21, 0x11), 16},
		{"v2_inet6_short", binaryHeader(0x21, 0x21, inet6Block[:35]), 16},
		{"v2_unix", binaryHeader(0x21, 0x31, make([]byte, 216)), 16 + 216},
		{"v2_unix_empty", binaryHeader(0x21, 0x31), 16},
		{"v2_family_15", binaryHeader(0x21, 0xf1, inetBlock), 16 + 12},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var p Parser
			if got := p.Parse([]byte(tc.wire[:tc.after-1])); got != NeedMore {
				t.Fatalf("%d bytes: got %v, want %v", tc.after-1, got, NeedMore)
			}
			if got := p.Parse([]byte(tc.wire[:tc.after])); got != Invalid || p.Header() != nil {
				t.Fatalf("%d bytes: got %v, %v, want %v, nil", tc.after, got, p.Header(), Invalid)
			}
			var whole Parser
			if got := whole.Parse([]byte(tc.wire)); got != Invalid {
				t.Fatalf("whole: got %v, want %v", got, Invalid)
			}
		})
	}
}

// TestSignatures changes each byte that every header of a version has.
func TestSignatures(t *testing.T) {
	for _, signature := range []string{signature1 + " ", signature2} {
		for i := range len(signature) {
			wire := []byte(signature)
			wire[i] ^= 0x80
			var p Parser
			if got := p.Parse(wire[:i]); got != NeedMore {
				t.Errorf("%q: got %v, want %v", wire[:i], got, NeedMore)
			}
			if got := p.Parse(wire[:i+1]); got != Invalid {
				t.Errorf("%q: got %v, want %v", wire[:i+1], got, Invalid)
			}
		}
	}
}

// TestLatched shows that a final answer survives whatever comes after it.
func TestLatched(t *testing.T) {
	good, bad := []byte(accepted[0].wire), []byte("GET / HTTP/1.1\r\n")
	for _, tc := range []struct {
		name          string
		first, second []byte
		want          Status
	}{
		{"complete", good, append(bytes.Repeat([]byte{'x'}, len(good)), "more"...), Complete},
		{"invalid", bad, good, Invalid},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var p Parser
			p.Parse(tc.first)
			before := fmt.Sprint(p.Header())
			if got := p.Parse(tc.second); got != tc.want {
				t.Errorf("got %v, want %v", got, tc.want)
			}
			if got := fmt.Sprint(p.Header()); got != before {
				t.Errorf("got header %v, want %v", got, before)
			}
		})
	}
}

func TestAcceptedHeadersAllocateNothing(t *testing.T) {
	for _, tc := range accepted {
		window := []byte(tc.wire)
		allocs := testing.AllocsPerRun(10, func() {
			var p Parser
			p.Parse(window[:len(window)/2])
			if p.Parse(window) != Complete {
				t.Errorf("%s: not complete", tc.name)
			}
		})
		if allocs != 0 {
			t.Errorf("%s: got %v allocations, want 0", tc.name, allocs)
		}
	}
}

func BenchmarkParse(b *testing.B) {
	for _, name := range []string{"tcp4", "tcp6", "inet", "inet6"} {
		for _, tc := range accepted {
			if tc.name != name {
				continue
			}
			b.Run(name, func(b *testing.B) {
				window := []byte(tc.wire)
				b.ReportAllocs()
				for b.Loop() {
					var p Parser
					p.Parse(window)
				}
			})
		}
	}
}
