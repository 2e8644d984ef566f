package forward

import (
	"bufio"
	"bytes"
	"io"
	"net"
	"testing"

	"github.com/mholt/caddy-l4/layer4"
	"github.com/pires/go-proxyproto"
	"go.uber.org/zap"

	"github.com/caddy-sluice/sluice/internal/proxyheader"
	"github.com/caddy-sluice/sluice/internal/replay"
	"github.com/caddy-sluice/sluice/modules/session"
)

func tcp(address string, port int) *net.TCPAddr {
	return &net.TCPAddr{IP: net.ParseIP(address), Port: port}
}

// mapped is an IPv4 address as a socket for both families gives it.
var mapped = &net.TCPAddr{IP: net.IPv4(192, 0, 2, 7).To16(), Port: 4321}

// TestMakeHeader checks each header byte for byte in version 1, and with our own parser in both.
func TestMakeHeader(t *testing.T) {
	socket := &net.UnixAddr{Net: "unix", Name: "/run/front.sock"}
	for _, tc := range []struct {
		name          string
		client, local net.Addr
		// line is version 1; source and destination are what both versions say.
		line, source, destination string
	}{
		{"ipv4", tcp("192.0.2.7", 4321), tcp("198.51.100.1", 443), "PROXY TCP4 192.0.2.7 198.51.100.1 4321 443\r\n", "192.0.2.7:4321", "198.51.100.1:443"},
		{"ipv4_by_dual_stack", mapped, tcp("::ffff:198.51.100.1", 443), "PROXY TCP4 192.0.2.7 198.51.100.1 4321 443\r\n", "192.0.2.7:4321", "198.51.100.1:443"},
		{"ipv6", tcp("2001:db8::7", 65535), tcp("2001:db8::1", 1), "PROXY TCP6 2001:db8::7 2001:db8::1 65535 1\r\n", "[2001:db8::7]:65535", "[2001:db8::1]:1"},
		{"zone", &net.TCPAddr{IP: net.ParseIP("fe80::7"), Port: 5, Zone: "eth0"}, tcp("fe80::1", 443), "PROXY TCP6 fe80::7 fe80::1 5 443\r\n", "[fe80::7]:5", "[fe80::1]:443"},
		{"two_families", mapped, tcp("2001:db8::1", 443), "PROXY TCP6 ::ffff:192.0.2.7 2001:db8::1 4321 443\r\n", "[::ffff:192.0.2.7]:4321", "[2001:db8::1]:443"},
		{"unix_client", socket, socket, "PROXY UNKNOWN\r\n", "invalid AddrPort", "invalid AddrPort"},
		{"unix_listener", mapped, socket, "PROXY UNKNOWN\r\n", "invalid AddrPort", "invalid AddrPort"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			for _, version := range []byte{1, 2} {
				header, err := makeHeader(version, tc.client, tc.local)
				if err != nil {
					t.Fatal(err)
				}
				if version == 1 && string(header) != tc.line {
					t.Errorf("got %q, want %q", header, tc.line)
				}
				var p proxyheader.Parser
				if status := p.Parse(header); status != proxyheader.Complete {
					t.Fatalf("version %d: got %x, which can't be read: %v", version, header, status)
				}
				got := p.Header()
				if got.Version != int(version) || got.Len != len(header) ||
					got.Source.String() != tc.source || got.Destination.String() != tc.destination {
					t.Errorf("version %d: got %+v, want %s to %s", version, got, tc.source, tc.destination)
				}
			}
		})
	}
}

// TestLocalCommand checks that version 2 doesn't call a connection proxied of which it names no client.
func TestLocalCommand(t *testing.T) {
	header, err := makeHeader(2, &net.UnixAddr{Net: "unix"}, &net.UnixAddr{Net: "unix"})
	if want := append(bytes.Clone(proxyproto.SIGV2), 0x20, 0, 0, 0); err != nil || !bytes.Equal(header, want) {
		t.Errorf("got %x, %v, want %x", header, err, want)
	}
}

