package jsonfield

import (
	"encoding/base64"
	"encoding/binary"
	"strings"
	"unicode/utf16"
)

// charsets are types that a body may say it has, and what a reader makes of the body who heeds them.
var charsets = []struct {
	contentType string
	decode      func([]byte) []byte
}{
	{"", asUTF8},
	{"application/json", asUTF8},
	{"application/json; charset=utf-8", asUTF8},
	{`text/plain; x=y; CHARSET="UTF8"`, asUTF8},
	{"application/json; charset=us-ascii", asASCII},
	{"application/json; charset=utf-7", asUTF7},
	{"application/json; charset=utf-16le", func(b []byte) []byte { return asUTF16(b, binary.LittleEndian) }},
	{"text/plain; charset=utf-16be", func(b []byte) []byte { return asUTF16(b, binary.BigEndian) }},
}

func asUTF8(b []byte) []byte { return b }

// asASCII has a sign of its own for what isn't ASCII.
func asASCII(b []byte) []byte {
	var text strings.Builder
	for _, c := range b {
		if c < 0x80 {
			text.WriteByte(c)
		} else {
			text.WriteRune('\ufffd')
		}
	}
	return []byte(text.String())
}

func asUTF16(b []byte, order binary.ByteOrder) []byte {
	var units []uint16
	for ; len(b) > 1; b = b[2:] {
		units = append(units, order.Uint16(b))
	}
	return []byte(string(utf16.Decode(units)))
}

// asUTF7 reads what stands between `+` and the first byte that isn't base64 as UTF-16 (RFC 2152).
func asUTF7(b []byte) []byte {
	var text strings.Builder
	for len(b) > 0 {
		if b[0] != '+' {
			text.WriteByte(b[0])
			b = b[1:]
			continue
		}
		end := 1
		for end < len(b) && strings.IndexByte("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/", b[end]) >= 0 {
			end++
		}
		shifted, _ := base64.RawStdEncoding.DecodeString(string(b[1:end]))
		switch {
		case end < len(b) && b[end] == '-' && end == 1:
			text.WriteByte('+')
		default:
			text.Write(asUTF16(shifted, binary.BigEndian))
		}
		if b = b[end:]; len(b) > 0 && b[0] == '-' {
			b = b[1:]
		}
	}
	return []byte(text.String())
}
