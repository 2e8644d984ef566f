package snitable

import (
	"errors"
	"fmt"
	"hash/maphash"
	"slices"
	"strings"
)

// What can be wrong with a route, besides its patterns.
var (
	// ErrNoNames means a route without names.
	ErrNoNames = errors.New("needs at least one name")
	// ErrProtocol means a protocol name that ALPN can't carry (RFC 7301 §3.1).
	ErrProtocol = errors.New("invalid protocol")
	// ErrDuplicate means a name or a protocol that stands twice in one route.
	ErrDuplicate = errors.New("is listed twice in this route")
	// ErrOverlap means a protocol that two routes take for one pattern.
	ErrOverlap = errors.New("has another route for a protocol")
	// ErrCatchAlls means two routes without protocols for one pattern.
	ErrCatchAlls = errors.New("has another catch-all")
)

// maxProtocolLen is what the one length byte of a protocol name can say (RFC 7301 §3.1).
const maxProtocolLen = 255

// New checks routes and builds the table. It keeps nothing of the slices. Its error tells of the first fault found,
// names the route by its index, and wraps one of the sentinel errors of this package.
func New(routes []Route) (*Table, error) {
	d := draft{byPattern: make(map[string]int)}
	for i := range routes {
		if err := d.addRoute(i, &routes[i]); err != nil {
			return nil, fmt.Errorf("routes[%d].%w", i, err)
		}
	}
	return d.table(), nil
}

// draft is a table that still grows.
type draft struct {
	keys      []draftKey
	byPattern map[string]int // index in keys
}

type draftKey struct {
	pattern   string
	protocols []protocol // sorted by name
	catchAll  int
}

func (d *draft) addRoute(route int, r *Route) error {
	if len(r.Names) == 0 {
		return fmt.Errorf("names: %w", ErrNoNames)
	}
	protocols, err := sortProtocols(route, r.ALPN)
	if err != nil {
		return err
	}
	for _, name := range r.Names {
		pattern, err := Normalize(name)
		if err == nil {
			err = d.key(pattern).add(route, protocols)
		}
		if err != nil {
			return fmt.Errorf("names: %q: %w", name, err)
		}
	}
	return nil
}

// sortProtocols checks the protocols of a route and sorts them. The slice has no spare capacity: all keys of the
// route begin with it, and make a copy when they insert.
func sortProtocols(route int, alpn []string) ([]protocol, error) {
	var sorted []protocol
	for _, name := range alpn {
		if len(name) == 0 || len(name) > maxProtocolLen {
			return nil, fmt.Errorf("alpn: %q: %w: %d bytes, must be 1 to %d", name, ErrProtocol, len(name), maxProtocolLen)
		}
		i, found := search(sorted, []byte(name))
		if found {
			return nil, fmt.Errorf("alpn: %q: %w", name, ErrDuplicate)
		}
		sorted = slices.Insert(sorted, i, protocol{name, int32(route)})
	}
	return slices.Clip(sorted), nil
}

// key returns the key of a normalised pattern, a new one if there is none.
func (d *draft) key(pattern string) *draftKey {
	i, found := d.byPattern[pattern]
	if !found {
		i = len(d.keys)
		d.byPattern[pattern] = i
		d.keys = append(d.keys, draftKey{pattern: pattern, catchAll: none})
	}
	return &d.keys[i]
}

// add gives k a route with its protocols.
func (k *draftKey) add(route int, protocols []protocol) error {
	if len(protocols) == 0 {
		return k.addCatchAll(route)
	}
	if k.protocols == nil {
		k.protocols = protocols
		return nil
	}
	for _, p := range protocols {
		i, found := search(k.protocols, []byte(p.name))
		if found {
			return k.overlap(k.protocols[i], route)
		}
		k.protocols = slices.Insert(k.protocols, i, p)
	}
	return nil
}

func (k *draftKey) addCatchAll(route int) error {
	switch k.catchAll {
	case none:
		k.catchAll = route
		return nil
	case route:
		return ErrDuplicate
	}
	return fmt.Errorf("%w: route %d takes %q without alpn, too", ErrCatchAlls, k.catchAll, k.pattern)
}

// overlap tells of a protocol that k has already. When it is from the same route, the route lists the pattern twice.
func (k *draftKey) overlap(p protocol, route int) error {
	if int(p.route) == route {
		return ErrDuplicate
	}
	return fmt.Errorf("%w: route %d takes %q with %q, too", ErrOverlap, p.route, k.pattern, p.name)
}

// table lays the draft out for lookups. All patterns go into one string, and each protocol name is there once: the
// config's own strings are spread over the heap.
func (d *draft) table() *Table {
	var text strings.Builder
	for i := range d.keys {
		text.WriteString(d.keys[i].pattern)
	}
	size := 1
	for size < 2*len(d.keys) {
		size *= 2
	}
	t := &Table{seed: maphash.MakeSeed(), slots: make([]slot, size), keys: make([]key, 0, len(d.keys))}
	names := make(map[string]string)
	rest := text.String()
	for i := range d.keys {
		k := d.keys[i]
		k.pattern, rest = rest[:len(k.pattern)], rest[len(k.pattern):]
		t.add(&k, names)
	}
	return t
}

// add appends a key. Protocol names are taken from names, which grows.
func (t *Table) add(d *draftKey, names map[string]string) {
	f, base := split(d.pattern)
	k := key{pattern: d.pattern, form: f, catchAll: int32(d.catchAll), from: uint32(len(t.protocols))}
	for _, p := range d.protocols {
		name, known := names[p.name]
		if !known {
			name = strings.Clone(p.name)
			names[name] = name
		}
		t.protocols = append(t.protocols, protocol{name, p.route})
	}
	k.to = uint32(len(t.protocols))
	t.keys = append(t.keys, k)
	t.insert(base)
	if f != exact {
		labels := 1 + strings.Count(base, ".")
		t.wild[labels] = true
		t.maxWild = max(t.maxWild, labels)
	}
}

// insert puts the last key into the first free slot for its base.
func (t *Table) insert(base string) {
	place, tag := t.place(maphash.String(t.seed, base))
	for t.slots[place].key != 0 {
		place = t.after(place)
	}
	t.slots[place] = slot{tag: tag, key: uint32(len(t.keys))}
}
