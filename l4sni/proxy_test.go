package l4sni

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"testing"

	"github.com/caddy-sluice/sluice/internal/preread"
)

// trusting is a reader that demands a PROXY header from these peers.
func trusting(t *testing.T, from ...string) *prereader {
	t.Helper()
	config, err := json.Marshal(&Preread{ProxyProtocol: &ProxyProtocol{From: from}})
	if err != nil {
		t.Fatal(err)
	}
	h, _ := newPreread(t, string(config))
	return &h.reader
}

// proxyV2 is a version 2 header with this command (0: LOCAL, 1: PROXY) between two addresses of one family, and with
// TLVs behind them.
func proxyV2(command byte, src, dst string, tlvs ...byte) []byte {
	s, d := netip.MustParseAddrPort(src), netip.MustParseAddrPort(dst)
	family := byte(0x11)
	if s.Addr().BitLen() == 128 {
		family = 0x21
	}
	block := slices.Concat(s.Addr().AsSlice(), d.Addr().AsSlice())
	block = binary.BigEndian.AppendUint16(block, s.Port())
	block = binary.BigEndian.AppendUint16(block, d.Port())
	block = append(block, tlvs...)
	header := append([]byte("\r\n\r\n\x00\r\nQUIT\n"), 0x20|command, family)
	return append(binary.BigEndian.AppendUint16(header, uint16(len(block))), block...)
}

// TestProxyHeader checks what a header of a trusted peer changes: the addresses, and nothing of the stream.
func TestProxyHeader(t *testing.T) {
	const peer, here = "192.0.2.1:40000", "192.0.2.2:443"
	for _, tc := range []struct {
		name         string
		header       []byte
		client, dest string
	}{
		{"v1", []byte("PROXY TCP4 198.51.100.7 203.0.113.9 1234 8443\r\n"), "198.51.100.7:1234", "203.0.113.9:8443"},
		{"v1_ipv6", []byte("PROXY TCP6 2001:db8::7 2001:db8::9 1234 8443\r\n"), "[2001:db8::7]:1234", "[2001:db8::9]:8443"},
		{"v1_unknown", []byte("PROXY UNKNOWN\r\n"), peer, here},
		{"v2", proxyV2(1, "198.51.100.7:1234", "203.0.113.9:8443"), "198.51.100.7:1234", "203.0.113.9:8443"},
		{"v2_ipv6", proxyV2(1, "[2001:db8::7]:1234", "[2001:db8::9]:8443"), "[2001:db8::7]:1234", "[2001:db8::9]:8443"},
		{"v2_mapped", proxyV2(1, "[::ffff:198.51.100.7]:1234", "[::ffff:203.0.113.9]:8443"), "198.51.100.7:1234", "203.0.113.9:8443"},
		{"v2_tlvs", proxyV2(1, "198.51.100.7:1234", "203.0.113.9:8443", 4, 0, 1, 'x'), "198.51.100.7:1234", "203.0.113.9:8443"},
		{"v2_local", proxyV2(0, "198.51.100.7:1234", "203.0.113.9:8443"), peer, here},
		{"v2_local_empty", []byte("\r\n\r\n\x00\r\nQUIT\n\x20\x00\x00\x00"), peer, here},
		{"v2_unspec_tlvs", []byte("\r\n\r\n\x00\r\nQUIT\n\x21\x00\x00\x04\x04\x00\x01x"), peer, here},
	} {
		for _, chunk := range []int{0, 1} {
			t.Run(fmt.Sprintf("%s/%d", tc.name, chunk), func(t *testing.T) {
				tls := hello("a.example.com")
				r := read(trusting(t, "192.0.2.0/24"), &script{data: slices.Concat(tc.header, tls), chunk: chunk}, nil)
				r.check(t, preread.Routed, preread.None)
				if got := r.cx.RemoteAddr().String(); got != tc.client || r.sess.Client.String() != tc.client {
					t.Errorf("got client %v, %v in the session, want %v", got, r.sess.Client, tc.client)
				}
				if got := r.cx.LocalAddr().String(); got != tc.dest {
					t.Errorf("got local address %v, want %v", got, tc.dest)
				}
				if got := r.sess.Listener.String(); got != here {
					t.Errorf("got listener %v, want the socket's %v", got, here)
				}
				for _, placeholder := range []string{"{l4.conn.remote_addr}", "{l4.sluice.client}"} {
					if got := r.cx.Replacer().ReplaceAll(placeholder, ""); got != tc.client {
						t.Errorf("got %s %v, want %v", placeholder, got, tc.client)
					}
				}
				r.checkStream(t, tls)
				if !bytes.Equal(r.sess.ProxyHeader, tc.header) {
					t.Errorf("got header %q in the session, want %q", r.sess.ProxyHeader, tc.header)
				}
			})
		}
	}
}

