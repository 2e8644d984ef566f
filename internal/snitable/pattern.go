package snitable

import (
	"bytes"
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"unicode/utf8"

	"golang.org/x/net/idna"
)

// What can be wrong with one pattern.
var (
	// ErrPattern means a pattern of the wrong shape or with a character that no host name has.
	ErrPattern = errors.New("invalid pattern")
	// ErrIPLiteral means an IP address, which can't be a server name (RFC 6066 §3).
	ErrIPLiteral = errors.New("an IP address is not a server name")
	// ErrTooLong means a pattern that no name of legal length (RFC 1035 §2.3.4) can match.
	ErrTooLong = errors.New("too long")
)

const (
	maxNameLen  = 253 // 255 bytes on the wire (RFC 1035 §2.3.4), less the first length byte and the root label
	maxLabelLen = 63  // RFC 1035 §2.3.4
	maxLabels   = 127 // the labels of a name of maxNameLen bytes, when each is one byte long
)

// form is the kind of a pattern. For one base, the lower form beats the higher.
type form uint8

const (
	exact form = iota // a.b: the base itself
	one               // *.a.b: one label before the base
	many              // **.a.b: one label or more
	tree              // .a.b: the base itself and everything below
	numForms
)

// prefix returns what the form puts before the base.
func (f form) prefix() string { return [numForms]string{one: "*.", many: "**.", tree: "."}[f] }

// takes says whether the form covers a name that has the labels of covered, without the dot behind them, before its
// base. A name with an empty label among them is covered by no form.
func (f form) takes(covered []byte) bool {
	if len(covered) == 0 {
		return f == exact || f == tree
	}
	switch f {
	case one:
		return bytes.IndexByte(covered, '.') < 0
	case many, tree:
		return covered[0] != '.' && covered[len(covered)-1] != '.' && !bytes.Contains(covered, []byte(".."))
	}
	return false
}

// split cuts a pattern into its form and its base.
func split(pattern string) (f form, base string) {
	for f := one; f < numForms; f++ {
		if base, ok := strings.CutPrefix(pattern, f.prefix()); ok {
			return f, base
		}
	}
	return exact, pattern
}

// Normalize checks a pattern and returns it as the table keeps it: lower case, with A-labels (RFC 5890 §2.3.2.1) in
// place of Unicode. Its errors wrap ErrPattern, ErrIPLiteral or ErrTooLong.
func Normalize(pattern string) (string, error) {
	switch pattern {
	case "":
		return "", fmt.Errorf("%w: it is empty", ErrPattern)
	case "*", "**", ".", "*.", "**.":
		return "", fmt.Errorf("%w: a wildcard needs a name behind it", ErrPattern)
	}
	f, raw := split(pattern)
	base, err := toASCII(raw)
	if err != nil {
		return "", err
	}
	if isIP(base) {
		return "", ErrIPLiteral
	}
	if err := checkBase(f, base); err != nil {
		return "", err
	}
	return f.prefix() + base, nil
}

// toASCII returns name in lower case and A-labels. Nothing that is ASCII already is judged: names with an underscore,
// or with hyphens where IDNA wants none, are in use.
func toASCII(name string) (string, error) {
	// A name of maxNameLen bytes holds no more runes than that; the limit keeps Punycode's quadratic cost away.
	if len(name) > maxNameLen*utf8.UTFMax {
		return "", fmt.Errorf("%w: %d bytes, a name has at most %d", ErrTooLong, len(name), maxNameLen)
	}
	if isASCII(name) {
		return strings.ToLower(name), nil
	}
	if strings.ContainsRune(name, utf8.RuneError) { // invalid UTF-8, or what a JSON decoder makes of it
		return "", fmt.Errorf("%w: it is not UTF-8", ErrPattern)
	}
	profile := idna.New(idna.MapForLookup(), idna.BidiRule(), idna.StrictDomainName(false), idna.CheckHyphens(false))
	ascii, err := profile.ToASCII(name)
	if err != nil {
		return "", fmt.Errorf("%w: %w", ErrPattern, err)
	}
	return ascii, nil
}

func isASCII(s string) bool {
	for i := range len(s) {
		if s[i] >= utf8.RuneSelf {
			return false
		}
	}
	return true
}

// isIP says whether s is an IP address, in brackets or not.
func isIP(s string) bool {
	if strings.HasPrefix(s, "[") && strings.HasSuffix(s, "]") {
		s = s[1 : len(s)-1]
	}
	_, err := netip.ParseAddr(s)
	return err == nil
}

// checkBase judges the base of a pattern after its conversion.
func checkBase(f form, base string) error {
	for label := range strings.SplitSeq(base, ".") {
		if err := checkLabel(label); err != nil {
			return err
		}
	}
	limit := maxNameLen
	if f == one || f == many {
		limit -= len("x.") // the shortest name covered is longer than the base
	}
	if len(base) > limit {
		return fmt.Errorf("%w: %d bytes without the wildcard, at most %d", ErrTooLong, len(base), limit)
	}
	return nil
}

func checkLabel(label string) error {
	if label == "" {
		return fmt.Errorf("%w: empty label (a dot too many)", ErrPattern)
	}
	for _, c := range []byte(label) {
		if c == '*' {
			return fmt.Errorf("%w: a * is only allowed in a leading *. or **.", ErrPattern)
		}
		if !isNameByte(c) {
			return fmt.Errorf("%w: character %q; a name has letters, digits, '-', '_' and dots", ErrPattern, c)
		}
	}
	if len(label) > maxLabelLen {
		return fmt.Errorf("%w: label of %d bytes, at most %d", ErrTooLong, len(label), maxLabelLen)
	}
	return nil
}

// isNameByte says whether c may stand in a label, lower-cased.
func isNameByte(c byte) bool {
	return 'a' <= c && c <= 'z' || '0' <= c && c <= '9' || c == '-' || c == '_'
}

// Covers says whether pattern, as Normalize returns it, covers name, which is lower case and has no trailing dot. The
// name may be a wildcard as in a certificate (*.example.com): then the answer is whether some name under that
// wildcard is covered.
func Covers(pattern, name string) bool {
	f, base := split(pattern)
	if covered, ok := above(name, base); ok && f.takes(covered) {
		return true
	}
	parent, wild := strings.CutPrefix(name, "*.")
	if !wild || !f.takes(nil) {
		return false
	}
	// The base is itself a name that the pattern covers; it may lie right under the wildcard.
	covered, ok := above(base, parent)
	return ok && one.takes(covered)
}

// above returns the labels of name before base, if name is base or below it.
func above(name, base string) (covered []byte, ok bool) {
	rest, ok := strings.CutSuffix(name, base)
	if !ok || rest == "" {
		return nil, ok
	}
	rest, ok = strings.CutSuffix(rest, ".")
	return []byte(rest), ok && rest != ""
}
