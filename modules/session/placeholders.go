package session

import (
	"strconv"
	"strings"

	"github.com/caddy-sluice/sluice/internal/clienthello"
	"github.com/caddy-sluice/sluice/internal/preread"
)

// The placeholders of a session. Each is empty until its value is known.
const (
	placeholderPrefix = "l4.sluice."
	// sni is the normalised server name of the hello: letters, digits, "-", "_" and "." only.
	placeholderSNI = "sni"
	// alpn is the client's protocol list, comma-separated, with bytes that don't print escaped.
	placeholderALPN = "alpn"
	// ech is "true" when the hello carried an encrypted hello, else "false".
	placeholderECH = "ech"
	// pattern is the pattern of the routing table that decided.
	placeholderPattern = "pattern"
	// reason is why the preread found no route: one of its eleven reasons.
	placeholderReason = "reason"
	// close_reason is why the connection ended.
	placeholderCloseReason = "close_reason"
	// client is the client's address, after a PROXY header.
	placeholderClient = "client"
	// peer is the address that the connection came from, whatever a PROXY header says.
	placeholderPeer = "peer"
	// id names the session in the admin API and in the access log.
	placeholderID = "id"
	// cluster is the cluster that the connection was forwarded to.
	placeholderCluster = "cluster"
	// upstream is the address that the connection was forwarded to.
	placeholderUpstream = "upstream"
	// attempts is how many connections to upstreams were begun.
	placeholderAttempts = "attempts"
	// bytes_in and bytes_out count what was delivered to the upstream and to the client.
	placeholderBytesIn  = "bytes_in"
	placeholderBytesOut = "bytes_out"
	// hello_size and hello_records are the size of the hello in bytes and the number of records it came in.
	placeholderHelloSize    = "hello_size"
	placeholderHelloRecords = "hello_records"
	// tags.<key> is a tag of the route taken.
	placeholderTags = "tags."
)

// placeholder answers the connection's replacer.
func (s *Session) placeholder(key string) (any, bool) {
	name, ours := strings.CutPrefix(key, placeholderPrefix)
	if !ours {
		return nil, false
	}
	if tag, isTag := strings.CutPrefix(name, placeholderTags); isTag {
		return s.Tags[tag], true
	}
	switch name {
	case placeholderPattern:
		return s.Pattern, true
	case placeholderReason:
		return s.reason(), true
	case placeholderCloseReason:
		return s.CloseReason().String(), true
	case placeholderClient:
		return s.Client.String(), true
	case placeholderPeer:
		return s.Peer.String(), true
	case placeholderID:
		return s.ID(), true
	case placeholderCluster:
		return s.Cluster, true
	case placeholderUpstream:
		return s.Upstream, true
	case placeholderAttempts:
		return strconv.Itoa(s.Attempts), true
	case placeholderBytesIn:
		return strconv.FormatInt(s.BytesIn, 10), true
	case placeholderBytesOut:
		return strconv.FormatInt(s.BytesOut, 10), true
	}
	return s.Hello.placeholder(name)
}

// MayKnow says whether a connection may have a value for the placeholder: false for one that would be ours by its prefix,
// and that we don't have.
func MayKnow(key string) bool {
	_, known := new(Session).placeholder(key)
	return known || !strings.HasPrefix(key, placeholderPrefix)
}

// reason is the preread's reason; empty when there is none.
func (s *Session) reason() string {
	if s.Reason == preread.None {
		return ""
	}
	return s.Reason.String()
}

// placeholder answers for the hello. h may be nil: then every name of a hello is known and empty.
func (h *Hello) placeholder(name string) (any, bool) {
	if h == nil {
		h = &Hello{}
	}
	switch name {
	case placeholderSNI:
		return h.ServerName, true
	case placeholderALPN:
		return FormatALPN(h.ALPN), true
	case placeholderECH:
		return strconv.FormatBool(h.ECH), true
	case placeholderHelloSize:
		return strconv.Itoa(h.Size), true
	case placeholderHelloRecords:
		return strconv.Itoa(h.Records), true
	}
	return nil, false
}

// FormatALPN renders a protocol list for people and logs: comma-separated, with commas, backslashes and every byte
// that is not printable ASCII written as \xNN, since the names are the client's to choose.
func FormatALPN(list clienthello.Protocols) string {
	const hex = "0123456789abcdef"
	var b strings.Builder
	for name := range list.All() {
		if b.Len() > 0 {
			b.WriteByte(',')
		}
		for _, c := range name {
			if c > ' ' && c < 0x7f && c != ',' && c != '\\' {
				b.WriteByte(c)
				continue
			}
			b.WriteString(`\x`)
			b.WriteByte(hex[c>>4])
			b.WriteByte(hex[c&15])
		}
	}
	return b.String()
}
