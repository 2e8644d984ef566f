// Package clienthello reads a TLS ClientHello from the first bytes of a connection, as they arrive.
//
// The caller keeps the bytes in one growing window and gives the whole window to Parse after each read. The
// parser remembers how far it has come: nothing is parsed twice, however the stream is cut into reads, TCP segments
// or TLS records, so the work is proportional to the bytes received. A hello in one record is parsed where it lies,
// without an allocation; one in several is put together in one allocation of its size, when all of it is there. The
// parser decrypts nothing and changes nothing.
//
// Its rules follow RFC 8446 §4.1.2 and §5.1, RFC 6066 §3 and RFC 7301 §3.1, and are lenient where the bytes decide
// no route: versions, cipher suites and unknown extensions are not judged.
package clienthello

import (
	"bytes"
	"iter"
)

// Status is the parser's answer about the bytes it has seen so far. Every answer but NeedMore is final.
type Status uint8

const (
	// NeedMore means that the bytes so far are the beginning of a hello.
	NeedMore Status = iota
	// Complete means that the whole hello is there; Parser.Hello has it.
	Complete
	// NotTLS means that the first byte is not that of a TLS handshake record.
	NotTLS
	// MalformedRecord means a record longer than RFC 8446 §5.1 allows, or one of another type before the hello ends.
	MalformedRecord
	// MalformedHandshake means another message than a ClientHello, or one whose fields contradict each other.
	MalformedHandshake
)

// String returns the name of the status.
func (s Status) String() string {
	switch s {
	case NeedMore:
		return "need more"
	case Complete:
		return "complete"
	case NotTLS:
		return "not TLS"
	case MalformedRecord:
		return "malformed record"
	case MalformedHandshake:
		return "malformed handshake"
	default:
		return "unknown"
	}
}

// Hello is what a ClientHello says. Its byte slices are views: into the window given to the call of Parse that
// completed it, or into the parser's own memory. Clone makes a copy that may be kept.
type Hello struct {
	// ServerName is the host_name of the server_name extension (RFC 6066 §3) as sent: any bytes of valid
	// UTF-8. It is nil when there is none, and empty when it was sent empty.
	ServerName []byte
	// ALPN is the client's protocol list (RFC 7301 §3.1) in the client's order.
	ALPN Protocols
	// SupportedVersions is the list of the supported_versions extension (RFC 8446 §4.2.1), two bytes each.
	// It is nil when the extension is absent or has no such shape. The list is for logs and metrics: a lie in it
	// makes no hello malformed.
	SupportedVersions []byte
	// LegacyVersion is the version field of the hello itself.
	LegacyVersion uint16
	// ECH says whether an encrypted_client_hello extension (0xfe0d) is present, GREASE included.
	ECH bool
	// Size is the length of the handshake message in bytes, its 4-byte header included.
	Size int
	// Records is the number of TLS records up to the one in which the hello ends, empty ones included.
	Records int
	// WireSize is the number of window bytes up to the end of that last record.
	WireSize int
}

// Clone returns a copy that shares no memory with the window or the parser.
func (h *Hello) Clone() *Hello {
	c := *h
	c.ServerName = bytes.Clone(h.ServerName)
	c.ALPN = bytes.Clone(h.ALPN)
	c.SupportedVersions = bytes.Clone(h.SupportedVersions)
	return &c
}

// Protocols is the body of an ALPN protocol_name_list: each name behind one byte with its length. A value made by
// the parser is well formed.
type Protocols []byte

// Next returns the first name and the list behind it. At the end, or where the list is not well formed, it returns
// nil, nil; no name in the list is nil.
func (p Protocols) Next() (name []byte, rest Protocols) {
	if len(p) == 0 || int(p[0]) >= len(p) {
		return nil, nil
	}
	n := 1 + int(p[0])
	return p[1:n:n], p[n:]
}

// All yields the names in order.
func (p Protocols) All() iter.Seq[[]byte] {
	return func(yield func([]byte) bool) {
		for name, rest := p.Next(); name != nil; name, rest = rest.Next() {
			if !yield(name) {
				return
			}
		}
	}
}

// Strings returns the names in order, nil when there are none.
func (p Protocols) Strings() []string {
	var names []string
	for name := range p.All() {
		names = append(names, string(name))
	}
	return names
}
