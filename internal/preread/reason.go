package preread

import "iter"

// Reason says why a connection was rejected. The set is closed.
type Reason uint8

// The reasons. None is the zero value: not rejected.
const (
	None Reason = iota
	// NotTLS: the first byte is not that of a TLS handshake record.
	NotTLS
	// MalformedRecord: a record is longer than RFC 8446 §5.1 allows, or of another type inside the hello.
	MalformedRecord
	// MalformedHandshake: another message than a ClientHello, or one whose fields contradict each other.
	MalformedHandshake
	// Fragmented: undecided at the deadline.
	Fragmented
	// TooLarge: undecided at Config.MaxBytes.
	TooLarge
	// NoSNI: a complete hello has no server name that a host can have.
	NoSNI
	// ECHOuterAbsent: like NoSNI, in a hello with an encrypted_client_hello extension.
	ECHOuterAbsent
	// SNIUnmatched: no pattern covers the name.
	SNIUnmatched
	// ALPNUnmatched: a pattern covers the name, but none of its routes takes a protocol offered.
	ALPNUnmatched
	// ProxyHeaderInvalid: Config.Proxy is set, and the bytes can't become a PROXY header.
	ProxyHeaderInvalid
	// FrontClosed: the client went away while undecided.
	FrontClosed
	reasonCount
)

// reasonNames are the names in metrics, logs and configurations.
var reasonNames = [...]string{
	None:               "none",
	NotTLS:             "not_tls",
	MalformedRecord:    "malformed_record",
	MalformedHandshake: "malformed_handshake",
	Fragmented:         "fragmented",
	TooLarge:           "too_large",
	NoSNI:              "no_sni",
	ECHOuterAbsent:     "ech_outer_absent",
	SNIUnmatched:       "sni_unmatched",
	ALPNUnmatched:      "alpn_unmatched",
	ProxyHeaderInvalid: "proxy_header_invalid",
	FrontClosed:        "front_closed",
}

// A reason without a name doesn't compile: this index would be out of range.
var _ = [1]struct{}{}[len(reasonNames)-int(reasonCount)]

// String returns the name of the reason, such as "not_tls"; "none" for None.
func (r Reason) String() string {
	if r >= reasonCount {
		return "invalid"
	}
	return reasonNames[r]
}

// Reasons yields all reasons, without None.
func Reasons() iter.Seq[Reason] {
	return func(yield func(Reason) bool) {
		for r := None + 1; r < reasonCount && yield(r); r++ {
		}
	}
}

// ParseReason returns the reason with this name. None has no name here.
func ParseReason(name string) (Reason, bool) {
	for r := range Reasons() {
		if r.String() == name {
			return r, true
		}
	}
	return None, false
}
