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
	return nil
}

// unmarshalOption reads the option at which d stands.
func (f *Filter) unmarshalOption(d *caddyfile.Dispenser, first *Field) (err error) {
	switch d.Val() {
	case "header":
		first.Header, err = args.One(d)
	case "field":
		var field Field
		if !d.Args(&field.Field, &field.Header) || d.NextArg() {
			return d.Err("field: expected the name of a member and that of a header")
		}
		f.Fields = append(f.Fields, field)
	case "strict":
		f.Strict, err = args.Word(d, on, off)
	case "on_invalid":
		f.OnInvalid, err = args.Word(d, proceed, reject)
	case "on_missing":
		f.OnMissing, err = args.Word(d, proceed, reject)
	case "on_limit":
		f.OnLimit, err = args.Word(d, reject, proceed)
	case "limit":
		f.Limit, err = args.Bytes(d)
	case "max_value":
		f.MaxValue, err = args.Number(d, 1, jsonscan.MaxMaxValue)
	default:
		err = d.Errf("unrecognized option %q: expected header, field, strict, on_invalid, on_missing, on_limit, limit or max_value", d.Val())
	}
	return err
}

// Interface guards
var _ caddyfile.Unmarshaler = (*Filter)(nil)
