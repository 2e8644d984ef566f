package jsonscan

import (
	"bytes"
	"fmt"
	"unicode/utf8"
)

const (
	// MaxNames is the most members that one scan finds. A request has a handful of fields that say where it should go.
	MaxNames = 16
	// MaxName is the longest name of a wanted member, in bytes. Names in the APIs of this world have some ten.
	MaxName = 128
	// DefaultMaxValue is the longest text of a member, in bytes, when Options don't say. Names of models and tenants
	// are shorter than 100; four times as much still fits into any server's limit for headers.
	DefaultMaxValue = 256
	// MaxMaxValue is the most that Options.MaxValue may be. Servers commonly take 8 KiB for all headers.
	MaxMaxValue = 4096
	// foldGrowth is by how much a name may be longer, in bytes, than one from which it differs by case alone: k is one
	// byte, the Kelvin sign three.
	foldGrowth = 3
	// padding is how much more a name may be longer for the - and _ in it that some readers pass over. Names have a few.
	padding = 64
)

// Options say what to look for.
type Options struct {
	// Names are the names of the wanted members, without escapes and without a NUL: at least one, at most MaxNames.
	Names []string
	// Strict is to read to the end, and to refuse what two readers could understand differently.
	Strict bool
	// MaxValue is the longest text of a member in bytes, from 1 to MaxMaxValue. 0 means DefaultMaxValue.
	MaxValue int
}

// Query is what to look for, checked. It is never changed, and many scanners may share it.
type Query struct {
	names    [][]byte
	strict   bool
	maxValue int
	// maxName is the longest decoded name that is worth keeping.
	maxName int
}

// NewQuery checks options. Its errors name what is wrong, but not the field of the configuration that it came from.
func NewQuery(o Options) (*Query, error) {
	q := &Query{strict: o.Strict, maxValue: o.MaxValue}
	if q.maxValue == 0 {
		q.maxValue = DefaultMaxValue
	}
	if q.maxValue < 1 || q.maxValue > MaxMaxValue {
		return nil, fmt.Errorf("longest value %d is not from 1 to %d", o.MaxValue, MaxMaxValue)
	}
	if len(o.Names) == 0 || len(o.Names) > MaxNames {
		return nil, fmt.Errorf("%d names are not from 1 to %d", len(o.Names), MaxNames)
	}
	for _, name := range o.Names {
		if err := q.add(name); err != nil {
			return nil, err
		}
	}
	return q, nil
}

// add takes one more name.
func (q *Query) add(name string) error {
	if len(name) > MaxName {
		return fmt.Errorf("name %q has %d bytes, more than %d", name, len(name), MaxName)
	}
	if !utf8.ValidString(name) {
		return fmt.Errorf("name %q is not UTF-8", name)
	}
	wanted := []byte(name)
	if bytes.IndexByte(wanted, 0) >= 0 {
		return fmt.Errorf("name %q has a NUL, behind which some readers don't look", name)
	}
	for _, other := range q.names {
		if bytes.Equal(wanted, other) {
			return fmt.Errorf("name %q is given twice", name)
		}
		if q.strict && alike(wanted, other, false) {
			return fmt.Errorf("names %q and %q are one name to some readers, so that no strict scan can have both", other, name)
		}
	}
	q.names = append(q.names, wanted)
	q.maxName = max(q.maxName, foldGrowth*len(name)+padding+1) // one more for a NUL behind it
	return nil
}

// memory is how much a scan keeps: one name, and one value for each wanted member.
func (q *Query) memory() int { return q.maxName + len(q.names)*q.maxValue }

// alike reports that some readers take a name for another: they don't tell case apart, as encoding/json does not, and pass over
// - and _, as its second version can be told to, or take both tenant_id and tenantId, as protobuf does; or they stop at a NUL,
// as readers written in C may. Of a name that is cut, it is enough that the beginning fits: the rest may be padding.
func alike(name, wanted []byte, cut bool) bool {
	for {
		name, wanted = unpadded(name), unpadded(wanted)
		switch {
		case !utf8.FullRune(name): // over, or cut within a character
			return cut || len(wanted) == 0
		case len(wanted) == 0:
			return name[0] == 0
		}
		_, n := utf8.DecodeRune(name)
		_, m := utf8.DecodeRune(wanted)
		if !bytes.EqualFold(name[:n], wanted[:m]) {
			return false
		}
		name, wanted = name[n:], wanted[m:]
	}
}

// unpadded returns a name without what it begins with that some readers pass over.
func unpadded(name []byte) []byte {
	for len(name) > 0 && (name[0] == '-' || name[0] == '_') {
		name = name[1:]
	}
	return name
}
