package jsonfield

import (
	"reflect"
	"strings"
	"testing"

	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
)

func TestUnmarshalCaddyfile(t *testing.T) {
	for _, tc := range []struct {
		text string
		want Filter
		err  string
	}{
		{"json_field model {\nheader X-Model\n}", Filter{Fields: []Field{{"model", "X-Model"}}}, ""},
		{"json_field {\nfield a X-A\nfield b X-B\n}", Filter{Fields: []Field{{"a", "X-A"}, {"b", "X-B"}}}, ""},
		{"json_field a {\nfield b X-B\nheader X-A\n}", Filter{Fields: []Field{{"a", "X-A"}, {"b", "X-B"}}}, ""},
		{
			"json_field a {\nheader X-A\nstrict off\non_invalid reject\non_missing reject\non_limit continue\nlimit 64KiB\nmax_value 10\n}",
			Filter{Fields: []Field{{"a", "X-A"}}, Strict: off, OnInvalid: reject, OnMissing: reject, OnLimit: proceed, Limit: 65536, MaxValue: 10},
			"",
		},
		{"json_field a b", Filter{}, "wrong argument count"},
		{"json_field a", Filter{}, "json_field a: header is missing"},
		{"json_field {\nheader X-A\n}", Filter{}, "header X-A: is for the field behind json_field, which is missing"},
		{"json_field", Filter{}, "json_field: a member and its header are missing: `json_field <field> { header <name> }`, or lines `field <field> <header>`, at Testfile:1"},
		{"json_field {\nlimit 1\n}", Filter{}, "a member and its header are missing"},
		{"json_field a {\nheader \"X A\"\n}", Filter{}, `header: "X A" is not the name of a header, at Testfile:2`},
		{"json_field {\nfield a X-A\nfield b Host\n}", Filter{}, `header: "Host" is the protocol's own, at Testfile:3`},
		{"json_field {\nfield \"\" X-A\n}", Filter{}, "field: the name of the member is empty, at Testfile:2"},
		{"json_field a {\nheader X-A\nfield b x-a\n}", Filter{}, `json_field b: header: "x-a" is given twice, at Testfile:1`},
		{"json_field a {\nheader X-A\nfield b X_a\n}", Filter{}, `json_field b: header: "X_a" is "X-A" to some backends`},
		{"json_field a {\nheader X-A\nfield A X-B\n}", Filter{}, `json_field: fields: names "a" and "A" are one name to some readers`},
		{"json_field a {\nheader X-A\non_limit continue\n}", Filter{}, "json_field: limit: missing; on_limit continue needs it, at Testfile:1"},
		{"json_field a {\nheader X-A\nlimit 65MiB\n}", Filter{}, `limit: "65MiB" is out of range, 1 to 67108864 (64MiB), at Testfile:3`},
		{"json_field a {\nheader X-A\nmax_value 1KiB\n}", Filter{}, `max_value: "1KiB" is not a number from 1 to 4096, at Testfile:3`},
		{"json_field a {\nheader\n}", Filter{}, "header needs an argument"},
		{"json_field a {\nheader X-A\nheader X-B\n}", Filter{}, "header is given twice"},
		{"json_field {\nfield a\n}", Filter{}, "field: expected the name of a member and that of a header"},
		{"json_field {\nfield a X-A b\n}", Filter{}, "field: expected the name of a member and that of a header"},
		{"json_field a {\nheader X-A\nstrict yes\n}", Filter{}, `strict: "yes" is not known; must be one of on, off`},
		{"json_field a {\nheader X-A\non_invalid off\n}", Filter{}, `on_invalid: "off" is not known`},
		{"json_field a {\nheader X-A\non_missing off\n}", Filter{}, `on_missing: "off" is not known`},
		{"json_field a {\nheader X-A\non_limit off\n}", Filter{}, `on_limit: "off" is not known`},
		{"json_field a {\nheader X-A\nlimit 0\n}", Filter{}, `limit: "0" is out of range`},
		{"json_field a {\nheader X-A\nmax_value 4097\n}", Filter{}, `max_value: "4097" is out of range, 1 to 4096`},
		{"json_field a {\nheader X-A\ncolour red\n}", Filter{}, `unrecognized option "colour"`},
	} {
		var f Filter
		err := f.UnmarshalCaddyfile(caddyfile.NewTestDispenser(tc.text))
		if (err == nil) != (tc.err == "") || err != nil && !strings.Contains(err.Error(), tc.err) {
			t.Errorf("%q: got error %v, want one with %q", tc.text, err, tc.err)
		}
		if err == nil && !reflect.DeepEqual(f, tc.want) {
			t.Errorf("%q: got %+v, want %+v", tc.text, f, tc.want)
		}
	}
}
