// Package jsonfield is the filter `json_field`: it puts members of a JSON object, the body of a request, into headers of
// the request, so that routes can match on them.
package jsonfield

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"

	"github.com/caddyserver/caddy/v2"
	"golang.org/x/net/http/httpguts"

	"github.com/caddy-sluice/sluice/httpfilters/pipeline"
	"github.com/caddy-sluice/sluice/internal/jsonscan"
	"github.com/caddy-sluice/sluice/modules/reserved"
)

// The answers to what an option asks.
const (
	on      = "on"
	off     = "off"
	proceed = "continue"
	reject  = "reject"
)

// maxLimit is the most that a pipeline holds back.
const maxLimit = 64 << 20

func init() {
	caddy.RegisterModule(&Filter{})
}

// Filter is the filter `json_field`. It looks for members of the JSON object that is the body of a request, and sets a
// request header for each: a string without its quotes, a number or a boolean as it stands there. What clients send in
// these headers is removed from every request, also in spellings that some backends take for them, such as `X_Model`. The
// type that a request gives its body doesn't matter. A request without a body goes on, without headers.
//
// The result `status` says what was found: `found`, `missing` (a member is not there, is no text, or can't be the value of
// a header), `invalid` (no JSON object), `empty` (no body), `encoded` (compressed) or `limit` (longer than the limit).
type Filter struct {
	// The members, at most 16.
	Fields []Field `json:"fields,omitempty"`

	// Whether the body is read to its end, and one that another JSON reader could understand differently is refused with
	// 400, a compressed one with 415: `on` or `off`. With `off` the body goes on as soon as all members were there; the
	// first of several with one name counts. Default: `on`.
	Strict string `json:"strict,omitempty"`

	// What to do with a body that is no JSON object: `continue` or `reject`, with 400. Default: `continue`.
	OnInvalid string `json:"on_invalid,omitempty"`

	// What to do if a member is not there, or is nothing that can be the value of a header: `continue` or `reject`, with
	// 400. A request without a body goes on. Default: `continue`.
	OnMissing string `json:"on_missing,omitempty"`

	// What to do with a body that is longer than `limit`: `reject`, with 413, or `continue`, without headers. Default:
	// `reject`.
	OnLimit string `json:"on_limit,omitempty"`

	// How many bytes of a body to look at. It can't be more than what the pipeline holds back; with `on_limit` `continue`
	// it is required, and must be less than that. Range: 1 to 64 MiB. Default: what the pipeline holds back. No
	// placeholders.
	Limit int64 `json:"limit,omitempty"`

	// The longest value in bytes. A longer one counts as missing. Range: 1 to 4096. Default: 256.
	MaxValue int `json:"max_value,omitempty"`

	query *jsonscan.Query
}

// Field is a member and its header.
type Field struct {
	// The name of the member, as it is when escapes are resolved.
	Field string `json:"field"`

	// The name of the request header.
	Header string `json:"header"`
}

// CaddyModule returns the Caddy module information.
func (*Filter) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{
		ID:  "http.filters.json_field",
		New: func() caddy.Module { return new(Filter) },
	}
}

// Provision checks the settings and sets the defaults.
func (f *Filter) Provision(caddy.Context) error {
	for _, option := range []struct {
		name              string
		value             *string
		standard, another string
	}{
		{"strict", &f.Strict, on, off},
		{"on_invalid", &f.OnInvalid, proceed, reject},
		{"on_missing", &f.OnMissing, proceed, reject},
		{"on_limit", &f.OnLimit, reject, proceed},
	} {
		switch *option.value {
		case "":
			*option.value = option.standard
		case option.standard, option.another:
		default:
			return fmt.Errorf("%s: %q is not known; must be one of %s, %s", option.name, *option.value, option.standard, option.another)
		}
	}
	if f.Limit < 0 || f.Limit > maxLimit {
		return fmt.Errorf("limit: %d is out of range, 1 to %d (64MiB)", f.Limit, maxLimit)
	}
	if f.OnLimit == proceed && f.Limit == 0 {
		return fmt.Errorf("limit: missing; on_limit %s needs it", proceed)
	}
	if f.MaxValue < 0 || f.MaxValue > jsonscan.MaxMaxValue {
		return fmt.Errorf("max_value: %d is out of range, 1 to %d", f.MaxValue, jsonscan.MaxMaxValue)
	}
	return f.provisionFields()
}

