package jsonfield

import (
	"cmp"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/caddy-sluice/sluice/httpfilters/pipeline"
	"github.com/caddy-sluice/sluice/internal/jsonscan"
)

// statusKey is the key of the result that says what was found.
const statusKey = "status"

// The values of the result.
const (
	statusFound     = "found"
	statusMissing   = "missing"
	statusInvalid   = "invalid"
	statusAmbiguous = "ambiguous"
	statusEmpty     = "empty"
	statusEncoded   = "encoded"
	statusLimit     = "limit"
)

// refuse sets the result and refuses the body.
func refuse(x *pipeline.Exchange, result string, r *pipeline.Rejection) error {
	if err := x.Set(statusKey, result); err != nil {
		return err
	}
	return r
}

// judge does what is to be done once it is known what the body is.
func (f *Filter) judge(x *pipeline.Exchange, s *scan, state jsonscan.State) error {
	switch {
	case state == jsonscan.Found:
		return f.promote(x, s)
	case state == jsonscan.Absent:
		return f.missing(x, s)
	case s.Reason() == jsonscan.Empty && s.length == 0:
		return x.Set(statusKey, statusEmpty)
	case f.Strict == on && s.ambiguous():
		err := fmt.Errorf("the body could be read in several ways: %s at byte %d", s.Reason(), s.Offset())
		return refuse(x, statusAmbiguous, pipeline.Reject(http.StatusBadRequest, err))
	case f.OnInvalid == reject, f.Strict == on && s.broken():
		err := fmt.Errorf("the body is no JSON object: %s at byte %d", s.Reason(), s.Offset())
		return refuse(x, statusInvalid, pipeline.Reject(http.StatusBadRequest, err))
	}
	return x.Set(statusKey, statusInvalid)
}

// promote sets the headers of the members.
func (f *Filter) promote(x *pipeline.Exchange, s *scan) error {
	all := true
	for i := range f.Fields {
		m := s.Member(i)
		if m.Text == nil {
			all = false
			continue
		}
		x.Request().Header[f.Fields[i].Header] = []string{string(m.Text)}
	}
	if !all {
		return f.missing(x, s)
	}
	return x.Set(statusKey, statusFound)
}

// missing does what is to be done if a member is missing.
func (f *Filter) missing(x *pipeline.Exchange, s *scan) error {
	if f.OnMissing == reject {
		return refuse(x, statusMissing, pipeline.Reject(http.StatusBadRequest, f.lack(s)))
	}
	return x.Set(statusKey, statusMissing)
}

// lack says which member is missing, the first in the order of the fields, and why. It says nothing of what clients send.
func (f *Filter) lack(s *scan) error {
	for i := range f.Fields {
		m := s.Member(i)
		if m.Text == nil {
			return fmt.Errorf("the member %q %s", f.Fields[i].Field, f.why(m))
		}
	}
	return errors.New("a member is missing")
}

// why says why a member that has no text has none.
func (f *Filter) why(m jsonscan.Member) string {
	switch m.Unfit {
	case jsonscan.TooLong:
		return fmt.Sprintf("is longer than %d bytes", cmp.Or(f.MaxValue, jsonscan.DefaultMaxValue))
	case jsonscan.ControlChars:
		return "has a control character"
	case jsonscan.NonASCII:
		return "has a character beyond ASCII"
	case jsonscan.EdgeSpace:
		return "has a space at an end"
	}
	switch m.Kind {
	case jsonscan.Null:
		return "is null, no text"
	case jsonscan.Object:
		return "is an object, no text"
	case jsonscan.Array:
		return "is an array, no text"
	}
	return "is missing"
}

// tooLong does what is to be done with a body that is too long.
func (f *Filter) tooLong(x *pipeline.Exchange) error {
	if f.OnLimit == reject {
		return refuse(x, statusLimit, pipeline.Reject(http.StatusRequestEntityTooLarge, pipeline.ErrTooLarge))
	}
	return x.Set(statusKey, statusLimit)
}

// RequestTooLarge implements pipeline.TooLargeFilter.
func (f *Filter) RequestTooLarge(x *pipeline.Exchange) {
	_ = x.Set(statusKey, statusLimit) // which is always fit for a result
}

// encoded does what is to be done with a body that can't be read as it is.
func (f *Filter) encoded(x *pipeline.Exchange) error {
	if f.Strict == off {
		return x.Set(statusKey, statusEncoded)
	}
	r := pipeline.Reject(http.StatusUnsupportedMediaType, errors.New("the body is compressed"))
	r.Header = http.Header{"Accept-Encoding": {"identity"}} // RFC 9110 section 15.5.16
	return refuse(x, statusEncoded, r)
}

// foreign does what is to be done with a body that is other text to who heeds its charset.
func (f *Filter) foreign(x *pipeline.Exchange) error {
	err := errors.New("the body could be read in several ways: the charset in Content-Type is not utf-8")
	return refuse(x, statusAmbiguous, pipeline.Reject(http.StatusBadRequest, err))
}

// ambiguous reports whether a body that is refused is something else to another reader.
func (s *scan) ambiguous() bool {
	switch s.Reason() {
	case jsonscan.Duplicate, jsonscan.Alike, jsonscan.BOM, jsonscan.Encoding, jsonscan.Surrogate:
		return true
	case jsonscan.NotObject:
		return passedOver(s.first)
	}
	return false
}

// passedOver reports whether no value begins with a byte, in JSON or in its dialects, so that a reader who finds an object
// behind it has passed over it: a comment, white space of another kind, the prefix )]}' that Gson skips, another bracket, a
// separator. With letters, quotes and [ a value does begin, which is what readers take. Nor are the signs here with which
// forms, XML and multipart bodies begin.
func passedOver(first byte) bool {
	return first < ' ' || first >= 0x7f || strings.IndexByte("/#()]},;:", first) >= 0
}

// broken reports whether a body begins like an object, and isn't one: some readers may take it for one all the same.
func (s *scan) broken() bool {
	return s.Reason() != jsonscan.Empty && s.Reason() != jsonscan.NotObject
}
