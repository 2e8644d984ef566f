package netguard

import (
	"fmt"
	"net/netip"
	"strings"
)

// Mode says which addresses are checked.
type Mode uint8

const (
	// DNS checks the addresses that a name resolved to, and whatever a client chose. An IP literal that the operator
	// wrote is his choice. It is the default.
	DNS Mode = iota
	// Strict checks every address.
	Strict
	// Off checks nothing.
	Off
)

// modeNames has a name for each mode.
var modeNames = [...]string{DNS: "dns", Strict: "strict", Off: "off"}

// ParseMode returns the mode of that name, and whether there is one.
func ParseMode(name string) (Mode, bool) {
	for mode, n := range modeNames {
		if n == name {
			return Mode(mode), true
		}
	}
	return DNS, false
}

// String returns the name of the mode; "unknown" for a value that is no mode.
func (m Mode) String() string {
	if int(m) >= len(modeNames) {
		return "unknown"
	}
	return modeNames[m]
}

// MarshalText returns the name of the mode.
func (m Mode) MarshalText() ([]byte, error) {
	if int(m) >= len(modeNames) {
		return nil, fmt.Errorf("guard mode %d is not known", m)
	}
	return []byte(modeNames[m]), nil
}

// UnmarshalText takes the name of a mode.
func (m *Mode) UnmarshalText(text []byte) error {
	mode, ok := ParseMode(string(text))
	if !ok {
		return fmt.Errorf("guard mode %q is not known; must be one of %s", text, strings.Join(modeNames[:], ", "))
	}
	*m = mode
	return nil
}

// Checks says whether an address has to be checked. literal means that the operator wrote the address itself, not a
// name that resolved to it, and that no client had a part in it. A value that is no mode checks everything.
func (m Mode) Checks(literal bool) bool {
	switch m {
	case DNS:
		return !literal
	case Off:
		return false
	}
	return true
}

// Refused is the error for an address that must not be dialled.
type Refused struct {
	// Name is what the address was found by. It may be the address itself.
	Name string
	// Addr is the address that was refused; if a name has several of them, the first.
	Addr netip.Addr
	// Class says why.
	Class Class
}

// Error names the address and its class, and the setting that would have let it pass.
func (r *Refused) Error() string {
	where := r.Addr.String()
	if r.Name != where {
		where = fmt.Sprintf("%q at %s", r.Name, where)
	}
	return fmt.Sprintf("refusing %s: the address is %s (allow_private would permit it)", where, r.Class)
}

// Check judges the addresses that a name resolved to. One that is not Public refuses the name: then the error is a
// *Refused, else there is none.
func Check(name string, addrs []netip.Addr) error {
	for _, addr := range addrs {
		if class := Classify(addr); class != Public {
			return &Refused{Name: name, Addr: addr, Class: class}
		}
	}
	return nil
}
