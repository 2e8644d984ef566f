package jsonscan

import (
	"bytes"
	"unicode/utf8"
)

const (
	highFirst, highLast = 0xd800, 0xdbff
	lowFirst, lowLast   = 0xdc00, 0xdfff
	// pairBase is the first character that takes a surrogate pair.
	pairBase = 0x10000
)

// name begins a name. Only those of the outermost object are kept.
func (s *Scanner) name(b []byte, i int) int {
	s.at, s.isName, s.checked = inString, true, true
	if s.depth > 1 {
		s.checked = s.query.strict
		return s.pairs(b, i+1)
	}
	s.kept, s.keep, s.over = s.memory[:0:s.query.maxName], true, false
	return s.str(b, i+1)
}

// pairs goes on with a name of which nothing is kept, and with the strings that are values and the names behind them, from
// object to object of an array: most of what a large document has. It leaves to the others what isn't plain, from where that
// begins.
func (s *Scanner) pairs(b []byte, i int) int {
	for ; ; s.at, s.isName = inString, true {
		if i = plain(b, i, s.checked); i == len(b) || b[i] != '"' {
			return s.str(b, i)
		}
		s.at = atColon
		if i++; i == len(b) || b[i] != ':' {
			return i
		}
		s.at = atValue
		if i = pastSpace(b, i+1); i == len(b) || b[i] != '"' {
			return i
		}
		s.at, s.isName = inString, false
		if i = plain(b, i+1, s.checked); i == len(b) || b[i] != '"' {
			return s.str(b, i)
		}
		s.at = atSeparator
		if i++; i+3 < len(b) && string(b[i:i+4]) == `},{"` && s.inList() {
			i += 4
			continue
		}
		if i == len(b) || b[i] != ',' {
			return i
		}
		s.at = atName
		if i = pastSpace(b, i+1); i == len(b) || b[i] != '"' {
			return i
		}
		i++
	}
}

// inList says whether the object at hand, which is not the outermost, is an element of an array.
func (s *Scanner) inList() bool {
	level := s.depth - 2
	return s.objects[level/64]&(1<<(level%64)) == 0
}

// pastSpace returns the index behind one space, if there is one at i.
func pastSpace(b []byte, i int) int {
	if i < len(b) && b[i] == ' ' {
		i++
	}
	return i
}

// str goes on with a string, up to its end or an escape.
func (s *Scanner) str(b []byte, i int) int {
	if s.missing > 0 {
		i = s.tail(b, i)
	}
	for i < len(b) && s.state == NeedMore {
		start := i
		i = plain(b, i, s.checked)
		s.holdRun(b[start:i])
		if i == len(b) {
			break
		}
		switch c := b[i]; {
		case c == '"':
			return s.strEnd(b, i)
		case c == '\\':
			s.at = inEscape
			if i = s.escape(b, i+1); s.at != inString {
				return i
			}
		case c < ' ':
			return s.fail(NotJSON, Control, i)
		default:
			i = s.wide(b, i)
		}
	}
	return i
}

// wide reads characters that are not ASCII. One that is wrong, or cut by the end of the chunk, goes to head.
func (s *Scanner) wide(b []byte, i int) int {
	start := i
	for i < len(b) && b[i] >= utf8.RuneSelf {
		n := wideLen(b[i:])
		if n == 1 {
			s.holdRun(b[start:i])
			return s.head(b, i)
		}
		i += n
	}
	s.holdRun(b[start:i])
	return i
}

// wideLen returns the length of the character that b begins with, or 1 when it is wrong or not all there. The usual
// alphabets are those of which the second byte has no limits of its own.
func wideLen(b []byte) int {
	switch c := b[0]; {
	case c > 0xe0 && c < 0xed && len(b) > 2 && b[1]&0xc0 == 0x80 && b[2]&0xc0 == 0x80:
		return 3
	case c >= 0xc2 && c < 0xe0 && len(b) > 1 && b[1]&0xc0 == 0x80:
		return 2
	}
	_, n := utf8.DecodeRune(b)
	return n
}

// head reads the first byte of a character alone. The limits for the second are those of RFC 3629 §4.
func (s *Scanner) head(b []byte, i int) int {
	c := b[i]
	s.low, s.top = 0x80, 0xbf
	switch {
	case c >= 0xc2 && c <= 0xdf:
		s.missing = 1
	case c >= 0xe0 && c <= 0xef:
		s.missing = 2
	case c >= 0xf0 && c <= 0xf4:
		s.missing = 3
	default:
		return s.fail(NotJSON, Encoding, i)
	}
	switch c {
	case 0xe0:
		s.low = 0xa0
	case 0xed:
		s.top = 0x9f
	case 0xf0:
		s.low = 0x90
	case 0xf4:
		s.top = 0x8f
	}
	return s.tail(b, s.hold(c, i))
}

