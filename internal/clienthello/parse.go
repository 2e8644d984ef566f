package clienthello

import "encoding/binary"

const (
	recordHeader    = 5     // bytes before the content of a record, RFC 8446 §5.1
	recordMax       = 16384 // longest content of a plaintext record, same section
	handshakeHeader = 4     // bytes before the body of a handshake message, RFC 8446 §4

	contentHandshake   = 22
	messageClientHello = 1
)

// Parser reads one hello. The zero value is ready. It is not safe for concurrent use.
//
// It works record by record: the content of a record is used once all of it is there. Until the last record of
// the hello has come it remembers a few numbers and no bytes.
type Parser struct {
	status Status
	// next is the window offset of the first record not yet used.
	next int
	// end is the window offset at which that record ends; 0 until its header has been read.
	end int
	// have is the number of bytes of the message and what follows it in the records used so far.
	have int
	// header is the first min(have, 4) bytes of the message, which any number of records may hold.
	header [handshakeHeader]byte
	hello  Hello
}

// Parse looks at the bytes of window that earlier calls have not seen and returns the verdict. window is the whole
// stream from its first TLS byte on: it only ever grows and never changes, but may lie elsewhere in memory each time.
func (p *Parser) Parse(window []byte) Status {
	for p.status == NeedMore && p.haveRecord(window) {
		p.status = p.takeRecord(window)
	}
	return p.status
}

// Hello returns the hello once Parse has answered Complete, else nil.
func (p *Parser) Hello() *Hello {
	if p.status != Complete {
		return nil
	}
	return &p.hello
}

// haveRecord says whether all of the record at p.next is in the window. It judges the record's header as soon as
// that is complete, and the first byte of the stream at once: a client that speaks no TLS may send no more.
func (p *Parser) haveRecord(window []byte) bool {
	if p.end == 0 {
		if p.next == 0 && len(window) > 0 && window[0] != contentHandshake {
			p.status = NotTLS
			return false
		}
		if len(window)-p.next < recordHeader {
			return false
		}
		length := contentLength(window[p.next:])
		if window[p.next] != contentHandshake || length > recordMax {
			p.status = MalformedRecord
			return false
		}
		p.end = p.next + recordHeader + length
	}
	return len(window) >= p.end
}

// takeRecord uses the content of the record at p.next, and parses the message when it ends in there.
func (p *Parser) takeRecord(window []byte) Status {
	content := window[p.next+recordHeader : p.end]
	p.next, p.end = p.end, 0
	p.hello.Records++
	if len(content) == 0 {
		return NeedMore
	}
	if p.have == 0 && content[0] != messageClientHello {
		return MalformedHandshake
	}
	if p.have < handshakeHeader {
		copy(p.header[p.have:], content)
	}
	p.have += len(content)
	// While the header is incomplete, size is more than have all the same: it is at least 4.
	size := handshakeHeader + int(binary.BigEndian.Uint32(p.header[:])&0xffffff)
	if p.have < size {
		return NeedMore
	}
	p.hello.Size, p.hello.WireSize = size, p.next
	if len(content) < p.have { // there are records before this one
		content = reassemble(window, size)
	}
	if !p.hello.parse(content[handshakeHeader:size]) {
		return MalformedHandshake
	}
	return Complete
}

// reassemble returns a copy of the message, size bytes long, which the records at the beginning of stream hold. It
// is called once and with all of them there, so that it never allocates more than was received.
func reassemble(stream []byte, size int) []byte {
	message := make([]byte, 0, size)
	for len(message) < size {
		end := recordHeader + contentLength(stream)
		content := stream[recordHeader:end]
		message = append(message, content[:min(len(content), size-len(message))]...)
		stream = stream[end:]
	}
	return message
}

// contentLength returns the length field of the record header at the beginning of b.
func contentLength(b []byte) int {
	return int(binary.BigEndian.Uint16(b[3:recordHeader]))
}
