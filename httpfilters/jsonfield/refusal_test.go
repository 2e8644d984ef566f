package jsonfield

import (
	"bytes"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/caddy-sluice/sluice/httpfilters/pipeline"
)

// refusals are bodies that are refused with everything set to reject: with which result, and with which words.
var refusals = []struct{ body, result, words string }{
	{`{}`, statusMissing, `the member "model" is missing`},
	{`{"x":1}`, statusMissing, `the member "model" is missing`},
	{`{"model":null}`, statusMissing, `the member "model" is null, no text`},
	{`{"model":{}}`, statusMissing, `the member "model" is an object, no text`},
	{`{"model":[]}`, statusMissing, `the member "model" is an array, no text`},
	{`{"model":"a\n"}`, statusMissing, `the member "model" has a control character`},
	{`{"model":"é"}`, statusMissing, `the member "model" has a character beyond ASCII`},
	{`{"model":" a"}`, statusMissing, `the member "model" has a space at an end`},
	{`{"model":"123456789"}`, statusMissing, `the member "model" is longer than 8 bytes`},
	{`{"model":"a"}`, statusMissing, `the member "user" is missing`},
	{`{"model":"a","user":{}}`, statusMissing, `the member "user" is an object, no text`},
	{`model=a`, statusInvalid, "the body is no JSON object: not_object at byte 1"},
	{`[1]`, statusInvalid, "the body is no JSON object: not_object at byte 1"},
	{`{"model":'a'}`, statusInvalid, "the body is no JSON object: syntax at byte 10"},
	{`{"model":"a"`, statusInvalid, "the body is no JSON object: truncated at byte 12"},
	{`{"model":"a"} x`, statusInvalid, "the body is no JSON object: trailing at byte 15"},
	{"{\"model\":\"a\tb\"}", statusInvalid, "the body is no JSON object: control at byte 12"},
	{`{"x":` + strings.Repeat("[", 128), statusInvalid, "the body is no JSON object: depth at byte 133"},
	{` `, statusInvalid, "the body is no JSON object: empty at byte 1"},
	{`{"model":"a","model":"b"}`, statusAmbiguous, "the body could be read in several ways: duplicate at byte 20"},
	{`{"Model":"a"}`, statusAmbiguous, "the body could be read in several ways: alike at byte 8"},
	{"\xef\xbb\xbf{}", statusAmbiguous, "the body could be read in several ways: bom at byte 1"},
	{"// \n{}", statusAmbiguous, "the body could be read in several ways: not_object at byte 1"},
	{"{\"x\":\"\xff\"}", statusAmbiguous, "the body could be read in several ways: encoding at byte 7"},
	{`{"x":"\ud800"}`, statusAmbiguous, "the body could be read in several ways: surrogate at byte 13"},
	{`gzip`, statusEncoded, "the body is compressed"},
	{`{"model":"` + strings.Repeat("a", 200) + `"}`, statusLimit, "body too large"},
}

// TestRefusals checks what is said of bodies that are refused: to {err.message}, and as the result, which is there before
// the error is.
func TestRefusals(t *testing.T) {
	const filters = `{"filters":[{"filter":{"filter":"json_field","fields":[{"field":"model","header":"X-Model"},{"field":"user","header":"X-User"}],
		"on_invalid":"reject","on_missing":"reject","limit":150,"max_value":8}}]}`
	h := handlerOf(t, filters)
	for _, tc := range refusals {
		coding := "identity"
		if tc.result == statusEncoded {
			coding = "gzip"
		}
		result, err := refusalWith(t, h, tc.body, "Content-Encoding", coding)
		if err == nil || err.Error() != tc.words || result != tc.result {
			t.Errorf("%.40q: got %q, %v, want %q, %s", tc.body, result, err, tc.result, tc.words)
		}
	}
}

// refusalWith returns the result for a body with a header, and the error without what Caddy puts around it.
func refusalWith(t *testing.T, h caddyhttp.MiddlewareHandler, body, name, value string) (string, error) {
	t.Helper()
	w := deadlines{httptest.NewRecorder()}
	repl := caddy.NewReplacer()
	r := httptest.NewRequest(http.MethodPost, "/", bytes.NewReader([]byte(body)))
	r.Header.Set(name, value)
	r = caddyhttp.PrepareRequest(r, repl, w, new(caddyhttp.Server))
	err := h.ServeHTTP(w, r, caddyhttp.HandlerFunc(func(http.ResponseWriter, *http.Request) error {
		return fmt.Errorf("%q came through", body)
	}))
	if caught, ok := errors.AsType[caddyhttp.HandlerError](err); ok {
		err = caught.Err
	}
	return repl.ReplaceAll("{http.filters.json_field.status}", ""), err
}

// TestRefusedForItsLength checks the result of bodies that are refused for their length: by the filter, by the pipeline
// before the filter has seen them, with a declared length and without one, and where the filter doesn't apply.
func TestRefusedForItsLength(t *testing.T) {
	for _, tc := range []struct{ name, settings, filter, condition, want string }{
		{"limit", "", `,"limit":100`, "", statusLimit},
		{"limit, lax", "", `,"limit":100,"strict":"off"`, "", statusLimit},
		{"pipeline", `"request_body_limit":100,`, "", "", statusLimit},
		{"pipeline, lax", `"request_body_limit":100,`, `,"strict":"off"`, "", statusLimit},
		{"another's", `"request_body_limit":100,`, "", `,"conditions":[{"when":[{"path":["/none"]}]}]`, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			h := handlerOf(t, fmt.Sprintf(`{%s"filters":[{"filter":{"filter":"json_field",%s%s}%s},
				{"name":"other","filter":{"filter":"json_field","fields":[{"field":"y","header":"X-Y"}]}}]}`, tc.settings, model, tc.filter, tc.condition))
			got, err := refusalWith(t, h, sized(102, true), "Content-Encoding", "identity")
			if !errors.Is(err, pipeline.ErrTooLarge) || got != tc.want {
				t.Errorf("got %q, %v, want %q", got, err, tc.want)
			}
		})
	}
}
