// Package jsonfield is the filter `json_field`: it puts members of a JSON object, the body of a request, into headers of
// the request, so that routes can match on them.
package jsonfield

import (
	"fmt"
	"sync"

	"github.com/caddyserver/caddy/v2"

	"github.com/caddy-sluice/sluice/httpfilters/pipeline"
	"github.com/caddy-sluice/sluice/internal/jsonscan"
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
// type that a request gives its body doesn't matter, but for its charset with `strict`. A request without a body goes on,
// without headers.
//
// The result `status` says what was found: `found`, `missing` (a member is not there, is no text, or can't be the value of
// a header), `invalid` (no JSON object), `ambiguous` (readers could differ about it), `empty` (no body), `encoded`
// (compressed) or `limit` (longer than the limit). It is set before a body is refused.
type Filter struct {
	// The members, at most 16.
	Fields []Field `json:"fields,omitempty"`

	// Whether the body is read to its end, and one that another JSON reader could understand differently is refused with
	// 400, also for a charset in Content-Type that isn't UTF-8, a compressed one with 415: `on` or `off`. With `off` the body
	// goes on as soon as all members were there; the first of several with one name counts. Default: `on`.
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
	// pipelineLimit is how much the pipeline holds back at most.
	pipelineLimit int64
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
func (f *Filter) Provision(ctx caddy.Context) error {
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
	if err := f.limitFits(); err != nil {
		return err
	}
	f.pipelineLimit = pipeline.RequestBodyLimit(ctx)
	if err := f.limitWithin(); err != nil {
		return err
	}
	if f.MaxValue < 0 || f.MaxValue > jsonscan.MaxMaxValue {
		return fmt.Errorf("max_value: %d is out of range, 1 to %d", f.MaxValue, jsonscan.MaxMaxValue)
	}
	return f.provisionFields()
}

// limitFits says whether the limit that on_limit needs is missing.
func (f *Filter) limitFits() error {
	if f.OnLimit == proceed && f.Limit == 0 {
		return fmt.Errorf("limit: missing; on_limit %s needs it", proceed)
	}
	return nil
}

// limitWithin says why the limit doesn't fit into that of the pipeline, which would refuse a body before the filter can.
func (f *Filter) limitWithin() error {
	switch {
	case f.Limit > f.pipelineLimit:
		return fmt.Errorf("limit: %d bytes are more than request_body_limit, %d bytes", f.Limit, f.pipelineLimit)
	case f.Limit == f.pipelineLimit && f.OnLimit == proceed:
		return fmt.Errorf("limit: %d bytes must be less than request_body_limit, %d bytes; on_limit %s has to see that there is more", f.Limit, f.pipelineLimit, proceed)
	}
	return nil
}

// OwnedHeaders implements pipeline.HeaderOwner.
func (f *Filter) OwnedHeaders() []string {
	names := make([]string, len(f.Fields))
	for i := range f.Fields {
		names[i] = f.Fields[i].Header
	}
	return names
}

// DeclaredResults implements pipeline.ResultDeclarer.
func (*Filter) DeclaredResults() map[string][]string {
	return map[string][]string{
		statusKey: {statusFound, statusMissing, statusInvalid, statusAmbiguous, statusEmpty, statusEncoded, statusLimit},
	}
}

// whole reports whether the filter looks at bodies once they are complete.
func (f *Filter) whole() bool { return f.Strict == on && f.OnLimit == reject }

// RequestBodyWish implements pipeline.RequestBodyFilter.
func (f *Filter) RequestBodyWish() pipeline.Wish {
	w := pipeline.Wish{Access: pipeline.ReadOnly, Mode: pipeline.Buffer, Max: f.Limit, Whole: f.whole()}
	if w.Max > 0 && !w.Whole {
		w.Max = min(w.Max+1, f.pipelineLimit) // to see that there is more
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

// RequestBodyHead implements pipeline.BodyHeadFilter: what is refused whatever its bytes are needn't be sent.
func (f *Filter) RequestBodyHead(x *pipeline.Exchange) error {
	switch r := x.Request(); {
	case f.Strict == off:
		return nil
	case encoded(r):
		return f.encoded(x)
	case foreign(r):
		return f.foreign(x)
	}
	return nil
}

// look looks at a piece of the body. Anything but Continue is its last word.
func (f *Filter) look(x *pipeline.Exchange, s *scan, c *pipeline.Chunk) (pipeline.Action, error) {
	const settled = pipeline.Release | pipeline.Done
	if s.length == 0 && len(c.Bytes()) > 0 {
		switch r := x.Request(); {
		case encoded(r):
			return settled, f.encoded(x)
		case f.Strict == on && foreign(r):
			return settled, f.foreign(x)
		}
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
	_ pipeline.TooLargeFilter    = (*Filter)(nil)
	_ pipeline.BodyHeadFilter    = (*Filter)(nil)
	_ pipeline.HeaderOwner       = (*Filter)(nil)
	_ pipeline.ResultDeclarer    = (*Filter)(nil)
)
