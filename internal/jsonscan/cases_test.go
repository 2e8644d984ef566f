package jsonscan

import (
	"strings"
	"testing"
)

// testCase is a document, and what scans for "model" say of it. y_ is good JSON, n_ is none, i_ is what readers differ on.
type testCase struct{ name, document, strict, lax string }

// deep nests arrays so that the innermost is at a level.
func deep(level int) string {
	return `{"a":` + strings.Repeat("[", level-1) + strings.Repeat("]", level-1) + `,"model":1}`
}

var cases = []testCase{
	{"y_string", `{"model":"gpt-4"}`, `found 17: string "gpt-4"`, `found 16: string "gpt-4"`},
	{"y_string_empty", `{"model":""}`, `found 12: string ""`, `found 11: string ""`},
	{"y_string_edge", `{"model":"a b"}`, `found 15: string "a b"`, `found 14: string "a b"`},
	{"y_string_escapes", `{"model":"a\/\\\"b"}`, `found 20: string "a/\\\"b"`, `found 19: string "a/\\\"b"`},
	{"y_string_code", `{"model":"\u0061\u004A\u004a"}`, `found 30: string "aJJ"`, `found 29: string "aJJ"`},
	{"y_string_del", `{"a":"` + "\x7f" + `","model":1}`, `found 19: number "1"`, `found 18: number "1"`},
	{"y_number", `{"model":42}`, `found 12: number "42"`, `found 11: number "42"`},
	{"y_number_zero", `{"model":0}`, `found 11: number "0"`, `found 10: number "0"`},
	{"y_number_minus_zero", `{"model":-0 }`, `found 13: number "-0"`, `found 11: number "-0"`},
	{"y_number_all", `{"model":-10.50e+03}`, `found 20: number "-10.50e+03"`, `found 19: number "-10.50e+03"`},
	{"y_number_zero_e", `{"model":0E-1}`, `found 14: number "0E-1"`, `found 13: number "0E-1"`},
	{"y_number_huge", `{"model":1e999}`, `found 15: number "1e999"`, `found 14: number "1e999"`},
	{"y_number_beyond_2_53", `{"model":9007199254740993}`, `found 26: number "9007199254740993"`, `found 25: number "9007199254740993"`},
	{"y_true", `{"model":true}`, `found 14: bool "true"`, `found 13: bool "true"`},
	{"y_false", `{"model":false}`, `found 15: bool "false"`, `found 14: bool "false"`},
	{"y_null", `{"model":null}`, `found 14: null`, `found 13: null`},
	{"y_object", `{"model":{"model":1}}`, `found 21: object`, `found 10: object`},
	{"y_object_empty", `{"model":{}}`, `found 12: object`, `found 10: object`},
	{"y_array", `{"model":["model",{"model":2}]}`, `found 31: array`, `found 10: array`},
	{"y_array_empty", `{"model":[ ]}`, `found 13: array`, `found 10: array`},
	{"y_white_space", " \r\n\t{ \"a\" : [ 1 , 2 ] , \"model\" : \"x\" } \n", `found 41: string "x"`, `found 37: string "x"`},
	{"y_behind_others", `{"a":{"b":[{}]},"c":"}","model":"x"}`, `found 36: string "x"`, `found 35: string "x"`},
	{"y_nested_only", `{"a":{"model":"x"},"b":[{"model":"y"}]}`, `absent 39: none`, `absent 39: none`},
	{"y_nested_twice", `{"a":{"b":1,"b":2,"model":3},"model":4}`, `found 39: number "4"`, `found 38: number "4"`},
	{"y_value_is_the_name", `{"a":"model"}`, `absent 13: none`, `absent 13: none`},
	{"y_longer_name", `{"models":1,"mode":2,"":3}`, `absent 26: none`, `absent 26: none`},
	{"y_padded_others", `{"mo-delx":1,"_":2,"-":3,"mode_":4}`, `absent 35: none`, `absent 35: none`},
	{"y_very_long_name", `{"` + strings.Repeat("model", 100) + `":1}`, `absent 506: none`, `absent 506: none`},
	{"y_empty_object", `{}`, `absent 2: none`, `absent 2: none`},
	{"y_others_twice", `{"a":1,"a":2}`, `absent 13: none`, `absent 13: none`},
	{"y_name_escaped", `{"mod\u0065l":"x"}`, `found 18: string "x"`, `found 17: string "x"`},
	{"y_name_utf8", `{"é€😀":1,"model":2}`, `found 25: number "2"`, `found 24: number "2"`},
	{"y_pair", `{"a":"\uD83D\ude00","model":1}`, `found 30: number "1"`, `found 29: number "1"`},
	{"y_pairs", `{"a":"\ud800\udc00\udbff\udfff\u0061","model":1}`, `found 48: number "1"`, `found 47: number "1"`},
	{"y_name_too_long_at_once", `{"model` + strings.Repeat("é", 100) + `":1}`, `absent 211: none`, `absent 211: none`},
	{"y_utf8_edges", "{\"a\":\"\u0080\u07ff\u0800\ud7ff\ue000\uffff\U00010000\U0010ffff\",\"model\":1}", `found 42: number "1"`, `found 41: number "1"`},
	{"y_escaped_nul_in_another", `{"a":"\u0000","b\u0000":1}`, `absent 26: none`, `absent 26: none`},
	{"y_depth", deep(MaxDepth), `found 270: number "1"`, `found 269: number "1"`},

	{"n_empty", "", `not_json 0: empty`, `not_json 0: empty`},
	{"n_white_space", " \n", `not_json 2: empty`, `not_json 2: empty`},

	{"n_truncated", `{"model":"x"`, `not_json 12: truncated`, `found 12: string "x"`},
	{"n_truncated_string", `{"model":"x`, `not_json 11: truncated`, `not_json 11: truncated`},
	{"n_truncated_escape", `{"model":"\`, `not_json 11: truncated`, `not_json 11: truncated`},
	{"n_truncated_number", `{"model":1`, `not_json 10: truncated`, `not_json 10: truncated`},
	{"n_truncated_array", `{"a":[`, `not_json 6: truncated`, `not_json 6: truncated`},
	{"n_trailing_comma", `{"model":1,}`, `not_json 12: syntax`, `found 10: number "1"`},
	{"n_trailing_comma_array", `{"a":[1,]}`, `not_json 9: syntax`, `not_json 9: syntax`},
	{"n_leading_comma", `{,"model":1}`, `not_json 2: syntax`, `not_json 2: syntax`},
	{"n_leading_comma_array", `{"a":[,1]}`, `not_json 7: syntax`, `not_json 7: syntax`},
	{"n_two_commas", `{"a":1,,"model":1}`, `not_json 8: syntax`, `not_json 8: syntax`},
	{"n_no_comma", `{"a":1 "model":1}`, `not_json 8: syntax`, `not_json 8: syntax`},
	{"n_no_colon", `{"model" "x"}`, `not_json 10: syntax`, `not_json 10: syntax`},
	{"n_two_colons", `{"model"::"x"}`, `not_json 10: syntax`, `not_json 10: syntax`},
	{"n_no_value", `{"model":}`, `not_json 10: syntax`, `not_json 10: syntax`},
	{"n_name_without_quotes", `{model:1}`, `not_json 2: syntax`, `not_json 2: syntax`},
	{"n_name_number", `{1:1}`, `not_json 2: syntax`, `not_json 2: syntax`},
	{"n_single_quotes", `{'model':'x'}`, `not_json 2: syntax`, `not_json 2: syntax`},
	{"n_single_quotes_value", `{"model":'x'}`, `not_json 10: syntax`, `not_json 10: syntax`},
	{"n_comment", `{/**/"model":1}`, `not_json 2: syntax`, `not_json 2: syntax`},
	{"n_comment_behind", `{"model":1}//`, `not_json 12: trailing`, `found 10: number "1"`},
	{"n_wrong_bracket", `{"a":[1}}`, `not_json 8: syntax`, `not_json 8: syntax`},
	{"n_wrong_brace", `{"a":1]`, `not_json 7: syntax`, `not_json 7: syntax`},
	{"n_name_in_array", `{"a":["b":1]}`, `not_json 10: syntax`, `not_json 10: syntax`},
	{"n_nan", `{"model":NaN}`, `not_json 10: syntax`, `not_json 10: syntax`},
	{"n_infinity", `{"model":-Infinity}`, `not_json 11: syntax`, `not_json 11: syntax`},
	{"n_plus", `{"model":+1}`, `not_json 10: syntax`, `not_json 10: syntax`},
	{"n_leading_zero", `{"model":01}`, `not_json 11: syntax`, `not_json 11: syntax`},
	{"n_minus_leading_zero", `{"model":-01}`, `not_json 12: syntax`, `not_json 12: syntax`},
	{"n_minus", `{"model":-}`, `not_json 11: syntax`, `not_json 11: syntax`},
	{"n_point_first", `{"model":.5}`, `not_json 10: syntax`, `not_json 10: syntax`},
	{"n_point_last", `{"model":5.}`, `not_json 12: syntax`, `not_json 12: syntax`},
	{"n_point_e", `{"model":5.e1}`, `not_json 12: syntax`, `not_json 12: syntax`},
	{"n_two_points", `{"model":5.1.1}`, `not_json 13: syntax`, `not_json 13: syntax`},
	{"n_e_last", `{"model":5e}`, `not_json 12: syntax`, `not_json 12: syntax`},
	{"n_e_sign_last", `{"model":5e+}`, `not_json 13: syntax`, `not_json 13: syntax`},
	{"n_hex", `{"model":0x1}`, `not_json 11: syntax`, `not_json 11: syntax`},
	{"n_word", `{"model":nul}`, `not_json 13: syntax`, `not_json 13: syntax`},
	{"n_word_case", `{"model":True}`, `not_json 10: syntax`, `not_json 10: syntax`},
	{"n_word_longer", `{"model":truee}`, `not_json 14: syntax`, `found 13: bool "true"`},
	{"n_escape", `{"model":"\x61"}`, `not_json 12: syntax`, `not_json 12: syntax`},
	{"n_escape_case", `{"model":"\U0061"}`, `not_json 12: syntax`, `not_json 12: syntax`},
	{"n_code_short", `{"model":"\u006"}`, `not_json 16: syntax`, `not_json 16: syntax`},
	{"n_code_digit", `{"a":"\u00g1"}`, `not_json 11: syntax`, `not_json 11: syntax`},
	{"n_newline", "{\"model\":\"a\nb\"}", `not_json 12: control`, `not_json 12: control`},
	{"n_nul_in_string", "{\"a\":\"\x00\"}", `not_json 7: control`, `not_json 7: control`},
	{"n_nul_outside", "{\"a\":\x001}", `not_json 6: syntax`, `not_json 6: syntax`},
	{"n_nul_for_a_name", "{\"a\":1,\x00", `not_json 8: syntax`, `not_json 8: syntax`},
	{"n_nul_behind", "{\"model\":1}\x00", `not_json 12: trailing`, `found 10: number "1"`},
	{"n_two_documents", `{} {}`, `not_json 4: trailing`, `absent 2: none`},
	{"n_form_feed", "{\f}", `not_json 2: syntax`, `not_json 2: syntax`},
	{"n_no_break_space", "{\u00a0}", `not_json 2: syntax`, `not_json 2: syntax`},
	{"n_text", `model=x`, `not_json 1: not_object`, `not_json 1: not_object`},

	{"i_inner_not_utf8", "{\"a\":{\"\xff\":\"\xff\"},\"model\":1}", `not_json 8: encoding`, `found 24: number "1"`},
	{"i_bom", "\xef\xbb\xbf{}", `not_json 1: bom`, `not_json 1: bom`},
	{"i_utf16", "\xfe\xff\x00{", `not_json 1: bom`, `not_json 1: bom`},
	{"i_bom_behind_space", " \xef\xbb\xbf{}", `not_json 2: not_object`, `not_json 2: not_object`},
	{"i_array", `[{"model":1}]`, `not_json 1: not_object`, `not_json 1: not_object`},
	{"i_string", `"model"`, `not_json 1: not_object`, `not_json 1: not_object`},
	{"i_twice", `{"model":"a","model":"b"}`, `ambiguous 20: duplicate`, `found 12: string "a"`},
	{"i_twice_equal", `{"model":"a","model":"a"}`, `ambiguous 20: duplicate`, `found 12: string "a"`},
	{"i_twice_null_first", `{"model":null,"model":"b"}`, `ambiguous 21: duplicate`, `found 13: null`},
	{"i_twice_object_first", `{"model":{},"model":"b"}`, `ambiguous 19: duplicate`, `found 10: object`},
	{"i_twice_escaped", `{"model":"a","mod\u0065l":"b"}`, `ambiguous 25: duplicate`, `found 12: string "a"`},
	{"i_case", `{"Model":"a"}`, `ambiguous 8: alike`, `absent 13: none`},
	{"i_case_escaped", `{"model":1,"\u004dODEL":2}`, `ambiguous 23: alike`, `found 10: number "1"`},
	{"i_dash", `{"model":1,"mo-del":2}`, `ambiguous 19: alike`, `found 10: number "1"`},
	{"i_underscore", `{"_Model":2}`, `ambiguous 9: alike`, `absent 12: none`},
	{"i_padding_behind", `{"model-_-":2}`, `ambiguous 11: alike`, `absent 14: none`},
	{"i_padding_escaped", `{"mo\u002ddel":2}`, `ambiguous 14: alike`, `absent 17: none`},
	{"i_padding_and_nul", `{"mo-del_\u0000x":2}`, `ambiguous 17: alike`, `absent 20: none`},
	{"i_padding_without_end", `{"mo` + strings.Repeat("-_", 500) + `del":2}`, `ambiguous 1008: alike`, `absent 1011: none`},
	{"i_nul_behind_name", `{"model\u0000":1}`, `ambiguous 14: alike`, `absent 17: none`},
	{"i_nul_and_more", `{"MODEL\u0000` + strings.Repeat("x", 100) + `":1}`, `ambiguous 114: alike`, `absent 117: none`},
	{"i_utf8_byte", "{\"a\":\"\xff\",\"model\":1}", `not_json 7: encoding`, `found 18: number "1"`},
	{"i_utf8_overlong", "{\"a\":\"\xc0\xaf\"}", `not_json 7: encoding`, `absent 10: none`},
	{"i_utf8_overlong_3", "{\"a\":\"\xe0\x9f\xbf\"}", `not_json 8: encoding`, `absent 11: none`},
	{"i_utf8_overlong_4", "{\"a\":\"\xf0\x8f\xbf\xbf\"}", `not_json 8: encoding`, `absent 12: none`},
	{"i_utf8_beyond", "{\"a\":\"\xf4\x90\x80\x80\"}", `not_json 8: encoding`, `absent 12: none`},
	{"i_utf8_surrogate", "{\"a\":\"\xed\xa0\x80\"}", `not_json 8: encoding`, `absent 11: none`},
	{"i_utf8_cut", "{\"a\":\"\xe2\x82\"}", `not_json 9: encoding`, `absent 10: none`},
	{"i_utf8_in_name", "{\"\xff\":1}", `not_json 3: encoding`, `not_json 3: encoding`},
	{"i_utf8_in_value", "{\"model\":\"\xff\"}", `not_json 11: encoding`, `not_json 11: encoding`},
	{"i_high_alone", `{"a":"\ud83d","model":1}`, `not_json 13: surrogate`, `found 23: number "1"`},
	{"i_high_alone_more", `{"a":"\ud83dx"}`, `not_json 13: surrogate`, `absent 15: none`},
	{"i_high_and_escape", `{"a":"\ud83d\n"}`, `not_json 14: surrogate`, `absent 16: none`},
	{"i_high_and_other", `{"a":"\ud83d\u0061"}`, `not_json 18: surrogate`, `absent 20: none`},
	{"i_high_twice", `{"a":"\ud83d\ud83d"}`, `not_json 18: surrogate`, `absent 20: none`},
	{"i_low_alone", `{"a":"\ude00"}`, `not_json 12: surrogate`, `absent 14: none`},
	{"i_high_in_value", `{"model":"\ud83d"}`, `not_json 17: surrogate`, `not_json 17: surrogate`},
	{"i_too_deep", deep(MaxDepth + 1), `too_deep 133: depth`, `too_deep 133: depth`},

	{"i_unfit_control", `{"model":"a\r\nb: c"}`, `found 21: string control_chars`, `found 20: string control_chars`},
	{"i_unfit_tab", `{"model":"a\tb"}`, `found 16: string control_chars`, `found 15: string control_chars`},
	{"i_unfit_nul", `{"model":"a\u0000"}`, `found 19: string control_chars`, `found 18: string control_chars`},
	{"i_unfit_del", "{\"model\":\"\x7f\"}", `found 13: string control_chars`, `found 12: string control_chars`},
	{"i_unfit_wide", `{"model":"é"}`, `found 14: string non_ascii`, `found 13: string non_ascii`},
	{"i_unfit_wide_escaped", `{"model":"\u00e9"}`, `found 18: string non_ascii`, `found 17: string non_ascii`},
	{"i_unfit_pair", `{"model":"\ud83d\ude00"}`, `found 24: string non_ascii`, `found 23: string non_ascii`},
	{"i_unfit_c1", "{\"model\":\"\u0085\"}", `found 14: string non_ascii`, `found 13: string non_ascii`},
	{"i_unfit_space", `{"model":" a"}`, `found 14: string edge_space`, `found 13: string edge_space`},
	{"i_unfit_space_last", `{"model":"a "}`, `found 14: string edge_space`, `found 13: string edge_space`},
	{"i_fit_longest", `{"model":"` + strings.Repeat("x", 16) + `"}`, `found 28: string "xxxxxxxxxxxxxxxx"`, `found 27: string "xxxxxxxxxxxxxxxx"`},
	{"i_unfit_long", `{"model":"` + strings.Repeat("x", 17) + `"}`, `found 29: string too_long`, `found 28: string too_long`},
	{"i_unfit_long_control", `{"model":"\n` + strings.Repeat("x", 20) + `"}`, `found 34: string too_long`, `found 33: string too_long`},
	{"i_unfit_long_number", `{"model":` + strings.Repeat("1", 17) + `}`, `found 27: number too_long`, `found 26: number too_long`},
}

// modelQuery looks for "model". Its values are short, so that one over the limit is too.
func modelQuery(tb testing.TB, strict bool) *Query {
	tb.Helper()
	return mustQuery(tb, Options{Names: []string{"model"}, Strict: strict, MaxValue: 16})
}

// TestCases feeds each document as a whole, and cut into pieces of every size up to nine bytes.
func TestCases(t *testing.T) {
	for _, strict := range []bool{true, false} {
		query := modelQuery(t, strict)
		for _, tc := range cases {
			want := tc.lax
			if strict {
				want = tc.strict
			}
			for size := range 10 {
				if size == 0 {
					size = len(tc.document)
				}
				if got := outcome(scan(query, tc.document, size)); got != want {
					t.Errorf("%s: strict %v, %d bytes at a time: got %s, want %s", tc.name, strict, size, got, want)
				}
			}
		}
	}
}

// TestPrefixes feeds every proper prefix of the good documents. A strict scan says "need more" to all of them, a lax one
// until it has found the member or the end. To end there is to cut the document, unless only white space is missing.
func TestPrefixes(t *testing.T) {
	for _, tc := range cases {
		if !strings.HasPrefix(tc.name, "y_") {
			continue
		}
		for _, strict := range []bool{true, false} {
			checkPrefixes(t, &tc, strict)
		}
	}
}

func checkPrefixes(t *testing.T, tc *testCase, strict bool) {
	t.Helper()
	query := modelQuery(t, strict)
	length := int64(len(strings.TrimRight(tc.document, " \n")))
	if !strict {
		length = scan(query, tc.document, len(tc.document)).Offset()
	}
	for n := range length {
		var s Scanner
		s.Reset(query)
		got := s.Feed([]byte(tc.document[:n]))
		if got != NeedMore {
			t.Errorf("%s: strict %v, %d bytes: got %v, want %v", tc.name, strict, n, got, NeedMore)
		}
		if got := s.Close(); got != NotJSON || s.Reason() != Truncated && s.Reason() != Empty {
			t.Errorf("%s: strict %v, %d bytes and the end: got %v (%v)", tc.name, strict, n, got, s.Reason())
		}
	}
}