// tail reads the other bytes of a character one by one, as far as they are there.
func (s *Scanner) tail(b []byte, i int) int {
	for ; i < len(b) && s.missing > 0; s.missing-- {
		c := b[i]
		if c < s.low || c > s.top {
			return s.fail(NotJSON, Encoding, i)
		}
		s.low, s.top = 0x80, 0xbf
		i = s.hold(c, i)
	}
	return i
}

// strEnd reads the quote behind a string.
func (s *Scanner) strEnd(b []byte, i int) int {
	switch {
	case !s.isName:
		s.ended()
	case s.keep:
		s.at, s.keep = atColon, false
		return s.compare(i)
	case i+1 < len(b) && b[i+1] == ':':
		s.at = atValue
		return i + 2
	default:
		s.at = atColon
	}
	return i + 1
}

// compare looks whether a name of the outermost object is wanted.
func (s *Scanner) compare(i int) int {
	for n, wanted := range s.query.names {
		same := !s.over && bytes.Equal(s.kept, wanted)
		seen := s.members[n].kind != None
		switch {
		case same && !seen:
			s.wanted = n + 1
		case same && s.query.strict:
			return s.fail(Ambiguous, Duplicate, i)
		case !same && s.query.strict && alike(s.kept, wanted, s.over):
			return s.fail(Ambiguous, Alike, i)
		}
	}
	return i + 1
}

// escape goes on with an escape, and ends in the string behind it, if all of it is there.
func (s *Scanner) escape(b []byte, i int) int {
	for i < len(b) && s.at != inString && s.state == NeedMore {
		c := b[i]
		switch {
		case s.at == inEscape:
			i = s.escaped(c, i)
		case s.at == inCode:
			i = s.codeDigits(b, i)
		case s.at == inPair && c == '\\':
			s.at = inPairCode
			i++
		case s.at == inPairCode && c == 'u':
			s.at, s.code, s.digits = inCode, 0, 4
			i++
		default:
			return s.fail(NotJSON, Surrogate, i)
		}
	}
	return i
}

// escaped reads the byte behind a backslash.
func (s *Scanner) escaped(c byte, i int) int {
	switch c {
	case 'u':
		s.at, s.code, s.digits = inCode, 0, 4
		return i + 1
	case '"', '\\', '/':
	case 'b':
		c = '\b'
	case 'f':
		c = '\f'
	case 'n':
		c = '\n'
	case 'r':
		c = '\r'
	case 't':
		c = '\t'
	default:
		return s.fail(NotJSON, Syntax, i)
	}
	s.at = inString
	return s.hold(c, i)
}

// codeDigits reads the digits of a \u escape, as far as they are there.
func (s *Scanner) codeDigits(b []byte, i int) int {
	code, end := s.code, min(i+s.digits, len(b))
	s.digits -= end - i
	for ; i < end; i++ {
		switch c := b[i]; {
		case c-'0' <= 9:
			code = code<<4 | rune(c-'0')
		case c|0x20-'a' < 6:
			code = code<<4 | rune(c|0x20-'a'+10)
		default:
			return s.fail(NotJSON, Syntax, i)
		}
	}
	s.code = code
	if s.digits > 0 {
		return i
	}
	s.at = inString
	return s.codeEnd(i)
}

// codeEnd takes the character that the \u escape before i stands for. Where the encoding doesn't matter, nothing is kept
// either.
func (s *Scanner) codeEnd(i int) int {
	r := s.code
	if !s.checked {
		return i
	}
	isLow := r >= lowFirst && r <= lowLast
	if isLow != (s.high != 0) {
		return s.fail(NotJSON, Surrogate, i-1)
	}
	switch {
	case isLow:
		r = pairBase + (s.high-highFirst)<<10 + r - lowFirst
		s.high = 0
	case r >= highFirst && r <= highLast:
		s.high, s.at = r, inPair
		return i
	}
	if s.keep {
		var encoded [utf8.UTFMax]byte
		s.holdRun(encoded[:utf8.EncodeRune(encoded[:], r)])
	}
	return i
}