// provisionFields checks the fields.
func (f *Filter) provisionFields() error {
	if n := len(f.Fields); n == 0 || n > jsonscan.MaxNames {
		return fmt.Errorf("fields: %d fields, 1 to %d are needed", n, jsonscan.MaxNames)
	}
	options := jsonscan.Options{Strict: f.Strict == on, MaxValue: f.MaxValue}
	for i := range f.Fields {
		field := &f.Fields[i]
		switch {
		case field.Field == "":
			return fmt.Errorf("fields[%d].field: missing", i)
		case !httpguts.ValidHeaderFieldName(field.Header):
			return fmt.Errorf("fields[%d].header: %q is not the name of a header", i, field.Header)
		}
		field.Header = http.CanonicalHeaderKey(field.Header)
		if err := f.headerFits(i); err != nil {
			return fmt.Errorf("fields[%d].header: %q %w", i, field.Header, err)
		}
		options.Names = append(options.Names, field.Field)
	}
	var err error
	if f.query, err = jsonscan.NewQuery(options); err != nil {
		return fmt.Errorf("fields: %w", err)
	}
	return nil
}

// headerFits says why the header of a field can't be set.
func (f *Filter) headerFits(i int) error {
	name := f.Fields[i].Header
	if forbidden(name) {
		return errors.New("is the protocol's own")
	}
	for j := range i {
		switch other := f.Fields[j].Header; {
		case name == other:
			return errors.New("is given twice")
		case reserved.Same(name, other):
			return fmt.Errorf("is %q to some backends, which is given too", other)
		}
	}
	return nil
}

// protocolHeaders are the protocol's own: what a body says must not change how it is read. Those that begin with Proxy-
// are too.
var protocolHeaders = []string{
	"Host", "Connection", "Content-Length", "Transfer-Encoding", "Trailer", "Te", "Upgrade", "Keep-Alive", "Expect",
	"Content-Encoding", "Http2-Settings",
}

// forbidden reports whether a header is the protocol's own, also for backends that take other spellings for it.
func forbidden(name string) bool {
	const proxy = "Proxy-"
	return len(name) > len(proxy) && reserved.Same(name[:len(proxy)], proxy) ||
		slices.ContainsFunc(protocolHeaders, func(own string) bool { return reserved.Same(name, own) })
}

// OwnedHeaders implements pipeline.HeaderOwner.
func (f *Filter) OwnedHeaders() []string {
	names := make([]string, len(f.Fields))
	for i := range f.Fields {
		names[i] = f.Fields[i].Header
	}
	return names
}

// whole reports whether the filter looks at bodies once they are complete.
func (f *Filter) whole() bool { return f.Strict == on && f.OnLimit == reject }

// RequestBodyWish implements pipeline.RequestBodyFilter.
func (f *Filter) RequestBodyWish() pipeline.Wish {
	w := pipeline.Wish{Access: pipeline.ReadOnly, Mode: pipeline.Buffer, Max: f.Limit, Whole: f.whole()}
	if w.Max > 0 && !w.Whole {
		w.Max = min(w.Max+1, maxLimit) // to see that there is more
	}
	return w
}

// scan is the body of a request while it is looked at.
type scan struct {
	jsonscan.Scanner
	length int64
	// first is the first byte that is no white space, 0 before there is one.
	first byte
}

// scans are for the next requests.
var scans = sync.Pool{New: func() any { return new(scan) }}

// RequestBody implements pipeline.RequestBodyFilter.
func (f *Filter) RequestBody(x *pipeline.Exchange, c *pipeline.Chunk) (pipeline.Action, error) {
	s, ok := x.State().(*scan)
	if !ok {
		s = scans.Get().(*scan)
		s.Reset(f.query)
		s.length, s.first = 0, 0
		if !c.End() {
			x.SetState(s)
		}
	}
	act, err := f.look(x, s, c)
	if err != nil || act != pipeline.Continue {
		x.SetState(nil)
		scans.Put(s)
	}
	return act, err
}

