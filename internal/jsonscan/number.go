package jsonscan

// beginWord begins true, false or null.
func (s *Scanner) beginWord(kind Kind, word string, b []byte, i int) int {
	s.begin(kind)
	if end := i + len(word); end <= len(b) && string(b[i:end]) == word {
		s.holdRun(b[i:end])
		s.ended()
		return end
	}
	s.at, s.literal = inLiteral, word[1:]
	return s.hold(word[0], i)
}

// word goes on with true, false or null.
func (s *Scanner) word(b []byte, i int) int {
	for ; i < len(b); i++ {
		c := b[i]
		if c != s.literal[0] {
			return s.fail(NotJSON, Syntax, i)
		}
		s.hold(c, i)
		if s.literal = s.literal[1:]; s.literal == "" {
			s.ended()
			return i + 1
		}
	}
	return i
}

// beginNumber begins a number, and goes on with it.
func (s *Scanner) beginNumber(at place, b []byte, i int) int {
	s.begin(Number)
	s.at = at
	return s.number(b, s.hold(b[i], i))
}

// number goes on with a number. What follows the number is not read: the number may be over only then.
func (s *Scanner) number(b []byte, i int) int {
	start, at := i, s.at
	for ; i < len(b); i++ {
		c := b[i]
		if c-'0' <= 9 && (at == inInteger || at == inFraction || at == inExponent) {
			continue
		}
		next := numeral(at, c)
		if next == inLiteral {
			s.holdRun(b[start:i])
			return s.numberEnd(at, c, i)
		}
		at = next
	}
	s.at = at
	s.holdRun(b[start:i])
	return i
}

// numeral returns where in a number c leads, or inLiteral when it can't be the number's. A digit that is one more in a
// row is not asked for.
func numeral(at place, c byte) place {
	switch at {
	case inMinus:
		if c == '0' {
			return inZero
		}
		return ifDigit(c, inInteger)
	case inZero, inInteger:
		if c == '.' {
			return inPoint
		}
		return ifE(c)
	case inFraction:
		return ifE(c)
	case inPoint:
		return ifDigit(c, inFraction)
	case inE:
		if c == '+' || c == '-' {
			return inSign
		}
		return ifDigit(c, inExponent)
	case inSign:
		return ifDigit(c, inExponent)
	}
	return inLiteral
}

func ifDigit(c byte, next place) place {
	if c-'0' <= 9 {
		return next
	}
	return inLiteral
}

func ifE(c byte) place {
	if c|0x20 == 'e' {
		return inE
	}
	return inLiteral
}

// numberEnd ends a number before c, the byte at i. That a number is over must be sure before a lax scan takes it.
func (s *Scanner) numberEnd(at place, c byte, i int) int {
	switch at {
	case inZero, inInteger, inFraction, inExponent:
		switch c {
		case ',', '}', ']', ' ', '\n', '\r', '\t':
			s.ended()
			return i
		}
	}
	return s.fail(NotJSON, Syntax, i)
}
