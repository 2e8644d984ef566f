package validaterequest

import (
	"fmt"
	"net/http"
	"strings"

	"golang.org/x/net/http/httpguts"
)

// pattern is a reserved name, folded, or the beginning of one.
type pattern struct {
	name   string
	prefix bool
}

// reserved are the names that clients may not send and answers don't keep.
type reserved []pattern

// newReserved reads the names.
func newReserved(names []string) (reserved, error) {
	var list reserved
	for _, name := range names {
		begin, prefix := strings.CutSuffix(name, "*")
		if !httpguts.ValidHeaderFieldName(begin) || strings.Contains(begin, "*") {
			return nil, fmt.Errorf("%q is no name of a header, which may end with *", name)
		}
		folded := []byte(begin)
		for i, c := range folded {
			folded[i] = fold(c)
		}
		list = append(list, pattern{string(folded), prefix})
	}
	return list, nil
}

// fold makes one of bytes that backends may take for the same in a header's name: CGI does with `-` and `_`, PHP with `.`
// too.
func fold(c byte) byte {
	switch {
	case c == '_' || c == '.':
		return '-'
	case 'A' <= c && c <= 'Z':
		return c + 'a' - 'A'
	}
	return c
}

// has says whether a name is reserved.
func (list reserved) has(name string) bool {
	for i := range list {
		if list[i].matches(name) {
			return true
		}
	}
	return false
}

func (p *pattern) matches(name string) bool {
	if len(name) < len(p.name) || len(name) > len(p.name) && !p.prefix {
		return false
	}
	for i := range len(p.name) {
		if fold(name[i]) != p.name[i] {
			return false
		}
	}
	return true
}

// inRequest says whether a request has a reserved header, or announces one for its end.
func (list reserved) inRequest(r *http.Request) bool {
	if len(list) == 0 {
		return false
	}
	for name := range r.Header {
		if list.has(name) {
			return true
		}
	}
	for name := range r.Trailer {
		if list.has(name) {
			return true
		}
	}
	return false
}

// removeFrom removes reserved headers from an answer, and trailers, announced or not.
func (list reserved) removeFrom(header http.Header) {
	for name := range header {
		if list.has(strings.TrimPrefix(name, http.TrailerPrefix)) {
			delete(header, name)
		}
	}
	if announced := header["Trailer"]; len(announced) > 0 {
		list.unannounce(header, announced)
	}
}

// unannounce removes reserved names from an announcement of trailers.
func (list reserved) unannounce(header http.Header, lines []string) {
	var kept []string
	removed := false
	for _, line := range lines {
		for name := range strings.SplitSeq(line, ",") {
			name = strings.TrimSpace(name)
			if list.has(name) {
				removed = true
			} else {
				kept = append(kept, name)
			}
		}
	}
	switch {
	case !removed:
	case len(kept) == 0:
		delete(header, "Trailer")
	default:
		header["Trailer"] = []string{strings.Join(kept, ", ")}
	}
}
