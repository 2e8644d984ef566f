package proxyheader

import (
	"net/netip"
	"strings"
	"unsafe"
)

const (
	signature1 = "PROXY"
	// maxLine is the length of the longest line, CRLF included (§2.1).
	maxLine = 107

	familyTCP4    = "TCP4"
	familyTCP6    = "TCP6"
	familyUnknown = "UNKNOWN"
	// familyDigit is the offset in the line of the digit in TCP4 and TCP6.
	familyDigit = len("PROXY TCP")
)

// lineField is a field of a version 1 line.
type lineField uint8

const (
	fieldSignature lineField = iota
	fieldFamily
	fieldSource
	fieldDestination
	fieldSourcePort
	fieldDestinationPort
	// fieldEnd is the LF behind the last field's CR.
	fieldEnd
	// fieldIgnored is everything behind UNKNOWN, CRLF included.
	fieldIgnored
)

// line reads on in a version 1 line.
func (p *Parser) line(window []byte) Status {
	for p.seen < min(len(window), maxLine) {
		p.seen++
		if status := p.lineByte(window[:p.seen]); status != NeedMore {
			return status
		}
	}
	if p.seen == maxLine {
		return Invalid
	}
	return NeedMore
}

// lineByte takes in the last byte of line.
func (p *Parser) lineByte(line []byte) Status {
	last := len(line) - 1
	b := line[last]
	switch {
	case p.field == fieldEnd, p.field == fieldIgnored && b == '\n':
		if b != '\n' || line[last-1] != '\r' {
			return Invalid
		}
		p.header.Len = len(line)
		return Complete
	case p.field == fieldIgnored:
		return NeedMore
	case b == ' ' || b == '\r':
		return p.endField(line, b)
	case !p.fits(line):
		return Invalid
	}
	return NeedMore
}

// fits reports whether the field that line ends in can still become a valid one. For addresses and ports it judges the
// last byte alone; endField judges the rest.
func (p *Parser) fits(line []byte) bool {
	b := line[len(line)-1]
	digit := b >= '0' && b <= '9'
	switch p.field {
	case fieldSignature:
		return strings.HasPrefix(signature1, string(line[p.start:]))
	case fieldFamily:
		text := string(line[p.start:])
		return strings.HasPrefix(familyTCP4, text) || strings.HasPrefix(familyTCP6, text) || strings.HasPrefix(familyUnknown, text)
	case fieldSource, fieldDestination:
		hex := b >= 'a' && b <= 'f' || b >= 'A' && b <= 'F'
		return digit || b == '.' || line[familyDigit] == '6' && (hex || b == ':')
	default:
		return digit
	}
}

// endField judges the field that the last byte of line, a space or the CR, ends, and goes on to the next one.
func (p *Parser) endField(line []byte, end byte) Status {
	text := line[p.start : len(line)-1]
	ok := end == ' '
	next := p.field + 1
	switch p.field {
	case fieldSignature:
		ok = ok && len(text) == len(signature1)
	case fieldFamily:
		if string(text) == familyUnknown {
			ok, next = true, fieldIgnored
			if end == '\r' {
				next = fieldEnd // the line ends here, or UNKNOWN was not the whole word
			}
			break
		}
		ok = ok && (string(text) == familyTCP4 || string(text) == familyTCP6)
	case fieldSource:
		ok = ok && setAddr(&p.header.Source, text, line[familyDigit])
	case fieldDestination:
		ok = ok && setAddr(&p.header.Destination, text, line[familyDigit])
	case fieldSourcePort:
		ok = ok && setPort(&p.header.Source, text)
	case fieldDestinationPort:
		ok = end == '\r' && setPort(&p.header.Destination, text)
	}
	if !ok {
		return Invalid
	}
	p.field, p.start = next, uint8(len(line))
	return NeedMore
}

// setAddr parses text as an address of the family that the digit names. The string is a view of text, because
// netip.ParseAddr would force a copy to the heap; it lives no longer than the call, since text holds no zone.
func setAddr(ap *netip.AddrPort, text []byte, family byte) bool {
	addr, err := netip.ParseAddr(unsafe.String(unsafe.SliceData(text), len(text)))
	*ap = netip.AddrPortFrom(addr, 0)
	return err == nil && addr.Is4() == (family == '4')
}

// setPort parses text, which has only digits, as a port: no leading zero (§2.1).
func setPort(ap *netip.AddrPort, text []byte) bool {
	if len(text) == 0 || len(text) > len("65535") || text[0] == '0' && len(text) > 1 {
		return false
	}
	port := 0
	for _, digit := range text {
		port = port*10 + int(digit-'0')
	}
	*ap = netip.AddrPortFrom(ap.Addr(), uint16(port))
	return port <= 0xffff
}
