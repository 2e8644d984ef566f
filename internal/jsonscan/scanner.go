// Package jsonscan finds members of a JSON object, such as "model", while the object arrives in chunks.
//
// A Scanner keeps no more of the document than the name and the values that it looks for, reads each byte once however the
// chunks are cut, and allocates nothing for a chunk. It finds members of the outermost object only.
//
// A strict scan reads to the end and takes only what every reader of JSON understands in the same way: the grammar of
// RFC 8259 at all levels, in UTF-8, without a byte order mark and without halves of surrogate pairs, nested no deeper
// than MaxDepth, nothing behind it. A wanted name must not come twice, nor a name that some readers take for it, whatever
// escapes it is written with. What a strict scan does not look for:
//   - Other names that come twice, at the top or deeper. To find them takes memory for every name.
//   - Numbers that readers round differently. The text of a number is its literal.
//
// A lax scan ends as soon as each wanted name was there once, or with the object. It takes the first of each and has not
// read what follows. What it has read has the grammar too; but it passes over other values without a look at their UTF-8
// and their surrogates, since some clients cut strings in the middle of a pair.
package jsonscan

// MaxDepth is how deep arrays and objects may be nested; the outermost object counts. Schemas of tools, the deepest that
// requests to APIs contain, stay below 30. Some readers take no more than 64 or 128.
const MaxDepth = 128

// Member is what a scan found for a wanted name.
type Member struct {
	// Kind is None when the member is not there.
	Kind Kind
	// Unfit says whether Text can be the value of a header.
	Unfit Unfit
	// Text is the text of a String, Number or Bool. It is nil when it is Unfit. It is good until the next Reset.
	Text []byte
}

// found is a Member without its text: that is the first length bytes of the member's part of the memory.
type found struct {
	kind   Kind
	unfit  Unfit
	length int
}

// Scanner scans one document after the other. The zero value is a lax scan that looks for nothing; Reset makes it useful.
// It must not be copied, and is not safe for concurrent use.
type Scanner struct {
	query  Query
	state  State
	reason Reason
	offset int64

	// at is what may come next, and objects has a bit for each level that is an object. Level 1 is bit 0. inObject is
	// the bit of the innermost level.
	at       place
	inObject bool
	depth    int
	objects  [MaxDepth / 64]uint64

	// isName says that the string being read is a name. checked says that its encoding matters.
	isName, checked bool
	// wanted is the index of the wanted member whose value comes next or is being read, plus one.
	wanted int
	// literal is what must follow of true, false or null.
	literal string
	// code is the \u escape so far, digits how many are missing, high the first half of a surrogate pair.
	code, high rune
	digits     int
	// missing is how many bytes of a character are, of which the next must be from low to top.
	missing  int
	low, top byte

	// memory is room for a name, then for the values. kept is the one being read, and has no room behind its capacity;
	// keep says that there is one, over that it is longer.
	memory     []byte
	kept       []byte
	keep, over bool
	members    [MaxNames]found
}

// Reset begins a new document. It allocates only when the query needs more memory than any before.
func (s *Scanner) Reset(q *Query) {
	memory := s.memory
	if n := q.memory(); cap(memory) < n {
		memory = make([]byte, n)
	}
	*s = Scanner{query: *q, memory: memory}
}

// Feed gives the next bytes, as many as there are. It neither changes nor keeps them. A strict scan never answers Found
// or Absent here: only Close knows that nothing follows.
func (s *Scanner) Feed(chunk []byte) State {
	i := 0
	for i < len(chunk) && s.state == NeedMore {
		switch {
		case s.at <= lastStructural:
			i = s.structure(chunk, i)
		case s.at == inString:
			i = s.str(chunk, i)
		case s.at <= lastOfEscapes:
			i = s.escape(chunk, i)
		case s.at == inLiteral:
			i = s.word(chunk, i)
		default:
			i = s.number(chunk, i)
		}
	}
	s.offset += int64(i)
	return s.state
}

// Close says that nothing follows. The answer is never NeedMore.
func (s *Scanner) Close() State {
	if s.state != NeedMore {
		return s.state
	}
	switch s.at {
	case atEnd:
		s.finish()
	case atStart:
		s.fail(NotJSON, Empty, 0)
	default:
		s.fail(NotJSON, Truncated, 0)
	}
	return s.state
}

// State returns the last answer.
func (s *Scanner) State() State { return s.state }

// Reason returns why the state is NotJSON, Ambiguous or TooDeep.
func (s *Scanner) Reason() Reason { return s.reason }

// Offset returns how many bytes of the document were read before the answer was final, or so far.
func (s *Scanner) Offset() int64 { return s.offset }

// Member returns what was found for the name at place i of Options.Names. Before the state is Found, there is nothing:
// what was seen of a document that is refused later must not be used.
func (s *Scanner) Member(i int) Member {
	if s.state != Found {
		return Member{}
	}
	f := s.members[i]
	m := Member{Kind: f.kind, Unfit: f.unfit}
	if f.unfit == Fit && (f.kind == String || f.kind == Number || f.kind == Bool) {
		m.Text = s.room(i)[:f.length]
	}
	return m
}

// room is the memory for a value. Nothing can be appended to it beyond its capacity without notice.
func (s *Scanner) room(i int) []byte {
	from := s.query.maxName + i*s.query.maxValue
	return s.memory[from : from : from+s.query.maxValue]
}

// fail gives a final answer because of the byte at i, and returns the index behind it.
func (s *Scanner) fail(state State, reason Reason, i int) int {
	s.state, s.reason = state, reason
	return i + 1
}

// finish gives the final answer of a document that has no fault.
func (s *Scanner) finish() {
	s.state = Absent
	for i := range s.query.names {
		if s.members[i].kind != None {
			s.state = Found
		}
	}
}

// open goes one level deeper.
func (s *Scanner) open(object bool, i int) int {
	if s.depth == MaxDepth {
		return s.fail(TooDeep, Depth, i)
	}
	word, bit := s.depth/64, uint64(1)<<(s.depth%64)
	s.objects[word] &^= bit
	s.at, s.inObject = atFirstValue, object
	if object {
		s.objects[word] |= bit
		s.at = atFirstName
	}
	s.depth++
	return i + 1
}

// close leaves a level.
func (s *Scanner) close(i int) int {
	s.depth--
	if s.depth > 0 {
		level := s.depth - 1
		s.at, s.inObject = atSeparator, s.objects[level/64]&(1<<(level%64)) != 0
		return i + 1
	}
	s.at = atEnd
	if !s.query.strict {
		s.finish()
	}
	return i + 1
}
