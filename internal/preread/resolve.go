package preread

import (
	"bytes"
	"net/netip"

	"github.com/caddy-sluice/sluice/internal/clienthello"
	"github.com/caddy-sluice/sluice/internal/snitable"
)

const (
	maxName  = 253 // RFC 1035 §2.3.4: 255 bytes on the wire, less the first length and the root
	maxLabel = 63  // same section
)

// Resolve routes a complete hello: the name's classification, the lookup and the protocol choice. It is the part of
// a verdict that depends on the table. Reason is None when m is a route, or when t is nil.
//
// A name that no host can have (RFC 6066 §3) counts as none: an IP address, a name with other bytes than letters,
// digits, '-', '_' and '.', with an empty label, over 253 bytes or with a label over 63. Case and one trailing dot
// don't matter.
func Resolve(t *snitable.Table, hello *clienthello.Hello) (name string, m snitable.Match, r Reason) {
	var buf [maxName]byte
	host := normalize(&buf, hello.ServerName)
	switch {
	case t == nil:
		return string(host), snitable.Match{}, None
	case len(host) == 0 && hello.ECH:
		return "", snitable.Match{}, ECHOuterAbsent
	case len(host) == 0:
		return "", snitable.Match{}, NoSNI
	}
	m, result := t.Lookup(host, hello.ALPN)
	switch result {
	case snitable.UnknownName:
		r = SNIUnmatched
	case snitable.UnknownProtocol:
		r = ALPNUnmatched
	}
	return string(host), m, r
}

// normalize writes raw to buf in lower case and without its trailing dot, and returns it. It returns nil when raw is
// not the name of a host.
func normalize(buf *[maxName]byte, raw []byte) []byte {
	raw = bytes.TrimSuffix(raw, []byte("."))
	if len(raw) > maxName {
		return nil
	}
	label, numeric := 0, true
	for i, b := range raw {
		switch {
		case b == '.':
			if label == 0 {
				return nil
			}
			label = -1
		case b >= 'A' && b <= 'Z':
			b += 'a' - 'A'
			numeric = false
		case b >= 'a' && b <= 'z', b == '-', b == '_':
			numeric = false
		case b < '0' || b > '9':
			return nil
		}
		if label++; label > maxLabel {
			return nil
		}
		buf[i] = b
	}
	host := buf[:len(raw)]
	if label == 0 || numeric && isAddress(host) {
		return nil
	}
	return host
}

// isAddress says whether host is an IPv4 address. IPv6 addresses and brackets have bytes that no name has.
func isAddress(host []byte) bool {
	_, err := netip.ParseAddr(string(host))
	return err == nil
}
