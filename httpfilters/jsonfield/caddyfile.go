package jsonfield

import (
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"

	"github.com/caddy-sluice/sluice/caddyfile/args"
	"github.com/caddy-sluice/sluice/internal/jsonscan"
)

// UnmarshalCaddyfile reads the filter. Syntax:
//
//	json_field [<field>] {
//		header     <name>
//		field      <field> <header>
//		strict     on|off
//		on_invalid continue|reject
//		on_missing continue|reject
//		on_limit   reject|continue
//		limit      <size>
//		max_value  <bytes>
//	}
//
// `header` is for the field behind the name of the filter; each line `field` adds another one.
func (f *Filter) UnmarshalCaddyfile(d *caddyfile.Dispenser) error {
	d.Next() // consume the name
	start := args.Here(d)
	var first Field
	if d.NextArg() {
		first.Field = d.Val()
	}
	if d.NextArg() {
		return d.ArgErr()
	}
	if err := args.Options(d, func(d *caddyfile.Dispenser) error { return f.unmarshalOption(d, &first) }, "field"); err != nil {
		return err
	}
	switch {
	case first.Field != "" && first.Header == "":
		return d.Errf("json_field %s: header is missing", first.Field)
	case first.Field == "" && first.Header != "":
		return d.Errf("header %s: is for the field behind json_field, which is missing", first.Header)
	case first.Field != "":
		f.Fields = append([]Field{first}, f.Fields...)
	}
	return f.checkUnmarshaled(start)
}

// checkUnmarshaled checks what stands on several lines. start is where the filter begins.
func (f *Filter) checkUnmarshaled(start *caddyfile.Dispenser) error {
	if len(f.Fields) == 0 {
		return start.Err("json_field: a member and its header are missing: `json_field <field> { header <name> }`, or lines `field <field> <header>`")
	}
	if err := f.countFits(); err != nil {
		return start.Errf("json_field: %v", err)
	}
	for i := range f.Fields {
		if err := headerFits(f.Fields[i].Header, f.Fields[:i]); err != nil {
			return start.Errf("json_field %s: header: %q %v", f.Fields[i].Field, f.Fields[i].Header, err)
		}
	}
	if err := f.limitFits(); err != nil {
		return start.Errf("json_field: %v", err)
	}
	if _, err := f.compile(); err != nil {
		return start.Errf("json_field: %v", err)
	}
	return nil
}

// unmarshalOption reads the option at which d stands.
func (f *Filter) unmarshalOption(d *caddyfile.Dispenser, first *Field) (err error) {
	switch d.Val() {
	case "header":
		if first.Header, err = args.One(d); err == nil {
			err = unmarshaledHeader(d, first.Header)
		}
	case "field":
		var field Field
		if !d.Args(&field.Field, &field.Header) || d.NextArg() {
			return d.Err("field: expected the name of a member and that of a header")
		}
		if field.Field == "" {
			return d.Err("field: the name of the member is empty")
		}
		f.Fields = append(f.Fields, field)
		err = unmarshaledHeader(d, field.Header)
	case "strict":
		f.Strict, err = args.Word(d, on, off)
	case "on_invalid":
		f.OnInvalid, err = args.Word(d, proceed, reject)
	case "on_missing":
		f.OnMissing, err = args.Word(d, proceed, reject)
	case "on_limit":
		f.OnLimit, err = args.Word(d, reject, proceed)
	case "limit":
		f.Limit, err = args.BytesIn(d, 1, maxLimit)
	case "max_value":
		f.MaxValue, err = args.Number(d, 1, jsonscan.MaxMaxValue)
	default:
		err = d.Errf("unrecognized option %q: expected header, field, strict, on_invalid, on_missing, on_limit, limit or max_value", d.Val())
	}
	return err
}

// unmarshaledHeader checks the name of a header on the line at which d stands.
func unmarshaledHeader(d *caddyfile.Dispenser, name string) error {
	if err := headerFits(name, nil); err != nil {
		return d.Errf("header: %q %v", name, err)
	}
	return nil
}

// Interface guards
var _ caddyfile.Unmarshaler = (*Filter)(nil)
