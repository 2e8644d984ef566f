package proxyheader

import (
	"encoding/binary"
	"net/netip"
)

const (
	signature2 = "\r\n\r\n\x00\r\nQUIT\n"
	// fixedLen is the length of the part of a version 2 header that every header has: signature, version and
	// command, family and transport, length of the rest.
	fixedLen = 16

	offsetCommand = 12
	offsetFamily  = 13
	offsetLength  = 14

	commandLocal = 0x20
	commandProxy = 0x21

	familyUnspec = 0
	familyInet   = 1
	familyInet6  = 2

	blockInet  = 4 + 4 + 2 + 2
	blockInet6 = 16 + 16 + 2 + 2
)

// binary reads on in a version 2 header.
func (p *Parser) binary(window []byte) Status {
	for p.seen < min(len(window), offsetFamily) {
		if !fixedByteFits(p.seen, window[p.seen]) {
			return Invalid
		}
		p.seen++
	}
	if len(window) < fixedLen {
		return NeedMore
	}
	if p.header.Len == 0 {
		p.seen = fixedLen
		p.header.Len = fixedLen + int(binary.BigEndian.Uint16(window[offsetLength:]))
		if window[offsetCommand] == commandProxy && p.header.Len-fixedLen < blockLen(window[offsetFamily]>>4) {
			return Invalid
		}
	}
	if len(window) < p.header.Len {
		return NeedMore
	}
	return p.block(window)
}

// fixedByteFits reports whether b can stand at offset, which is that of the signature or of the command.
func fixedByteFits(offset int, b byte) bool {
	if offset < len(signature2) {
		return b == signature2[offset]
	}
	return b == commandLocal || b == commandProxy
}

// blockLen is the length of the addresses of a family.
func blockLen(family byte) int {
	switch family {
	case familyInet:
		return blockInet
	case familyInet6:
		return blockInet6
	}
	return 0
}

// block reads what is behind the fixed part, all of which is there. A family that has no IP address is refused only
// here, so that the answer comes when the header's end is known, as from other readers of the format.
func (p *Parser) block(window []byte) Status {
	if window[offsetCommand] == commandLocal {
		return Complete
	}
	family := window[offsetFamily] >> 4
	if family > familyInet6 {
		return Invalid
	}
	tlvs := fixedLen + blockLen(family)
	p.header.TLVs = window[tlvs:p.header.Len:p.header.Len]
	if family != familyUnspec {
		p.header.Source, p.header.Destination = addresses(window[fixedLen:tlvs])
	}
	return Complete
}

// addresses reads a block of two addresses and two ports; its length says of which family.
func addresses(block []byte) (source, destination netip.AddrPort) {
	size := (len(block) - 4) / 2
	ports := block[2*size:]
	from, _ := netip.AddrFromSlice(block[:size])
	to, _ := netip.AddrFromSlice(block[size : 2*size])
	return netip.AddrPortFrom(from, binary.BigEndian.Uint16(ports)), netip.AddrPortFrom(to, binary.BigEndian.Uint16(ports[2:]))
}
