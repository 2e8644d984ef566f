package clienthello

import (
	"crypto/tls"
	"errors"
	"io"
	"net"
	"slices"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/caddy-sluice/sluice/internal/testkit/hellos"
)

// FuzzWindow checks the laws on any bytes, read in pieces of any sizes.
func FuzzWindow(f *testing.F) {
	for _, r := range hellos.Recorded() {
		f.Add(r.Bytes, []byte{1, 3, 1, 0, 200})
		f.Add(hellos.Wrap(slices.Concat(fragments(r.Bytes)...), 3, 0, 100), []byte{8, 1})
	}
	f.Add(interrupted(23), []byte{1})
	f.Fuzz(func(t *testing.T, window, cuts []byte) {
		checkLaws(t, window, cuts)
	})
}

// FuzzRecords checks that it makes no difference into which records a message is cut.
func FuzzRecords(f *testing.F) {
	for _, r := range hellos.Recorded() {
		f.Add(slices.Concat(fragments(r.Bytes)...)[handshakeHeader:], []byte{1, 0, 2, 90})
	}
	f.Fuzz(func(t *testing.T, body, cuts []byte) {
		message := hellos.Handshake(messageClientHello, body)
		sizes := make([]int, len(cuts), len(cuts)+1)
		for i, cut := range cuts {
			sizes[i] = int(cut)
		}
		checkRecords(t, message, append(sizes, hellos.MaxRecord))
	})
}

// FuzzCryptoTLS compares with the parser of Go's own server. That one is stricter, so that what it takes we must
// take too, and read the same from it.
func FuzzCryptoTLS(f *testing.F) {
	for _, r := range hellos.Recorded() {
		f.Add(slices.Concat(fragments(r.Bytes)...)[handshakeHeader:], uint16(0))
	}
	f.Fuzz(func(t *testing.T, body []byte, recordSize uint16) {
		checkAgainstServer(t, body, recordSize)
	})
}

func TestAgainstCryptoTLS(t *testing.T) {
	for _, r := range hellos.Recorded() {
		t.Run(r.Name, func(t *testing.T) {
			body := slices.Concat(fragments(r.Bytes)...)[handshakeHeader:]
			if !checkAgainstServer(t, body, 0) || !checkAgainstServer(t, body, 1) {
				t.Error("crypto/tls refuses the hello, so nothing was compared")
			}
		})
	}
}

// TestAgainstCryptoTLSBuilt does the same for what no recording has.
func TestAgainstCryptoTLSBuilt(t *testing.T) {
	tests := map[string]hellos.Options{
		"no_block":       {},
		"NUL_in_name":    exts(name("A\x00b")),
		"name_not_UTF-8": exts(name("\xff\xfe")),
		"other_name_type": exts(hellos.ServerName(
			hellos.Name{Type: 1, Name: "a"}, hellos.Name{Name: "b"})),
		"binary_protocol": exts(hellos.ALPN("\xff", "h2")),
		"long_session_id": {ServerName: "a.test", SessionID: make([]byte, 255)},
		"no_compression":  {ServerName: "a.test", Compression: []byte{}},
		"20000_bytes":     {ServerName: "a.test", Versions: []uint16{0x0304}, Pad: 20000},
	}
	for name, o := range tests {
		t.Run(name, func(t *testing.T) {
			if !checkAgainstServer(t, hellos.Message(o)[handshakeHeader:], 0) {
				t.Error("crypto/tls refuses the hello, so nothing was compared")
			}
		})
	}
}

// checkAgainstServer gives a hello to both parsers and says whether crypto/tls took it. recordSize 0 means full
// records.
func checkAgainstServer(t *testing.T, body []byte, recordSize uint16) bool {
	t.Helper()
	message := hellos.Handshake(messageClientHello, body)
	size := min(int(recordSize), recordMax)
	if size == 0 {
		size = recordMax
	}
	wire := hellos.Wrap(message, size)
	info := serverReads(wire)
	if info == nil {
		return false
	}
	var p Parser
	status := p.Parse(wire)
	if !utf8.ValidString(info.ServerName) {
		// The one hello that crypto/tls takes and we do not.
		if status != MalformedHandshake {
			t.Errorf("name %q: got %v, want %v", info.ServerName, status, MalformedHandshake)
		}
		return true
	}
	if status != Complete {
		t.Fatalf("got %v for a hello that crypto/tls takes", status)
	}
	compare(t, p.Hello(), info)
	return true
}

func compare(t *testing.T, h *Hello, info *tls.ClientHelloInfo) {
	t.Helper()
	if got := string(h.ServerName); got != info.ServerName {
		t.Errorf("got name %q, crypto/tls %q", got, info.ServerName)
	}
	if got := h.ALPN.Strings(); !slices.Equal(got, info.SupportedProtos) {
		t.Errorf("got ALPN %q, crypto/tls %q", got, info.SupportedProtos)
	}
	if got := slices.Contains(info.Extensions, extensionECH); got != h.ECH {
		t.Errorf("got ECH %v, crypto/tls %v", h.ECH, got)
	}
	if got := slices.Contains(info.Extensions, extensionSupportedVersions); got != (h.SupportedVersions != nil) {
		t.Errorf("got versions %x, extension present: crypto/tls %v", h.SupportedVersions, got)
	}
	// Without the extension, crypto/tls makes a list from the legacy version.
	var versions []byte
	for _, v := range info.SupportedVersions {
		versions = append(versions, byte(v>>8), byte(v))
	}
	if got := h.SupportedVersions; got != nil && !slices.Equal(got, versions) {
		t.Errorf("got versions %x, crypto/tls %x", got, versions)
	}
}

// serverReads returns what crypto/tls reads from a hello, nil when it refuses it.
func serverReads(wire []byte) *tls.ClientHelloInfo {
	var read *tls.ClientHelloInfo
	config := &tls.Config{GetConfigForClient: func(info *tls.ClientHelloInfo) (*tls.Config, error) {
		read = info
		return nil, errors.New("seen enough")
	}}
	// The error is the one above, or the refusal that a nil result stands for.
	_ = tls.Server(&script{rest: wire}, config).Handshake()
	return read
}

// script is a connection whose peer says its lines and hears nothing.
type script struct{ rest []byte }

func (s *script) Read(b []byte) (int, error) {
	if len(s.rest) == 0 {
		return 0, io.EOF
	}
	n := copy(b, s.rest)
	s.rest = s.rest[n:]
	return n, nil
}

func (*script) Write(b []byte) (int, error)      { return len(b), nil }
func (*script) Close() error                     { return nil }
func (*script) LocalAddr() net.Addr              { return &net.TCPAddr{} }
func (*script) RemoteAddr() net.Addr             { return &net.TCPAddr{} }
func (*script) SetDeadline(time.Time) error      { return nil }
func (*script) SetReadDeadline(time.Time) error  { return nil }
func (*script) SetWriteDeadline(time.Time) error { return nil }
