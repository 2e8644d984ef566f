// Package proxyheader reads a PROXY protocol header, version 1 or 2, from the first bytes of a connection.
//
// The caller keeps the bytes in one growing window and gives the whole window to Parse after each read. The parser
// remembers how far it has come, so a header that arrives byte by byte costs no more than one that arrives at once. It
// allocates nothing for a header that it accepts.
//
// The format is that of HAProxy's proxy-protocol.txt; the sections named in comments are its sections. Where the text
// leaves a choice:
//   - The line of version 1 is taken literally: one space between fields, CRLF at the end, no leading zero in a port
//     or in an octet, no zone, addresses of the family that the line names.
//   - Version 2 with LOCAL skips the block whatever its family and length (§2.2).
//   - A block too short for its family, and a family without an IP address (UNIX), are Invalid. The transport
//     (stream or datagram) is ignored.
//   - An IPv4-mapped IPv6 address stays as the sender wrote it; the caller unmaps it where that matters.
package proxyheader

import "net/netip"

// Status is the parser's answer about the bytes it has seen so far. Every answer but NeedMore is final.
type Status uint8

const (
	// NeedMore means that the bytes so far are the beginning of a header.
	NeedMore Status = iota
	// Complete means that the whole header is there; Parser.Header has it.
	Complete
	// Invalid means that the bytes can't become a header.
	Invalid
)

// Header is what a PROXY protocol header says.
type Header struct {
	// Version is 1 or 2.
	Version int
	// Source and Destination are the addresses of the connection that the sender proxies. Both are the zero value
	// when the header carries none (LOCAL, UNSPEC, UNKNOWN): then the peer itself is the client.
	Source, Destination netip.AddrPort
	// Len is the length of the header in bytes, everything included.
	Len int
	// TLVs is the part of a version 2 header behind the addresses: a view into the window given to the call of
	// Parse that completed the header. It is not checked. LOCAL has none.
	TLVs []byte
}

// Parser reads one header. The zero value is ready. It is not safe for concurrent use.
type Parser struct {
	status Status
	// field and start are the field of a version 1 line that is being read, and the offset at which it begins.
	field lineField
	start uint8
	// seen is the number of bytes looked at; the block of version 2 is not looked at before it is complete.
	seen   int
	header Header
}

// Parse looks at the bytes of window that earlier calls have not seen and returns the verdict. window is the whole
// stream from offset 0: it only ever grows, but may lie elsewhere in memory each time.
func (p *Parser) Parse(window []byte) Status {
	if p.status == NeedMore && len(window) > p.seen {
		p.status = p.advance(window)
	}
	return p.status
}

// Header returns the header once Parse has answered Complete, else nil.
func (p *Parser) Header() *Header {
	if p.status != Complete {
		return nil
	}
	return &p.header
}

// advance chooses the version by the first byte, in which the two signatures differ.
func (p *Parser) advance(window []byte) Status {
	if window[0] == signature1[0] {
		p.header.Version = 1
		return p.line(window)
	}
	p.header.Version = 2
	return p.binary(window)
}
