package proxyheader

import (
	"bufio"
	"bytes"
	"net"
	"testing"

	"github.com/pires/go-proxyproto"
)

// FuzzParse states the laws of the parser. chunk is the size of the reads in which the bytes arrive.
func FuzzParse(f *testing.F) {
	for _, tc := range accepted {
		if len(tc.wire) < 1000 {
			f.Add([]byte(tc.wire), uint8(1))
			f.Add([]byte(tc.wire+"\x16\x03\x01"), uint8(7))
			f.Add([]byte(tc.wire[:len(tc.wire)-1]), uint8(3))
		}
	}
	f.Add([]byte(binaryHeader(0x21, 0x31, make([]byte, 216))), uint8(50))
	f.Fuzz(func(t *testing.T, data []byte, chunk uint8) {
		before := bytes.Clone(data)
		var whole Parser
		want := whole.Parse(data)
		if !bytes.Equal(data, before) {
			t.Fatal("the window was changed")
		}
		sameWhenSplit(t, data, int(chunk)+1, &whole)
		if want == Complete {
			nothingBehindTheHeaderMatters(t, data, whole.Header())
		}
		sameAsGoProxyproto(t, data, &whole)
	})
}

// sameWhenSplit: the answer doesn't depend on how the stream was cut, it is final when given, and it has been given
// before the byte behind the header came.
func sameWhenSplit(t *testing.T, data []byte, chunk int, whole *Parser) {
	t.Helper()
	var p Parser
	last := NeedMore
	for n := 0; ; n = min(n+chunk, len(data)) {
		got := p.Parse(bytes.Clone(data[:n]))
		if last != NeedMore && got != last {
			t.Fatalf("%d bytes: got %v after %v", n, got, last)
		}
		if h := whole.Header(); h != nil && (got == Complete) != (n >= h.Len) {
			t.Fatalf("%d bytes of a header of %d: got %v", n, h.Len, got)
		}
		last = got
		if n == len(data) {
			break
		}
	}
	if last != whole.status {
		t.Fatalf("split by %d: got %v, want %v", chunk, last, whole.status)
	}
	if last == Complete {
		sameHeader(t, p.Header(), whole.Header())
	}
}

func sameHeader(t *testing.T, got, want *Header) {
	t.Helper()
	if got.Version != want.Version || got.Len != want.Len || got.Source != want.Source ||
		got.Destination != want.Destination || !bytes.Equal(got.TLVs, want.TLVs) {
		t.Fatalf("got %+v, want %+v", got, want)
	}
}

// nothingBehindTheHeaderMatters: the header alone, and the header with other bytes behind it, are read the same.
func nothingBehindTheHeaderMatters(t *testing.T, data []byte, want *Header) {
	t.Helper()
	if want.Len > len(data) || want.Version == 1 && want.Len > maxLine {
		t.Fatalf("got length %d of %d bytes", want.Len, len(data))
	}
	if want.Source.IsValid() != want.Destination.IsValid() {
		t.Fatalf("got one address: %+v", want)
	}
	for _, rest := range []string{"", "\r\n\r\n"} {
		var p Parser
		if got := p.Parse(append(data[:want.Len:want.Len], rest...)); got != Complete {
			t.Fatalf("with %q behind it: got %v, want %v", rest, got, Complete)
		}
		sameHeader(t, p.Header(), want)
	}
}

// sameAsGoProxyproto compares accept set, length and source with go-proxyproto.
func sameAsGoProxyproto(t *testing.T, data []byte, whole *Parser) {
	t.Helper()
	if deliberatelyDifferent(data) {
		return
	}
	source := bytes.NewReader(data)
	reader := bufio.NewReaderSize(source, 1<<17)
	theirs, err := proxyproto.Read(reader)
	if (err == nil) != (whole.status == Complete) {
		t.Fatalf("%q: got %v, go-proxyproto says %v", data, whole.status, err)
	}
	if err != nil {
		return
	}
	h := whole.Header()
	if consumed := len(data) - source.Len() - reader.Buffered(); h.Len != consumed {
		t.Fatalf("%q: got length %d, go-proxyproto consumed %d", data, h.Len, consumed)
	}
	want := net.Addr(nil)
	if theirs.Command == proxyproto.PROXY {
		want = theirs.SourceAddr
	}
	if (want != nil) != h.Source.IsValid() {
		t.Fatalf("%q: got source %v, go-proxyproto has %v", data, h.Source, want)
	}
	if ip, port, ok := ipPort(want); ok {
		if got := h.Source.Addr().As16(); !ip.Equal(got[:]) || port != int(h.Source.Port()) {
			t.Fatalf("%q: got source %v, go-proxyproto has %v", data, h.Source, want)
		}
	}
}

func ipPort(addr net.Addr) (net.IP, int, bool) {
	switch a := addr.(type) {
	case *net.TCPAddr:
		return a.IP, a.Port, true
	case *net.UDPAddr:
		return a.IP, a.Port, true
	}
	return nil, 0, false
}

// deliberatelyDifferent reports whether data begins with a version 2 header that the two read differently on purpose:
//   - a transport other than unspecified, stream and datagram, or a mix of a family with unspecified: go-proxyproto
//     refuses the byte, we ignore the transport;
//   - PROXY with UNSPEC: go-proxyproto refuses it, we take it as a header without addresses;
//   - LOCAL with an undefined family: go-proxyproto refuses it, we skip the block;
//   - UNIX: go-proxyproto has socket paths for it, we have no use for them;
//   - a block over its MaxV2HeaderSize of 4 KiB: our limit is the window's.
func deliberatelyDifferent(data []byte) bool {
	if len(data) < fixedLen || string(data[:offsetCommand]) != signature2 {
		return false
	}
	switch data[offsetFamily] {
	case 0x11, 0x12, 0x21, 0x22:
		return int(data[offsetLength])<<8+int(data[offsetLength+1]) > int(proxyproto.MaxV2HeaderSize)
	case 0x00:
		return data[offsetCommand] == commandProxy || int(data[offsetLength])<<8 >= int(proxyproto.MaxV2HeaderSize)
	}
	return true
}

// TestDeliberateDifferences keeps the list above true.
func TestDeliberateDifferences(t *testing.T) {
	for _, tc := range []struct {
		name, wire   string
		ours, theirs bool
	}{
		{"undefined_transport", binaryHeader(0x21, 0x13, inetBlock), true, false},
		{"unspecified_transport", binaryHeader(0x21, 0x10, inetBlock), true, false},
		{"proxy_unspec", binaryHeader(0x21, 0x00), true, false},
		{"local_undefined_family", binaryHeader(0x20, 0x41), true, false},
		{"unix", binaryHeader(0x21, 0x31, make([]byte, 216)), false, true},
		{"long_block", binaryHeader(0x21, 0x11, inetBlock, make([]byte, 4096)), true, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if !deliberatelyDifferent([]byte(tc.wire)) {
				t.Error("not in the list")
			}
			var p Parser
			if got := p.Parse([]byte(tc.wire)) == Complete; got != tc.ours {
				t.Errorf("ours: got %v, want %v", got, tc.ours)
			}
			_, err := proxyproto.Read(bufio.NewReader(bytes.NewReader([]byte(tc.wire))))
			if got := err == nil; got != tc.theirs {
				t.Errorf("theirs: got %v (%v), want %v", got, err, tc.theirs)
			}
		})
	}
}
