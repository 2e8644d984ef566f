package jsonscan

// place is what may come next.
type place uint8

const (
	// Between tokens: white space may come too.
	atStart      place = iota // {
	atFirstName               // a name, or }
	atName                    // a name
	atColon                   // :
	atFirstValue              // a value, or ]
	atValue                   // a value
	atSeparator               // a comma, or the end of the level
	atEnd                     // nothing

	inString
	inEscape   // behind a backslash
	inCode     // within the digits of \u
	inPair     // behind the first half of a surrogate pair: a backslash
	inPairCode // behind that backslash: u

	inLiteral

	inMinus    // behind the minus: a digit
	inZero     // behind the zero that has no digit behind it
	inInteger  // within the digits before a point
	inPoint    // behind the point: a digit
	inFraction // within the digits behind a point
	inE        // behind the e: a sign or a digit
	inSign     // behind the sign of the exponent: a digit
	inExponent // within the digits of the exponent

	lastStructural = atEnd
	lastOfEscapes  = inPairCode
)

// structure reads white space and tokens, as long as no string or number is cut by the end of the chunk.
func (s *Scanner) structure(b []byte, i int) int {
	for i < len(b) && s.at <= lastStructural && s.state == NeedMore {
		c := b[i]
		if c <= ' ' && (c == ' ' || c == '\n' || c == '\r' || c == '\t') {
			i++
			continue
		}
		switch s.at {
		case atSeparator:
			i = s.separator(b, i)
		case atValue:
			i = s.value(b, i)
		case atColon:
			i = s.only(':', atValue, c, i)
		case atName, atFirstName:
			i = s.nameOrEnd(b, i)
		case atFirstValue:
			i = s.firstValue(b, i)
		case atStart:
			i = s.start(c, i)
		case atEnd:
			i = s.fail(NotJSON, Trailing, i)
		}
	}
	return i
}

// only reads a byte that must be the one wanted, and what comes next.
func (s *Scanner) only(want byte, next place, c byte, i int) int {
	if c != want {
		return s.fail(NotJSON, Syntax, i)
	}
	s.at = next
	return i + 1
}

// nameOrEnd reads a name, or the end of an object that has none.
func (s *Scanner) nameOrEnd(b []byte, i int) int {
	switch {
	case b[i] == '"':
		return s.name(b, i)
	case b[i] == '}' && s.at == atFirstName:
		return s.close(i)
	}
	return s.fail(NotJSON, Syntax, i)
}

// firstValue reads the first value of an array, or its end.
func (s *Scanner) firstValue(b []byte, i int) int {
	if b[i] == ']' {
		return s.close(i)
	}
	return s.value(b, i)
}

// start reads the first byte of the document.
func (s *Scanner) start(c byte, i int) int {
	switch {
	case c == '{':
		return s.open(true, i)
	case s.offset == 0 && i == 0 && (c == 0xef || c == 0xfe || c == 0xff):
		return s.fail(NotJSON, BOM, i)
	}
	return s.fail(NotJSON, NotObject, i)
}

// separator reads what stands behind a value.
func (s *Scanner) separator(b []byte, i int) int {
	c := b[i]
	switch {
	case c == ',' && s.inObject:
		if i+1 < len(b) && b[i+1] == '"' {
			return s.name(b, i+1)
		}
		s.at = atName
		return i + 1
	case c == ',':
		s.at = atValue
		return i + 1
	case c == '}' && s.inObject, c == ']' && !s.inObject:
		return s.close(i)
	}
	return s.fail(NotJSON, Syntax, i)
}

// value reads the first byte of a value.
func (s *Scanner) value(b []byte, i int) int {
	switch c := b[i]; {
	case c == '"':
		s.begin(String)
		s.at, s.isName, s.checked = inString, false, s.query.strict || s.keep
		return s.str(b, i+1)
	case c >= '1' && c <= '9':
		return s.beginNumber(inInteger, b, i)
	case c == '0':
		return s.beginNumber(inZero, b, i)
	case c == '-':
		return s.beginNumber(inMinus, b, i)
	case c == 't':
		return s.beginWord(Bool, "true", b, i)
	case c == 'f':
		return s.beginWord(Bool, "false", b, i)
	case c == 'n':
		return s.beginWord(Null, "null", b, i)
	case c == '{', c == '[':
		return s.nested(c == '{', i)
	}
	return s.fail(NotJSON, Syntax, i)
}

// begin notes of which kind a value is, and makes room for it, if it is that of a wanted member.
func (s *Scanner) begin(kind Kind) {
	if s.wanted > 0 {
		s.members[s.wanted-1].kind = kind
		s.kept, s.keep, s.over = s.room(s.wanted-1), true, false
	}
}

// nested begins an object or an array. There is no more to know of one that is wanted.
func (s *Scanner) nested(object bool, i int) int {
	if s.wanted == 0 {
		return s.open(object, i)
	}
	kind := Array
	if object {
		kind = Object
	}
	s.members[s.wanted-1].kind = kind
	s.wanted = 0
	i = s.open(object, i)
	s.satisfy()
	return i
}

// ended notes that a value is over which is no object and no array.
func (s *Scanner) ended() {
	s.at = atSeparator
	if s.wanted == 0 {
		return
	}
	m := &s.members[s.wanted-1]
	m.length = len(s.kept)
	switch {
	case m.kind == Null:
	case s.over:
		m.unfit = TooLong
	default:
		m.unfit = unfit(s.kept)
	}
	s.wanted, s.keep = 0, false
	s.satisfy()
}

// satisfy ends a lax scan that has found everything.
func (s *Scanner) satisfy() {
	if s.query.strict {
		return
	}
	for i := range s.query.names {
		if s.members[i].kind == None {
			return
		}
	}
	s.state = Found
}

// hold keeps one byte, if it matters, and returns the index behind it.
func (s *Scanner) hold(c byte, i int) int {
	if s.keep {
		s.keepByte(c)
	}
	return i + 1
}

func (s *Scanner) keepByte(c byte) {
	if s.over || len(s.kept) == cap(s.kept) {
		s.over = true
		return
	}
	s.kept = append(s.kept, c)
}

// holdRun keeps bytes, if they matter, as far as they have room. What is kept is always the beginning of the whole, however
// that is cut.
func (s *Scanner) holdRun(run []byte) {
	if !s.keep || s.over {
		return
	}
	if room := cap(s.kept) - len(s.kept); len(run) > room {
		run, s.over = run[:room], true
	}
	s.kept = append(s.kept, run...)
}
