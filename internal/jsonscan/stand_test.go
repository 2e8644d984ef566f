package jsonscan

import (
	"fmt"
	"strings"
	"testing"
)

func mustQuery(tb testing.TB, o Options) *Query {
	tb.Helper()
	q, err := NewQuery(o)
	if err != nil {
		tb.Fatal(err)
	}
	return q
}

// scan feeds a document in pieces of size bytes, the last of which may be shorter.
func scan(q *Query, document string, size int) *Scanner {
	s := new(Scanner)
	s.Reset(q)
	for len(document) > 0 {
		n := min(size, len(document))
		s.Feed([]byte(document[:n]))
		document = document[n:]
	}
	s.Close()
	return s
}

// outcome puts in words all that a scanner says: "found 17: string \"a\"", "not_json 3: syntax".
func outcome(s *Scanner) string {
	said := fmt.Sprintf("%v %d:", s.State(), s.Offset())
	if s.Reason() != NoReason {
		return said + " " + s.Reason().String()
	}
	return said + " " + members(s)
}

// members puts in words what was found: "string \"a\", none, number \"1\", string too_long".
func members(s *Scanner) string {
	var all []string
	for i := range s.query.names {
		m := s.Member(i)
		switch {
		case m.Unfit != Fit:
			all = append(all, fmt.Sprintf("%v %v", m.Kind, m.Unfit))
		case m.Text != nil:
			all = append(all, fmt.Sprintf("%v %q", m.Kind, m.Text))
		default:
			all = append(all, m.Kind.String())
		}
	}
	return strings.Join(all, ", ")
}
