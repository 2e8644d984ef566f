package jsonscan

// State is the scanner's answer about the bytes it has seen so far. Every answer but NeedMore is final.
type State uint8

const (
	// NeedMore means that the bytes so far say nothing yet.
	NeedMore State = iota
	// Found means that at least one wanted member is there: Scanner.Member has them.
	Found
	// Absent means that the document is over and has no wanted member.
	Absent
	// NotJSON means that the bytes can't become a JSON object, as this package reads JSON.
	NotJSON
	// Ambiguous means that two readers of JSON could find different values for a wanted member. Only strict scans say so.
	Ambiguous
	// TooDeep means that arrays and objects are nested deeper than MaxDepth.
	TooDeep
	stateCount
)

var stateNames = [...]string{
	NeedMore: "need_more", Found: "found", Absent: "absent", NotJSON: "not_json", Ambiguous: "ambiguous", TooDeep: "too_deep",
}

// A state without a name doesn't compile: this index would be out of range.
var _ = [1]struct{}{}[len(stateNames)-int(stateCount)]

// String returns the name of the state, such as "not_json".
func (s State) String() string { return nameOf(stateNames[:], int(s)) }

// Reason says why the state is NotJSON, Ambiguous or TooDeep. The set is closed.
type Reason uint8

const (
	// NoReason is the reason of all other states.
	NoReason Reason = iota
	// Empty (NotJSON): the input ended, and nothing but white space came.
	Empty
	// NotObject (NotJSON): the document begins as another value than an object, or as none.
	NotObject
	// BOM (NotJSON): the input begins as a byte order mark does.
	BOM
	// Syntax (NotJSON): a byte that the grammar of RFC 8259 doesn't have there.
	Syntax
	// Control (NotJSON): a control character in a string that is not escaped.
	Control
	// Encoding (NotJSON): a string that is not UTF-8.
	Encoding
	// Surrogate (NotJSON): an escape for one half of a surrogate pair without the other.
	Surrogate
	// Trailing (NotJSON): more than white space behind the document.
	Trailing
	// Truncated (NotJSON): the input ended within the document.
	Truncated
	// Duplicate (Ambiguous): a wanted name comes twice.
	Duplicate
	// Alike (Ambiguous): a name that some readers take for a wanted one: it differs by case, - and _ alone, or has a NUL behind
	// it. Also one that is too long to keep, of which the beginning is so, with much - and _ in it.
	Alike
	// Depth (TooDeep): the only reason of that state.
	Depth
	reasonCount
)

var reasonNames = [...]string{
	NoReason: "none", Empty: "empty", NotObject: "not_object", BOM: "bom", Syntax: "syntax", Control: "control",
	Encoding: "encoding", Surrogate: "surrogate", Trailing: "trailing", Truncated: "truncated", Duplicate: "duplicate",
	Alike: "alike", Depth: "depth",
}

var _ = [1]struct{}{}[len(reasonNames)-int(reasonCount)]

// String returns the name of the reason, such as "truncated"; "none" for NoReason.
func (r Reason) String() string { return nameOf(reasonNames[:], int(r)) }

// Kind is the kind of a value.
type Kind uint8

const (
	// None is the kind of a member that is not there.
	None Kind = iota
	// String has its decoded text.
	String
	// Number has its literal, as it stands in the document.
	Number
	// Bool has the text "true" or "false".
	Bool
	// Null has no text.
	Null
	// Object has no text.
	Object
	// Array has no text.
	Array
	kindCount
)

var kindNames = [...]string{
	None: "none", String: "string", Number: "number", Bool: "bool", Null: "null", Object: "object", Array: "array",
}

var _ = [1]struct{}{}[len(kindNames)-int(kindCount)]

// String returns the name of the kind, such as "string"; "none" for None.
func (k Kind) String() string { return nameOf(kindNames[:], int(k)) }

// Unfit says why the text of a member can't be the value of a header.
type Unfit uint8

const (
	// Fit means that it can, also when there is no text.
	Fit Unfit = iota
	// TooLong means that the text is longer than Options.MaxValue.
	TooLong
	// ControlChars means that the text has a control character: CR, LF and NUL as well as tab and DEL.
	ControlChars
	// NonASCII means that the text has a byte above 0x7e, which some readers of headers take for Latin-1.
	NonASCII
	// EdgeSpace means that the text begins or ends with a space, which a reader of headers removes.
	EdgeSpace
	unfitCount
)

var unfitNames = [...]string{
	Fit: "fit", TooLong: "too_long", ControlChars: "control_chars", NonASCII: "non_ascii", EdgeSpace: "edge_space",
}

var _ = [1]struct{}{}[len(unfitNames)-int(unfitCount)]

// String returns the name of the reason, such as "too_long"; "fit" for Fit.
func (u Unfit) String() string { return nameOf(unfitNames[:], int(u)) }

func nameOf(names []string, i int) string {
	if i >= len(names) {
		return "invalid"
	}
	return names[i]
}

// unfit judges a text that is not too long. What it finds first is what stands first in the list of reasons.
func unfit(text []byte) Unfit {
	high := false
	for _, c := range text {
		if c < ' ' || c == 0x7f {
			return ControlChars
		}
		high = high || c > 0x7f
	}
	switch {
	case high:
		return NonASCII
	case len(text) > 0 && (text[0] == ' ' || text[len(text)-1] == ' '):
		return EdgeSpace
	}
	return Fit
}
