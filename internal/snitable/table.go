// Package snitable finds the route for a server name and the protocols that a client offers.
//
// A pattern is a form (exact, *., **. or .) and a base, the name behind it. One hash table from bases to patterns
// answers a lookup: it is asked for the name, and for each suffix of the name that has as many labels as some
// wildcard's base. The pattern found decides alone; which of its routes is taken depends on the protocols.
package snitable

import (
	"bytes"
	"hash/maphash"

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
//
// What a lookup costs in a large table is the memory it touches, so the layout is flat and small: about 100
// bytes for a pattern of 20 with a protocol of its own.
type Table struct {
	seed maphash.Seed // random, so that no client can know which names collide
	// slots is a hash table of the keys by base, with linear probing. Its length is a power of two, and at least
	// half of it is empty.
	slots     []slot
	keys      []key
	protocols []protocol
	// wild says for each number of labels whether some wildcard's base has that many. It spares most suffixes of
	// a name, above all of a very deep one, the search.
	wild    [maxLabels + 1]bool
	maxWild int // the highest index set in wild
}

// slot refers to a key. Patterns of several forms on one base have slots of their own.
type slot struct {
	tag uint32 // the half of the base's hash that doesn't choose the place
	key uint32 // 1 + index in Table.keys; 0 is an empty slot
}

// key is one pattern with its routes.
type key struct {
	pattern  string
	from, to uint32 // its part of Table.protocols, sorted by name
	catchAll int32  // the route without protocols, or none
	form     form
}

// protocol is a protocol name and the route that takes it.
type protocol struct {
	name  string
	route int32
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
	protocols := t.protocols[k.from:k.to]
	if len(protocols) > 0 {
		for name, rest := offered.Next(); name != nil; name, rest = rest.Next() {
			if i, ok := search(protocols, name); ok {
				p := &protocols[i]
				return Match{Route: int(p.route), Pattern: k.pattern, Protocol: p.name}, Matched
			}
		}
	}
	if k.catchAll == none {
		return Match{Pattern: k.pattern}, UnknownProtocol
	}
	return Match{Route: int(k.catchAll), Pattern: k.pattern}, Matched
}

// find returns the strongest pattern that covers name: the one with the longest base, then of the lowest form.
func (t *Table) find(name []byte) *key {
	if t == nil || len(t.slots) == 0 || len(name) > maxNameLen {
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
	var best *key
	place, tag := t.place(maphash.Bytes(t.seed, base))
	for ; t.slots[place].key != 0; place = t.after(place) {
		if t.slots[place].tag != tag {
			continue
		}
		k := &t.keys[t.slots[place].key-1]
		if k.base() != string(base) || !k.form.takes(covered) {
			continue
		}
		if best == nil || k.form < best.form {
			best = k
		}
	}
	return best
}

// place returns the slot where the probing for a hash begins, and the tag to look for.
func (t *Table) place(hash uint64) (place int, tag uint32) {
	return int(hash & uint64(len(t.slots)-1)), uint32(hash >> 32)
}

// after returns the slot behind another one.
func (t *Table) after(place int) int { return (place + 1) & (len(t.slots) - 1) }

// base returns the name behind the wildcard.
func (k *key) base() string { return k.pattern[len(k.form.prefix()):] }

// search returns where name is in protocols, or would be inserted. It is written out, since the comparisons of
// package slices would have to copy name into a string.
func search(protocols []protocol, name []byte) (i int, ok bool) {
	lo, hi := 0, len(protocols)
	for lo < hi {
		mid := int(uint(lo+hi) >> 1)
		if protocols[mid].name < string(name) {
			lo = mid + 1
		} else {
			hi = mid
		}
	}
	return lo, lo < len(protocols) && protocols[lo].name == string(name)
}