// look looks at a piece of the body. Anything but Continue is its last word.
func (f *Filter) look(x *pipeline.Exchange, s *scan, c *pipeline.Chunk) (pipeline.Action, error) {
	const settled = pipeline.Release | pipeline.Done
	if s.length == 0 && len(c.Bytes()) > 0 && encoded(x.Request()) {
		return settled, f.encoded(x)
	}
	b, over := c.Bytes(), false
	if f.Limit > 0 && int64(len(b)) > f.Limit-s.length {
		b, over = b[:f.Limit-s.length], true
	}
	s.length += int64(len(b))
	if over && f.whole() {
		return settled, f.tooLong(x)
	}
	if s.first == 0 {
		s.first = firstByte(b)
	}
	// What is within the limit may be enough, however the body is cut.
	state := s.Feed(b)
	switch {
	case c.End() && !over:
		state = s.Close()
	case state != jsonscan.NeedMore:
	case over:
		return settled, f.tooLong(x)
	default:
		return pipeline.Continue, nil
	}
	return settled, f.judge(x, s, state)
}

// judge does what is to be done once it is known what the body is.
func (f *Filter) judge(x *pipeline.Exchange, s *scan, state jsonscan.State) error {
	switch {
	case state == jsonscan.Found:
		return f.promote(x, s)
	case state == jsonscan.Absent:
		return f.missing(x)
	case s.Reason() == jsonscan.Empty && s.length == 0:
		return x.Set(statusKey, "empty")
	case f.Strict == on && (state != jsonscan.NotJSON || s.doubtful()):
		return pipeline.Reject(http.StatusBadRequest, fmt.Errorf("the body could be read in several ways: %s at byte %d", s.Reason(), s.Offset()))
	case f.OnInvalid == reject:
		return pipeline.Reject(http.StatusBadRequest, fmt.Errorf("the body is no JSON object: %s at byte %d", s.Reason(), s.Offset()))
	}
	return x.Set(statusKey, "invalid")
}

// statusKey is the key of the result that says what was found.
const statusKey = "status"

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
		return f.missing(x)
	}
	return x.Set(statusKey, "found")
}

// missing does what is to be done if a member is missing.
func (f *Filter) missing(x *pipeline.Exchange) error {
	if f.OnMissing == reject {
		return pipeline.Reject(http.StatusBadRequest, errors.New("the body lacks a member, or it is nothing for a header"))
	}
	return x.Set(statusKey, "missing")
}

// tooLong does what is to be done with a body that is too long.
func (f *Filter) tooLong(x *pipeline.Exchange) error {
	if f.OnLimit == reject {
		return pipeline.Reject(http.StatusRequestEntityTooLarge, pipeline.ErrTooLarge)
	}
	return x.Set(statusKey, "limit")
}

// encoded does what is to be done with a body that can't be read as it is.
func (f *Filter) encoded(x *pipeline.Exchange) error {
	if f.Strict == off {
		return x.Set(statusKey, "encoded")
	}
	r := pipeline.Reject(http.StatusUnsupportedMediaType, errors.New("the body is compressed"))
	r.Header = http.Header{"Accept-Encoding": {"identity"}} // RFC 9110 section 15.5.16
	return r
}

// encoded reports whether the body of a request is compressed.
func encoded(r *http.Request) bool {
	for _, value := range r.Header["Content-Encoding"] {
		if !strings.EqualFold(strings.TrimSpace(value), "identity") {
			return true
		}
	}
	return false
}

// doubtful reports whether a body that is no JSON object may be one to somebody else: it begins like one, or with what
// some readers pass over, comments and white space of other kinds.
func (s *scan) doubtful() bool {
	switch s.Reason() {
	case jsonscan.Empty:
		return false
	case jsonscan.NotObject:
	default:
		return true
	}
	return s.first == '/' || s.first == '#' || s.first < ' ' || s.first >= 0x7f
}

// firstByte returns the first byte that is no white space of JSON, 0 if there is none.
func firstByte(b []byte) byte {
	for _, c := range b {
		if c != ' ' && c != '\t' && c != '\r' && c != '\n' {
			return c
		}
	}
	return 0
}

// Interface guards
var (
	_ caddy.Provisioner          = (*Filter)(nil)
	_ pipeline.RequestBodyFilter = (*Filter)(nil)
	_ pipeline.HeaderOwner       = (*Filter)(nil)
)
