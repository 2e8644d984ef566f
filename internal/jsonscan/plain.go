package jsonscan

import (
	"encoding/binary"
	"math/bits"
	"unicode/utf8"
)

// each and eachTop have a bit in each byte of a word: the lowest, the highest.
const (
	each    = 0x0101010101010101
	eachTop = 0x8080808080808080
)

// plain returns the index from i on of the first byte that a string can't simply contain: a quote, a backslash, a control
// character, and with checked any byte above ASCII. It looks at eight bytes at a time. In a byte that is below n or equal
// to n, a subtraction borrows into the highest bit; it may borrow from the byte above as well, so that only the lowest
// bit found is sure. That is the first byte, by the order in which they are loaded.
func plain(b []byte, i int, checked bool) int {
	if checked {
		return plainASCII(b, i)
	}
	for ; i+8 <= len(b); i += 8 {
		w := binary.LittleEndian.Uint64(b[i:])
		quote, slash := w^each*'"', w^each*'\\'
		if m := ((quote-each)&^quote | (slash-each)&^slash | (w-each*' ')&^w) & eachTop; m != 0 {
			return i + bits.TrailingZeros64(m)/8
		}
	}
	for ; i < len(b); i++ {
		if c := b[i]; c == '"' || c == '\\' || c < ' ' {
			return i
		}
	}
	return i
}

// plainASCII is plain where a byte above ASCII ends the search, so that its highest bit may stand for itself.
func plainASCII(b []byte, i int) int {
	for ; i+8 <= len(b); i += 8 {
		w := binary.LittleEndian.Uint64(b[i:])
		if m := (w | (w - each*' ') | ((w ^ each*'"') - each) | ((w ^ each*'\\') - each)) & eachTop; m != 0 {
			return i + bits.TrailingZeros64(m)/8
		}
	}
	for ; i < len(b); i++ {
		if c := b[i]; c == '"' || c == '\\' || c < ' ' || c >= utf8.RuneSelf {
			return i
		}
	}
	return i
}
