package l4sni

import (
	"bytes"
	"io"
	"slices"
	"testing"

	"github.com/mholt/caddy-l4/layer4"
	"go.uber.org/zap"

	"github.com/caddy-sluice/sluice/internal/preread"
	"github.com/caddy-sluice/sluice/internal/proxyheader"
	"github.com/caddy-sluice/sluice/modules/session"
)

// FuzzHeaderReader checks that a connection comes to the same end however its bytes are cut: that of the parser given all
// bytes at once. Not a byte is read past the limit, none but the header is missing behind it, and no memory stays taken.
func FuzzHeaderReader(f *testing.F) {
	v1 := []byte("PROXY TCP4 198.51.100.7 203.0.113.9 1234 8443\r\n")
	v2 := proxyV2(1, "198.51.100.7:1234", "203.0.113.9:8443", 4, 0, 1, 'x')
	for _, header := range [][]byte{v1, v2, v1[:20], v2[:20], longHeader(5000), longHeader(40_000)} {
		for _, chunk := range []byte{0, 1, 17} {
			f.Add(append(slices.Clone(header), "GET / HTTP/1.1\r\n"...), chunk)
		}
	}
	r, _ := newHeaderReader(f, "192.0.2.0/24")
	before := free(r.app)
	f.Fuzz(func(t *testing.T, data []byte, chunk byte) {
		conn := &script{data: bytes.Clone(data), chunk: int(chunk)}
		cx := layer4.WrapConnection(conn, nil, zap.NewNop())
		sess := session.Of(cx)
		got := r.Read(cx, sess)
		if read := len(data) - len(conn.data); read > preread.DefaultMaxBytes {
			t.Errorf("got %d bytes read, past the limit", read)
		}
		if held := before - free(r.app); held != 0 {
			t.Errorf("got %d bytes still held", held)
		}
		var parser proxyheader.Parser
		window := data[:min(len(data), preread.DefaultMaxBytes)]
		status := parser.Parse(window)
		if status != proxyheader.Complete {
			if want := refusalOf(status, window); got != nil || sess.CloseReason() != session.ForPreread(want) {
				t.Errorf("got %v, want %v", sess.CloseReason(), want)
			}
			return
		}
		if got == nil {
			t.Fatalf("got %v, want a connection", sess.CloseReason())
		}
		length := parser.Header().Len
		if stream, err := io.ReadAll(got); err != nil || !bytes.Equal(stream, data[length:]) {
			t.Errorf("got a stream of %d bytes, %v, want %d", len(stream), err, len(data)-length)
		}
		if !bytes.Equal(sess.ProxyHeader, data[:length]) {
			t.Errorf("got a header of %d bytes in the session, want %d", len(sess.ProxyHeader), length)
		}
	})
}

// refusalOf is the reason for bytes that are no header, behind which the stream ends.
func refusalOf(status proxyheader.Status, window []byte) preread.Reason {
	switch {
	case status == proxyheader.Invalid:
		return preread.ProxyHeaderInvalid
	case len(window) == preread.DefaultMaxBytes:
		return preread.TooLarge
	}
	return preread.FrontClosed
}
