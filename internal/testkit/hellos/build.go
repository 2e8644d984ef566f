// Package hellos makes TLS ClientHellos for tests: built from options, down to single wrong bytes, or recorded from
// real clients. It is imported by test files only, and panics on options that no hello can have.
package hellos

import (
	"encoding/binary"
	"fmt"
)

// MaxRecord is the longest content of a TLS plaintext record (RFC 8446 §5.1).
const MaxRecord = 16384

// Extension types that the options use.
const (
	TypeServerName        = 0x0000
	TypeALPN              = 0x0010
	TypePadding           = 0x0015
	TypeSupportedVersions = 0x002b
	TypeECH               = 0xfe0d
)

// Record content types.
const (
	TypeAlert           = 21
	TypeHandshake       = 22
	TypeApplicationData = 23
)

// Options say what a hello contains. The zero value is the smallest hello: TLS 1.2 as legacy version, a random of
// zeros, no session id, one cipher suite, no extension block; 45 bytes as a message, 50 as a record.
type Options struct {
	// ServerName is the host_name of a server_name extension. Empty: no such extension.
	ServerName string
	// ALPN is the protocol list, in order. Empty: no such extension.
	ALPN []string
	// ECH adds an encrypted_client_hello extension with a body of 3 bytes.
	ECH bool
	// Versions is the list of a supported_versions extension. Empty: no such extension.
	Versions []uint16
	// Extensions follow the ones above, as they stand. An empty list that is not nil makes an empty block of a
	// hello that has no other extension.
	Extensions []Extension
	// Pad is the length to which a padding extension brings the message, its header included. 0: no padding.
	// It must leave 4 bytes for the header of the extension (6 when it is the only one).
	Pad int
	// Tail is put behind everything else: rubbish behind the extension block, or, when there is none, a block of
	// one's own with its length.
	Tail []byte

	// LegacyVersion defaults to 0x0303.
	LegacyVersion uint16
	// SessionID is at most 255 bytes long.
	SessionID []byte
	// CipherSuites are the bytes of the list. Default when nil: 13 01.
	CipherSuites []byte
	// Compression are the bytes of the list. Default when nil: 00.
	Compression []byte
}

// Extension is one extension of a hello.
type Extension struct {
	Type uint16
	Data []byte
}

// Name is one entry of a server_name list.
type Name struct {
	Type byte
	Name string
}

// New returns a hello as it goes over the wire: in one record, or in full ones when it is too long for that.
func New(o Options) []byte {
	return Wrap(Message(o), MaxRecord)
}

// Message returns a hello as a handshake message, header included, without records.
func Message(o Options) []byte {
	body := binary.BigEndian.AppendUint16(nil, orDefault(o.LegacyVersion, 0x0303))
	body = append(body, make([]byte, 32)...)
	body = append8(body, o.SessionID)
	body = append16(body, orBytes(o.CipherSuites, 0x13, 0x01))
	body = append8(body, orBytes(o.Compression, 0))
	if block, ok := o.block(4 + len(body) + len(o.Tail)); ok {
		body = append16(body, block)
	}
	return Handshake(1, append(body, o.Tail...))
}

// block returns the extensions, and whether there is a block of them at all. used is the length of the message
// without the block.
func (o Options) block(used int) ([]byte, bool) {
	var list []Extension
	if o.ServerName != "" {
		list = append(list, ServerName(Name{0, o.ServerName}))
	}
	if len(o.ALPN) > 0 {
		list = append(list, ALPN(o.ALPN...))
	}
	if o.ECH {
		list = append(list, Extension{TypeECH, []byte{1, 2, 3}})
	}
	if len(o.Versions) > 0 {
		list = append(list, Versions(o.Versions...))
	}
	list = append(list, o.Extensions...)
	block := Block(list...)
	if o.Pad > 0 {
		block = append(block, padding(o.Pad-used-2-len(block))...)
	}
	return block, len(block) > 0 || o.Extensions != nil
}

// padding returns a padding extension (RFC 7685) that is n bytes long with its header.
func padding(n int) []byte {
	if n < 4 {
		panic(fmt.Sprintf("hellos: no padding extension is %d bytes long", n))
	}
	return Block(Extension{TypePadding, make([]byte, n-4)})
}

// Block returns the bytes of extensions, without the length in front of them.
func Block(list ...Extension) []byte {
	var block []byte
	for _, e := range list {
		block = binary.BigEndian.AppendUint16(block, e.Type)
		block = append16(block, e.Data)
	}
	return block
}

// ServerName returns a server_name extension with these entries (RFC 6066 §3).
func ServerName(entries ...Name) Extension {
	var list []byte
	for _, e := range entries {
		list = append(list, e.Type)
		list = append16(list, []byte(e.Name))
	}
	return Extension{TypeServerName, append16(nil, list)}
}

// ALPN returns an application_layer_protocol_negotiation extension (RFC 7301 §3.1); empty names are written too.
func ALPN(names ...string) Extension {
	var list []byte
	for _, name := range names {
		list = append8(list, []byte(name))
	}
	return Extension{TypeALPN, append16(nil, list)}
}

// Versions returns a supported_versions extension (RFC 8446 §4.2.1).
func Versions(versions ...uint16) Extension {
	var list []byte
	for _, v := range versions {
		list = binary.BigEndian.AppendUint16(list, v)
	}
	return Extension{TypeSupportedVersions, append8(nil, list)}
}

// Handshake returns a handshake message of any type.
func Handshake(messageType byte, body []byte) []byte {
	n := len(body)
	return append([]byte{messageType, byte(n >> 16), byte(n >> 8), byte(n)}, body...)
}

// Record returns one TLS record. Its content may be longer than the RFC allows.
func Record(contentType byte, version uint16, content []byte) []byte {
	header := binary.BigEndian.AppendUint16([]byte{contentType}, version)
	return append16(header, content)
}

// Wrap cuts a message into handshake records whose contents have these sizes; the last size is used again for the
// rest. No size means full records.
func Wrap(message []byte, sizes ...int) []byte {
	if len(sizes) == 0 {
		sizes = []int{MaxRecord}
	}
	var wire []byte
	for len(message) > 0 {
		n := min(sizes[0], len(message))
		wire = append(wire, Record(TypeHandshake, 0x0303, message[:n])...)
		message = message[n:]
		switch {
		case len(sizes) > 1:
			sizes = sizes[1:]
		case n == 0:
			panic("hellos: the last record size is 0")
		}
	}
	return wire
}

// append8 appends data behind one byte with its length.
func append8(b, data []byte) []byte {
	if len(data) > 0xff {
		panic(fmt.Sprintf("hellos: %d bytes in a field for 255", len(data)))
	}
	return append(append(b, byte(len(data))), data...)
}

// append16 appends data behind two bytes with its length.
func append16(b, data []byte) []byte {
	if len(data) > 0xffff {
		panic(fmt.Sprintf("hellos: %d bytes in a field for 65535", len(data)))
	}
	return append(binary.BigEndian.AppendUint16(b, uint16(len(data))), data...)
}

func orDefault(v, otherwise uint16) uint16 {
	if v == 0 {
		return otherwise
	}
	return v
}

func orBytes(b []byte, otherwise ...byte) []byte {
	if b == nil {
		return otherwise
	}
	return b
}
