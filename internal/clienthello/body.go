package clienthello

import (
	"slices"
	"unicode/utf8"

	"golang.org/x/crypto/cryptobyte"
)

// Extension types.
const (
	extensionServerName        = 0x0000 // RFC 6066 §3
	extensionALPN              = 0x0010 // RFC 7301 §3.1
	extensionSupportedVersions = 0x002b // RFC 8446 §4.2.1
	extensionECH               = 0xfe0d // encrypted_client_hello
)

const (
	randomLength = 32
	hostName     = 0 // the NameType of a host_name
)

// parse reads the body of the message (RFC 8446 §4.1.2). It checks that lengths fit into each other, not what the
// fields mean: that is for the server to judge, which gets the same bytes. It says whether all of it was sound.
func (h *Hello) parse(body cryptobyte.String) bool {
	var field, extensions cryptobyte.String
	if !body.ReadUint16(&h.LegacyVersion) ||
		!body.Skip(randomLength) ||
		!body.ReadUint8LengthPrefixed(&field) || // legacy_session_id
		!body.ReadUint16LengthPrefixed(&field) || // cipher_suites
		!body.ReadUint8LengthPrefixed(&field) { // legacy_compression_methods
		return false
	}
	if body.Empty() {
		return true // the extension block may be missing altogether
	}
	return body.ReadUint16LengthPrefixed(&extensions) && h.parseExtensions(extensions)
}

// parseExtensions walks the extension block. The two that decide the route must not come twice: a server that took
// the other one would serve another name than the one that was routed.
func (h *Hello) parseExtensions(block cryptobyte.String) bool {
	var haveName, haveALPN bool
	for !block.Empty() {
		var kind uint16
		var data cryptobyte.String
		if !block.ReadUint16(&kind) || !block.ReadUint16LengthPrefixed(&data) {
			return false
		}
		ok := true
		switch kind {
		case extensionServerName:
			ok = !haveName && h.parseServerName(data)
			haveName = true
		case extensionALPN:
			ok = !haveALPN && h.parseALPN(data)
			haveALPN = true
		case extensionSupportedVersions:
			h.parseVersions(data)
		case extensionECH:
			h.ECH = true
		}
		if !ok {
			return false
		}
	}
	return true
}

// parseServerName reads a server_name extension. One without a body is what servers send (RFC 6066 §3); from a
// client it counts as no name.
func (h *Hello) parseServerName(data cryptobyte.String) bool {
	if data.Empty() {
		return true
	}
	var list cryptobyte.String
	if !data.ReadUint16LengthPrefixed(&list) {
		return false
	}
	for !list.Empty() {
		var kind uint8
		var name cryptobyte.String
		if !list.ReadUint8(&kind) || !list.ReadUint16LengthPrefixed(&name) {
			return false
		}
		if kind != hostName {
			continue
		}
		if h.ServerName != nil || !utf8.Valid(name) {
			return false
		}
		h.ServerName = slices.Clip([]byte(name))
	}
	return true
}

// parseALPN reads an ALPN extension. Neither the list nor a name in it may be empty (RFC 7301 §3.1).
func (h *Hello) parseALPN(data cryptobyte.String) bool {
	var list cryptobyte.String
	if !data.ReadUint16LengthPrefixed(&list) || list.Empty() {
		return false
	}
	h.ALPN = slices.Clip(Protocols(list))
	for !list.Empty() {
		var name cryptobyte.String
		if !list.ReadUint8LengthPrefixed(&name) || name.Empty() {
			return false
		}
	}
	return true
}

// parseVersions reads a supported_versions extension. It decides no route, so a body of another shape is passed
// over, and so is a second one.
func (h *Hello) parseVersions(data cryptobyte.String) {
	var list cryptobyte.String
	if h.SupportedVersions != nil || !data.ReadUint8LengthPrefixed(&list) || !data.Empty() {
		return
	}
	if len(list) > 0 && len(list)%2 == 0 {
		h.SupportedVersions = slices.Clip([]byte(list))
	}
}
