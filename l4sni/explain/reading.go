package explain

import (
	"encoding/binary"
	"net/netip"
	"slices"
	"time"

	"github.com/caddy-sluice/sluice/internal/clienthello"
	"github.com/caddy-sluice/sluice/internal/preread"
	"github.com/caddy-sluice/sluice/internal/proxyheader"
)

// reading is what the preread has learned from a flight.
type reading struct {
	// cfg is what it read with.
	cfg preread.Config
	// hello is nil when reason says why there is none.
	hello  *clienthello.Hello
	reason preread.Reason
	// offset is the length of the PROXY header, and client the address in it.
	offset int
	client netip.Addr
	// read is how many bytes there were for the hello, and first the first of them.
	read  int
	first byte
	// incomplete is set when the flight ended before the verdict. missing is the least number of bytes that it
	// lacks; 0 when what is incomplete is a PROXY header, which may be of any length.
	incomplete bool
	missing    int
}

// readWith reads a flight as the server does: up to the limit, and until the deadline if it is incomplete.
func readWith(cfg preread.Config, flight []byte) *reading {
	var core preread.Core
	window := flight[:min(len(flight), cfg.MaxBytes)]
	v := core.Bytes(&cfg, window, time.Now())
	r := &reading{cfg: cfg}
	if v.Kind == preread.NeedMore {
		v = core.Timeout()
		r.incomplete = true
	}
	r.reason, r.hello, r.offset = v.Reason, core.Hello(), v.Offset
	if header := core.ProxyHeader(); header != nil {
		r.client = header.Source.Addr().Unmap()
	}
	if rest := window[v.Offset:]; len(rest) > 0 {
		r.read, r.first = len(rest), rest[0]
	}
	if r.incomplete && (!cfg.Proxy || core.ProxyHeader() != nil) {
		r.missing = missing(window[v.Offset:])
	}
	return r
}

// sendsHeader says whether the client sends a PROXY header where the peers in from must. Of a peer that is not known
// it is believed if it does.
func (f *flight) sendsHeader(from []netip.Prefix) bool {
	switch {
	case f.made:
		return false
	case !f.peer.IsValid():
		return len(f.bytes) > 0 && new(proxyheader.Parser).Parse(f.bytes) != proxyheader.Invalid
	}
	return slices.ContainsFunc(from, func(prefix netip.Prefix) bool { return prefix.Contains(f.peer) })
}

const (
	recordHeader    = 5     // RFC 8446 §5.1
	recordMax       = 16384 // same section
	handshakeHeader = 4     // RFC 8446 §4
	clientHello     = 1     // same section
)

// missing returns how many bytes the beginning of a hello lacks at least: to the end of the record that has begun,
// and, when there is more of the message, as few records behind it as can hold the rest.
func missing(window []byte) int {
	var message []byte
	lack := 0
	for len(window) >= recordHeader {
		length := int(binary.BigEndian.Uint16(window[3:]))
		content := window[recordHeader:min(len(window), recordHeader+length)]
		lack = length - len(content)
		message = append(message, content...)
		window = window[recordHeader+len(content):]
	}
	if len(message) > 0 && message[0] != clientHello {
		return lack // at the end of the record it will be refused
	}
	size := handshakeHeader
	if len(message) >= handshakeHeader {
		size += int(binary.BigEndian.Uint32(message) & 0xffffff)
	}
	rest := max(0, size-len(message)-lack)
	records := (rest + recordMax - 1) / recordMax
	return lack + records*recordHeader + rest - len(window)
}
