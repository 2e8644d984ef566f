package integration

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"

	"github.com/pires/go-proxyproto"
)

// startChain runs two servers in a row, both of which forward everything: front with these handlers before its forward
// and this kind of header, then middle, which expects a header and relays it. It returns the address of front.
func (l *lab) startChain(listen, before, kind, upstream string) (p *proxy, front string) {
	l.Helper()
	front, middle := l.freeAddrOf(listen), l.freeAddrOf(listen)
	app := fmt.Sprintf(`layer4 {
	%s {
		route {
			%s
			forward %s {
				proxy_protocol %s
			}
		}
	}
	%s {
		route {
			preread {
				proxy_protocol from 127.0.0.1 ::1
			}
			sight
			forward %s {
				proxy_protocol relay
			}
		}
	}
}`, front, before, middle, kind, middle, upstream)
	return l.run(app, ""), front
}

// dialTo connects to an address.
func (l *lab) dialTo(addr string) *peer {
	l.Helper()
	c, err := net.Dial("tcp", addr)
	if err != nil {
		l.Fatal(err)
	}
	return l.peer(c)
}

// expectHeader reads one PROXY header, with another parser than ours, and then all of the stream.
func (c *peer) expectHeader(version byte, client, front net.Addr, stream []byte) {
	c.Helper()
	r := bufio.NewReader(c.stream)
	got, err := proxyproto.Read(r)
	if err != nil {
		c.Fatalf("header: got %v", err)
	}
	if got.Version != version || got.SourceAddr.String() != client.String() || got.DestinationAddr.String() != front.String() {
		c.Errorf("header: got version %d from %v to %v, want version %d from %v to %v",
			got.Version, got.SourceAddr, got.DestinationAddr, version, client, front)
	}
	rest := make([]byte, len(stream))
	if _, err := io.ReadFull(r, rest); err != nil || !bytes.Equal(rest, stream) {
		c.Errorf("stream: got %q, %v, want %q", rest, err, stream)
	}
}

// TestProxyHeaderChain sends connections through two of us: the second reads the header of the first, and hands it on as
// it came.
func TestProxyHeaderChain(t *testing.T) {
	for _, family := range []struct{ name, listen string }{{"ipv4", "127.0.0.1"}, {"ipv6", "::1"}} {
		for version := byte(1); version <= 2; version++ {
			t.Run(fmt.Sprintf("D37_v%d_%s", version, family.name), func(t *testing.T) {
				l := newLab(t)
				b := l.backend()
				p, front := l.startChain(family.listen, "", fmt.Sprintf("v%d", version), b.addr)
				c := l.dialTo(front)
				client := c.LocalAddr().String()
				hello := named("chain.test")
				c.send(hello)
				up := b.accept()
				up.expectHeader(version, c.LocalAddr(), c.RemoteAddr(), hello)
				echoes(c, up)
				up.Close()
				c.expectEnd(nil)
				c.Close()
				p.expectClient(p.sighting(), client)
				p.quiet()
			})
		}
	}
}

// TestProxyHeaderRelayedTwice has both of us relay a header with TLVs, which comes out byte by byte as it came in.
func TestProxyHeaderRelayedTwice(t *testing.T) {
	tlv := proxyproto.TLV{Type: proxyproto.PP2_TYPE_AUTHORITY, Value: pattern(300)}
	for name, head := range map[string][]byte{
		"D36_tlvs":   header(t, 2, client6, front6, tlv),
		"v1":         header(t, 1, client4, front4),
		"v1_unknown": []byte("PROXY UNKNOWN 192.0.2.7 198.51.100.1 4321 443\r\n"),
		"local":      format(t, &proxyproto.Header{Version: 2, Command: proxyproto.LOCAL}),
		"unspec":     format(t, &proxyproto.Header{Version: 2, Command: proxyproto.PROXY}),
	} {
		t.Run(name, func(t *testing.T) {
			l := newLab(t)
			b := l.backend()
			_, front := l.startChain("127.0.0.1", "preread {\nproxy_protocol from 127.0.0.1\n}", "relay", b.addr)
			c := l.dialTo(front)
			sent := append(bytes.Clone(head), named("chain.test")...)
			c.send(sent)
			up := b.accept()
			up.expect(sent)
			echoes(c, up)
			up.Close()
			c.expectEnd(nil)
		})
	}
}

// TestWrapperRelays hands a header that the wrapper has read on to the upstream, for passed-through names.
func TestWrapperRelays(t *testing.T) {
	l := newLab(t)
	b := l.backend()
	route := strings.Replace(passthrough(b.addr), b.addr, b.addr+" {\nproxy_protocol relay\n}", 1)
	addr := l.freeAddr()
	p := l.run(fmt.Sprintf("auto_https off\nservers %s {\nlistener_wrappers {\nsluice {\nproxy_protocol from 127.0.0.1\n"+
		"route {\n%s\n}\n}\n}\n}\n", addr, route),
		"http://"+addr+" {\nbind 127.0.0.1\nrespond \"{remote_host}\"\n}\n")
	p.addr = addr
	sent := append(header(t, 2, client4, front4), named("pass.test")...)
	c := p.dial()
	c.send(sent)
	up := b.accept()
	up.expect(sent)
	up.Close()
	c.expectEnd(nil)
}