// TestProxyHeaderRejects checks what becomes of the connection when header or hello are not as they should be.
func TestProxyHeaderRejects(t *testing.T) {
	header := proxyV2(1, "198.51.100.7:1234", "203.0.113.9:8443")
	for _, tc := range []struct {
		name   string
		data   []byte
		reason preread.Reason
		offset int
	}{
		{"hello_without_header", hello("a.example.com"), preread.ProxyHeaderInvalid, 0},
		{"plain_http", []byte("GET / HTTP/1.1\r\n"), preread.ProxyHeaderInvalid, 0},
		{"wrong_byte", append(slices.Clone(header[:11]), 'x'), preread.ProxyHeaderInvalid, 0},
		{"half_a_header", header[:20], preread.FrontClosed, 0},
		{"header_alone", header, preread.FrontClosed, len(header)},
		{"two_headers", slices.Concat(header, header), preread.NotTLS, len(header)},
		{"no_tls_behind", append(slices.Clone(header), "GET /"...), preread.NotTLS, len(header)},
		{"too_large", append(slices.Clone(header), longHello...), preread.TooLarge, len(header)},
	} {
		t.Run(tc.name, func(t *testing.T) {
			conn := &script{data: slices.Clone(tc.data)}
			r := read(trusting(t, "192.0.2.0/24"), conn, nil)
			r.check(t, preread.Reject, tc.reason)
			if r.silent() {
				t.Error("got silent, want a reason that is counted")
			}
			r.checkStream(t, tc.data[tc.offset:])
		})
	}
}

// TestTrust checks from whom a header is demanded, and that nobody else's is read.
func TestTrust(t *testing.T) {
	data := slices.Concat(proxyV2(1, "198.51.100.7:1234", "203.0.113.9:8443"), hello("a.example.com"))
	tcp := func(ap string) net.Addr { return net.TCPAddrFromAddrPort(netip.MustParseAddrPort(ap)) }
	for _, tc := range []struct {
		name   string
		from   string
		peer   net.Addr
		reason preread.Reason
	}{
		{"in_the_range", "192.0.2.0/24", tcp("192.0.2.255:1"), preread.None},
		{"outside", "192.0.2.0/24", tcp("192.0.3.0:1"), preread.NotTLS},
		{"mapped_peer", "192.0.2.0/24", tcp("[::ffff:192.0.2.1]:1"), preread.None},
		{"single_address", "192.0.2.1", tcp("192.0.2.1:1"), preread.None},
		{"its_neighbour", "192.0.2.1", tcp("192.0.2.2:1"), preread.NotTLS},
		{"ipv6", "2001:db8::/32", tcp("[2001:db8::1]:1"), preread.None},
		{"ipv6_with_zone", "fe80::/10", tcp("[fe80::1%eth0]:1"), preread.None},
		{"ipv4_is_not_in_all_of_ipv6", "::/0", tcp("192.0.2.1:1"), preread.NotTLS},
		{"private_ranges", "private_ranges", tcp("10.1.2.3:1"), preread.None},
		{"public", "private_ranges", tcp("198.51.100.1:1"), preread.NotTLS},
		{"unix", "0.0.0.0/0", &net.UnixAddr{Name: "@", Net: "unix"}, preread.NotTLS},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r := read(trusting(t, tc.from), &script{data: data, remote: tc.peer}, nil)
			if r.verdict.Reason != tc.reason {
				t.Fatalf("got %v, want %v", r.verdict.Reason, tc.reason)
			}
			want := tc.peer.String()
			if tc.reason == preread.None {
				want = "198.51.100.7:1234"
			}
			if got := r.sess.Client.String(); got != want {
				t.Errorf("got client %v, want %v", got, want)
			}
		})
	}
}

// TestSeveralRanges checks that each range counts.
func TestSeveralRanges(t *testing.T) {
	p := trusting(t, "10.0.0.0/8", "192.0.2.0/24", "2001:db8::/32")
	for addr, want := range map[string]bool{"10.255.0.1:1": true, "192.0.2.9:1": true, "[2001:db8::9]:1": true, "11.0.0.1:1": false} {
		if got := contains(p.from, net.TCPAddrFromAddrPort(netip.MustParseAddrPort(addr))); got != want {
			t.Errorf("%s: got %v, want %v", addr, got, want)
		}
	}
}
