// Package snitable finds the route for a server name and the protocols that a client offers.
//
// A pattern is a form (exact, *., **. or .) and a base, the name behind it. One map from bases to the patterns on
// them answers a lookup: it is asked for the name, and for each suffix of the name that has as many labels as some
// wildcard's base. The pattern found decides alone; which of its routes is taken depends on the protocols.
package snitable

import (
	"bytes"

	"github.com/caddy-sluice/sluice/internal/clienthello"
)

// Route is one row of the table as the operator wrote it.
type Route struct {
	// Names are patterns: a.example.com, *.example.com, **.example.com, .example.com.
	Names []string
	// ALPN are the protocols the route takes. Empty: the catch-all of its names.
	ALPN []string
}

// Table is an immutable set of routes. It is safe for concurrent use. A nil table knows no name.
type Table struct {
	patterns map[string]patterns // by base
	keys     []key               // what patterns refers to
	// wild says for each number of labels whether some wildcard's base has that many. It spares most suffixes of
	// a name, above all of a very deep one, their search in the map.
	wild    [maxLabels + 1]bool
	maxWild int // the highest index set in wild
}

// patterns are the patterns on one base by form: 1 + the index of the key, 0 where there is none. A large table is
// as quick as it is small (what is not in the processor's caches costs more than all else), hence no pointers.
type patterns [numForms]uint32

// key is one pattern with its routes.
type key struct {
	pattern   string
	protocols []protocol // sorted by name
	catchAll  int        // route without protocols, or none
}

// protocol is a protocol name and the route that takes it.
type protocol struct {
	name  string
	route int
}

// none stands for a route that is absent.
const none = -1

// Result says how a lookup ended.
type Result uint8

const (
	// Matched means that Match names the route.
	Matched Result = iota
	// UnknownName means that no pattern covers the name.
	UnknownName
	// UnknownProtocol means that a pattern covers the name, but none of its routes takes a protocol offered.
	UnknownProtocol
)

// Match is the route found.
type Match struct {
	// Route is the index of the route in the slice given to New. It means nothing unless the result is Matched.
	Route int
	// Pattern is the key that decided, as normalised at New. It is set for UnknownProtocol too.
	Pattern string
	// Protocol is the protocol that decided; empty when the route is the catch-all of its names.
	Protocol string
}

// Lookup finds the route for name, which is lower case and has no trailing dot, and the protocols offered. It
// allocates nothing.
//
// The name is looked up as it is: whether it is one that a client may send (characters, IP addresses, the length
// of its labels) is for the caller to judge. A name with an empty label, or longer than 253 bytes, is unknown.
func (t *Table) Lookup(name []byte, offered clienthello.Protocols) (Match, Result) {
	k := t.find(name)
	if k == nil {
		return Match{}, UnknownName
	}
	return k.choose(offered)
}

// find returns the strongest pattern that covers name: the one with the longest base, then of the lowest form.
func (t *Table) find(name []byte) *key {
	if t == nil || len(name) > maxNameLen {
		return nil
	}
	if k := t.on(name, nil); k != nil {
		return k
	}
	var best *key
	end := len(name)
	for labels := 1; labels <= t.maxWild; labels++ {
		dot := bytes.LastIndexByte(name[:end], '.')
		if dot <= 0 { // 0 is an empty label before everything, not the base itself
			break
		}
		if t.wild[labels] {
			if k := t.on(name[dot+1:], name[:dot]); k != nil {
				best = k
			}
		}
		end = dot
	}
	return best
}

// on returns the strongest pattern on base that covers the name of the labels covered and base.
func (t *Table) on(base, covered []byte) *key {
	on, ok := t.patterns[string(base)]
	if !ok {
		return nil
	}
	for f, i := range on {
		if i != 0 && form(f).takes(covered) {
			return &t.keys[i-1]
		}
	}
	return nil
}

// choose picks the route of the first protocol offered that a route takes, else the catch-all.
func (k *key) choose(offered clienthello.Protocols) (Match, Result) {
	if len(k.protocols) > 0 {
		for name, rest := offered.Next(); name != nil; name, rest = rest.Next() {
			if i, ok := k.search(name); ok {
				p := k.protocols[i]
				return Match{Route: p.route, Pattern: k.pattern, Protocol: p.name}, Matched
			}
		}
	}
	if k.catchAll == none {
		return Match{Pattern: k.pattern}, UnknownProtocol
	}
	return Match{Route: k.catchAll, Pattern: k.pattern}, Matched
}

// search returns where name is in k.protocols, or would be inserted. It is written out, since the comparisons of
// package slices would have to copy name into a string.
func (k *key) search(name []byte) (i int, ok bool) {
	lo, hi := 0, len(k.protocols)
	for lo < hi {
		mid := int(uint(lo+hi) >> 1)
		if k.protocols[mid].name < string(name) {
			lo = mid + 1
		} else {
			hi = mid
		}
	}
	return lo, lo < len(k.protocols) && k.protocols[lo].name == string(name)
}
