package snitable

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// What can be wrong with a route, besides its patterns.
var (
	// ErrNoNames means a route without names.
	ErrNoNames = errors.New("names is empty")
	// ErrProtocol means a protocol name that ALPN can't carry (RFC 7301 §3.1).
	ErrProtocol = errors.New("invalid protocol")
	// ErrDuplicate means a name or a protocol that stands twice in one route.
	ErrDuplicate = errors.New("listed twice in this route")
	// ErrOverlap means a protocol that two routes take for one pattern.
	ErrOverlap = errors.New("overlap")
	// ErrCatchAlls means two routes without protocols for one pattern.
	ErrCatchAlls = errors.New("second catch-all")
)

// maxProtocolLen is what the one length byte of a protocol name can say (RFC 7301 §3.1).
const maxProtocolLen = 255

// New checks routes and builds the table. It keeps nothing of the slices. Its error tells of the first fault found,
// names the route by its index, and wraps one of the sentinel errors of this package.
func New(routes []Route) (*Table, error) {
	names := 0
	for i := range routes {
		names += len(routes[i].Names)
	}
	t := &Table{patterns: make(map[string]patterns, names), keys: make([]key, 0, names)}
	for i := range routes {
		if err := t.addRoute(i, &routes[i]); err != nil {
			return nil, fmt.Errorf("route %d: %w", i, err)
		}
	}
	return t, nil
}

func (t *Table) addRoute(route int, r *Route) error {
	if len(r.Names) == 0 {
		return ErrNoNames
	}
	protocols, err := sortProtocols(route, r.ALPN)
	if err != nil {
		return err
	}
	for _, name := range r.Names {
		pattern, err := Normalize(name)
		if err == nil {
			err = t.key(pattern).add(route, protocols)
		}
		if err != nil {
			return fmt.Errorf("name %q: %w", name, err)
		}
	}
	return nil
}

// sortProtocols checks the protocols of a route and returns them in the order of key.protocols, without spare
// capacity: the keys of a route share the slice, and grow copies of it.
func sortProtocols(route int, alpn []string) ([]protocol, error) {
	var k key
	for _, name := range alpn {
		if len(name) == 0 || len(name) > maxProtocolLen {
			return nil, fmt.Errorf("alpn %q: %w: %d bytes, must be 1 to %d", name, ErrProtocol, len(name), maxProtocolLen)
		}
		i, found := k.search([]byte(name))
		if found {
			return nil, fmt.Errorf("alpn %q: %w", name, ErrDuplicate)
		}
		k.protocols = slices.Insert(k.protocols, i, protocol{name, route})
	}
	return slices.Clip(k.protocols), nil
}

// key returns the key of a normalised pattern, a new one if there is none.
func (t *Table) key(pattern string) *key {
	f, base := split(pattern)
	on := t.patterns[base]
	if on[f] == 0 {
		t.addKey(f, pattern)
		on = t.patterns[base]
	}
	return &t.keys[on[f]-1]
}

// addKey copies pattern, so that the keys' text lies together and holds no config in memory.
func (t *Table) addKey(f form, pattern string) {
	k := key{pattern: strings.Clone(pattern), catchAll: none}
	t.keys = append(t.keys, k)
	_, base := split(k.pattern)
	on := t.patterns[base]
	on[f] = uint32(len(t.keys))
	t.patterns[base] = on
	if f != exact {
		labels := 1 + strings.Count(base, ".")
		t.wild[labels] = true
		t.maxWild = max(t.maxWild, labels)
	}
}

// add gives k a route with its protocols.
func (k *key) add(route int, protocols []protocol) error {
	if len(protocols) == 0 {
		return k.addCatchAll(route)
	}
	if k.protocols == nil {
		k.protocols = protocols
		return nil
	}
	for _, p := range protocols {
		i, found := k.search([]byte(p.name))
		if found {
			return k.overlap(k.protocols[i], route)
		}
		k.protocols = slices.Insert(k.protocols, i, p)
	}
	return nil
}

func (k *key) addCatchAll(route int) error {
	switch k.catchAll {
	case none:
		k.catchAll = route
		return nil
	case route:
		return ErrDuplicate
	}
	return fmt.Errorf("%w: route %d has no alpn for %q either", ErrCatchAlls, k.catchAll, k.pattern)
}

// overlap tells of a protocol that k has already. When it is from the same route, the route lists the pattern twice.
func (k *key) overlap(p protocol, route int) error {
	if p.route == route {
		return ErrDuplicate
	}
	return fmt.Errorf("%w: route %d takes protocol %q for %q already", ErrOverlap, p.route, p.name, k.pattern)
}