// inbound returns a header of version 2 with a TLV, as a load balancer sends it.
func inbound(t *testing.T, command proxyproto.ProtocolVersionAndCommand) []byte {
	t.Helper()
	h := proxyproto.HeaderProxyFromAddrs(2, tcp("203.0.113.9", 999), tcp("198.51.100.2", 8443))
	h.Command = command
	if err := h.SetTLVs([]proxyproto.TLV{{Type: proxyproto.PP2_TYPE_AUTHORITY, Value: []byte("name.example.com")}}); err != nil {
		t.Fatal(err)
	}
	b, err := h.Format()
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// TestHeaderOnTheWire checks what an upstream gets before the client's bytes, in each mode, with and without a header
// from the client: always one header and never two.
func TestHeaderOnTheWire(t *testing.T) {
	client, front := tcp("203.0.113.9", 999), tcp("198.51.100.2", 8443)
	v1, err := makeHeader(1, client, front)
	if err != nil {
		t.Fatal(err)
	}
	v2, err := makeHeader(2, client, front)
	if err != nil {
		t.Fatal(err)
	}
	proxied, local := inbound(t, proxyproto.PROXY), inbound(t, proxyproto.LOCAL)
	for _, tc := range []struct {
		name, mode    string
		inbound, want []byte
	}{
		{"E12_none", "", proxied, nil},
		{"E10_v1", "v1", nil, v1},
		{"E10_v2", "v2", nil, v2},
		{"E13_v1_behind_a_header", "v1", proxied, v1},
		{"E13_v2_behind_a_header", "v2", proxied, v2},
		{"E11_relay", "relay", proxied, proxied},
		{"E11_relay_local", "relay", local, local},
		{"E11_relay_v1", "relay", v1, v1},
		{"relay_without_a_header", "relay", nil, v2},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got := wire(t, tc.mode, func(cx *layer4.Connection, sess *session.Session) {
				cx.Conn.(*replay.Conn).SetAddrs(client, front)
				sess.Client, sess.ProxyHeader = client, tc.inbound
			})
			if want := append(bytes.Clone(tc.want), "hello and more"...); !bytes.Equal(got, want) {
				t.Errorf("got %q, want %q", got, want)
			}
		})
	}
}

// wire returns all that an upstream gets from a client whose hello was preread.
func wire(t *testing.T, mode string, prepare func(*layer4.Connection, *session.Session)) []byte {
	t.Helper()
	var got []byte
	address, done := backend(t, func(conn *net.TCPConn) { got, _ = io.ReadAll(conn) })
	h, _ := newHandler(t, address)
	h.ProxyProtocol = mode
	client, server := newPair(t)
	_, _ = client.Write([]byte(" and more"))
	_ = client.CloseWrite()
	cx := layer4.WrapConnection(replay.New(server, []byte("hello")), nil, zap.NewNop())
	sess := session.Of(cx)
	prepare(cx, sess)
	if err := h.Handle(cx, behind(t)); err != nil {
		t.Fatal(err)
	}
	<-done
	if sess.BytesIn != int64(len("hello and more")) {
		t.Errorf("got %d bytes in, want those of the client", sess.BytesIn)
	}
	return got
}

// TestHeaderWaitsForNothing has a client that is silent, and an upstream that speaks once it has the header.
func TestHeaderWaitsForNothing(t *testing.T) {
	var source string
	address, done := backend(t, func(conn *net.TCPConn) {
		header, err := proxyproto.Read(bufio.NewReader(conn))
		if err != nil {
			t.Error(err)
			return
		}
		source = header.SourceAddr.String()
		_, _ = conn.Write([]byte("banner"))
	})
	h, _ := newHandler(t, address)
	h.ProxyProtocol = "v2"
	client, server := newPair(t)
	answer := make(chan string)
	go func() {
		b, _ := io.ReadAll(client)
		_ = client.Close()
		answer <- string(b)
	}()
	cx := layer4.WrapConnection(server, nil, zap.NewNop())
	go func() { _ = h.Handle(cx, behind(t)); _ = server.Close() }()
	if got := <-answer; got != "banner" {
		t.Errorf("got %q, want the banner", got)
	}
	<-done
	if want := client.LocalAddr().String(); source != want {
		t.Errorf("got %s in the header, want %s", source, want)
	}
}
