// Package reserved has the names of headers that belong to the proxy: what stands in them was set by a handler of ours, and
// no backend gets it.
package reserved

import (
	"fmt"
	"net/http"
	"strings"

	"golang.org/x/net/http/httpguts"
)

// Var is the name of the variable of a request that has the names which are reserved in it, a *Names. There is none if
// none are.
const Var = "sluice.reserved_headers"

// pattern is a name, folded, or the beginning of one.
type pattern struct {
	name   string
	prefix bool
}

// Names are names that are reserved.
type Names []pattern

// Parse reads names. One that ends with `*` stands for all that begin so.
func Parse(names []string) (Names, error) {
	var list Names
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

// Has says whether a name is reserved.
func (list Names) Has(name string) bool {
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

// Same says whether backends may take one name of a header for another.
func Same(name, other string) bool {
	if len(name) != len(other) {
		return false
	}
	for i := range len(name) {
		if fold(name[i]) != fold(other[i]) {
			return false
		}
	}
	return true
}

// In says whether a header has a reserved name.
func (list Names) In(header http.Header) bool {
	if len(list) == 0 {
		return false
	}
	for name := range header {
		if list.Has(name) {
			return true
		}
	}
	return false
}

// RemoveFrom removes reserved names from a header.
func (list Names) RemoveFrom(header http.Header) {
	for name := range header {
		if list.Has(name) {
			delete(header, name)
		}
	}
}
