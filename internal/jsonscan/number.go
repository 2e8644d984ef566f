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

// number goes on with a number. What follows the number is not read: the number may be over only then.
func (s *Scanner) number(b []byte, i int) int {
	start := i
	for ; i < len(b); i++ {
		c := b[i]
		if c-'0' <= 9 && (s.at == inInteger || s.at == inFraction || s.at == inExponent) {
			continue
		}
		next := s.numeral(c)
		if next == inLiteral {
			s.holdRun(b[start:i])
			return s.numberEnd(c, i)
		}
		s.at = next
	}
	s.holdRun(b[start:i])
	return i
}

// numeral returns where in the number its next byte leads, or inLiteral when that byte can't be the number's.
func (s *Scanner) numeral(c byte) place {
	switch {
	case c >= '0' && c <= '9':
		return s.digit(c)
	case c == '.' && (s.at == inZero || s.at == inInteger):
		return inPoint
	case (c == 'e' || c == 'E') && (s.at == inZero || s.at == inInteger || s.at == inFraction):
		return inE
	case (c == '+' || c == '-') && s.at == inE:
		return inSign
	}
	return inLiteral
}

// digit is numeral for a digit that is not one more in a row.
func (s *Scanner) digit(c byte) place {
	switch s.at {
	case inMinus:
		if c == '0' {
			return inZero
		}
		return inInteger
	case inPoint:
		return inFraction
	case inE, inSign:
		return inExponent
	}
	return inLiteral // behind a leading zero
}

// numberEnd ends a number before c, the byte at i. That a number is over must be sure before a lax scan takes it.
func (s *Scanner) numberEnd(c byte, i int) int {
	switch s.at {
	case inZero, inInteger, inFraction, inExponent:
		switch c {
		case ',', '}', ']', ' ', '\n', '\r', '\t':
			s.ended()
			return i
		}
	}
	return s.fail(NotJSON, Syntax, i)
}
