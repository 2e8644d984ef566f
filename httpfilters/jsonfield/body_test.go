package jsonfield

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"unicode/utf16"

	"github.com/caddy-sluice/sluice/internal/testkit/sites"
)

// found, and the others, are what becomes of requests that come through.
func found(header string) want { return want{http.StatusOK, "found", header} }

var (
	missing = want{http.StatusOK, "missing", ""}
	invalid = want{http.StatusOK, "invalid", ""}
	empty   = want{http.StatusOK, "empty", ""}
	refused = want{status: http.StatusBadRequest}
	large   = want{status: http.StatusRequestEntityTooLarge}
)

// bodies are bodies and what becomes of them, with strict on and off.
var bodies = []struct {
	body        string
	strict, lax want
}{
	{`{"model":"a"}`, found("a"), found("a")},
	{" \r\n\t{ \"model\" : \"a\" } \n", found("a"), found("a")},
	{`{"x":{"model":"b"},"model":"a"}`, found("a"), found("a")},
	{`{"x":{"model":"b"}}`, missing, missing},
	{`[{"model":"b"}]`, invalid, invalid},
	{`{"model":"a b/c:d"}`, found("a b/c:d"), found("a b/c:d")},
	{`{"mod\u0065l":"\u0061\/\"\\"}`, found(`a/"\`), found(`a/"\`)},
	{`{"model":""}`, found(""), found("")},
	{`{"model":1}`, found("1"), found("1")},
	{`{"model":-1.50e+3}`, found("-1.50e+3"), found("-1.50e+3")},
	{`{"model":true}`, found("true"), found("true")},
	{`{"model":false}`, found("false"), found("false")},
	{`{"model":null}`, missing, missing},
	{`{"model":{}}`, missing, missing},
	{`{"model":["a"]}`, missing, missing},
	{`{"model":"` + strings.Repeat("a", 256) + `"}`, found(strings.Repeat("a", 256)), found(strings.Repeat("a", 256))},
	{`{"model":"` + strings.Repeat("a", 257) + `"}`, missing, missing},
	{`{"model":"a\r\nX-Evil: 1"}`, missing, missing},
	{`{"model":"a\u0000"}`, missing, missing},
	{`{"model":"a\tb"}`, missing, missing},
	{`{"model":"a\u007f"}`, missing, missing},
	{`{"model":" a"}`, missing, missing},
	{`{"model":"a "}`, missing, missing},
	{`{"model":"é"}`, missing, missing},
	{`{"model":"\u00e9"}`, missing, missing},
	{`{"Model":"a"}`, refused, missing},
	{`{}`, missing, missing},
	{``, empty, empty},
	{"  \n", invalid, invalid},
	{`model=a`, invalid, invalid},
	{`"model"`, invalid, invalid},
	{`null`, invalid, invalid},
	{`<model>a</model>`, invalid, invalid},
	{"--x\r\nContent-Disposition: form-data; name=\"model\"\r\n\r\na\r\n--x--\r\n", invalid, invalid},
	{`=a`, invalid, invalid},
	{`&model=a`, invalid, invalid},
	{`%6dodel=a`, invalid, invalid},
	{`'a'`, invalid, invalid},
	// These could be read in several ways.
	{`{"model":"a","model":"b"}`, refused, found("a")},
	{`{"model":"a","mod\u0065l":"b"}`, refused, found("a")},
	{`{"model":"a","MODEL":"b"}`, refused, found("a")},
	{`{"model":"a","model\u0000":"b"}`, refused, found("a")},
	{`{"model":"a","mo-del":"b"}`, refused, found("a")},
	{`{"model":"a","Mo_Del":"b"}`, refused, found("a")},
	{`{"_model":"b"}`, refused, missing},
	{`{"x":1,"x":2,"model":"a"}`, found("a"), found("a")},
	{`{"model":"a"}{"model":"b"}`, refused, found("a")},
	{`{"model":"a"} x`, refused, found("a")},
	{`{"model":"a",}`, refused, found("a")},
	{`{"model":"a"`, refused, found("a")},
	{`{"model":"a`, refused, invalid},
	{`{"model":01}`, refused, invalid},
	{`{"model":'a'}`, refused, invalid},
	{`{model:"a"}`, refused, invalid},
	{`{"model":NaN}`, refused, invalid},
	{`{/* */"model":"a"}`, refused, invalid},
	{"// \n{\"model\":\"a\"}", refused, refused},
	{"# \n{\"model\":\"a\"}", refused, refused},
	{"\v{\"model\":\"a\"}", refused, refused},
	{")]}'\n{\"model\":\"a\"}", refused, refused},
	{" )]}'\n{\"model\":\"a\"}", refused, refused},
	{`({"model":"a"})`, refused, refused},
	{`,"model":"a"}`, refused, refused},
	{`;{"model":"a"}`, refused, refused},
	{`:{"model":"a"}`, refused, refused},
	{`]{"model":"a"}`, refused, refused},
	{`}{"model":"a"}`, refused, refused},
	{"\xef\xbb\xbf{\"model\":\"a\"}", refused, refused},
	{"\u00a0{\"model\":\"a\"}", refused, refused},
	{"{\"x\":\"\xff\",\"model\":\"a\"}", refused, found("a")},
	{"{\"model\":\"\xff\"}", refused, invalid},
	{`{"x":"\ud800","model":"a"}`, refused, found("a")},
	{`{"x":` + strings.Repeat("[", 128) + strings.Repeat("]", 128) + `,"model":"a"}`, refused, invalid},
	{`{"x":` + strings.Repeat("[", 127) + strings.Repeat("]", 127) + `,"model":"a"}`, found("a"), found("a")},
	{utf16Of(`{"model":"a"}`, "\xff\xfe", false), refused, refused},
	{utf16Of(`{"model":"a"}`, "\xfe\xff", true), refused, refused},
	{utf16Of(`{"model":"a"}`, "", false), refused, refused},
	{utf16Of(`{"model":"a"}`, "", true), refused, refused},
}

// utf16Of returns a text in UTF-16.
func utf16Of(text, bom string, bigEndian bool) string {
	b := []byte(bom)
	for _, unit := range utf16.Encode([]rune(text)) {
		pair := []byte{byte(unit), byte(unit >> 8)}
		if bigEndian {
			pair[0], pair[1] = pair[1], pair[0]
		}
		b = append(b, pair...)
	}
	return string(b)
}

// byStrict has a test run with strict on and off.
func byStrict(t *testing.T, test func(t *testing.T, strict string)) {
	t.Helper()
	for _, strict := range []string{on, off} {
		t.Run("strict_"+strict, func(t *testing.T) { test(t, strict) })
	}
}

// wantOf returns what becomes of a body. Without strict nothing is refused for being ambiguous.
func wantOf(strict string, whenStrict, lax want) want {
	if strict == on {
		return whenStrict
	}
	if lax == refused {
		return invalid
	}
	return lax
}

// TestBodies checks what becomes of each body, by HTTP/1 and HTTP/2, with a declared length and without one. The type that
// the request says doesn't matter.
func TestBodies(t *testing.T) {
	byStrict(t, func(t *testing.T, strict string) {
		s := newSite(t, pipelineOf(t, model+`,"strict":"`+strict+`"`, ""))
		for _, http2 := range []bool{false, true} {
			c := client(t, http2)
			for _, tc := range bodies {
				w := wantOf(strict, tc.strict, tc.lax)
				for _, headers := range [][]string{nil, {"chunked"}, {"Content-Type: text/plain"}, {"Content-Type: application/json"}} {
					s.check(t, c, tc.body, w, headers...)
				}
			}
		}
	})
}

// TestRejects checks what on_invalid and on_missing refuse. A request without a body goes on.
func TestRejects(t *testing.T) {
	byStrict(t, func(t *testing.T, strict string) {
		s := newSite(t, pipelineOf(t, model+`,"on_invalid":"reject","on_missing":"reject","strict":"`+strict+`"`, ""))
		c := client(t, false)
		for _, tc := range bodies {
			w := wantOf(strict, tc.strict, tc.lax)
			if w == missing || w == invalid {
				w = refused
			}
			s.check(t, c, tc.body, w)
		}
	})
}

// TestCuts checks that it doesn't matter where a body is cut.
func TestCuts(t *testing.T) {
	byStrict(t, func(t *testing.T, strict string) {
		s := newSite(t, pipelineOf(t, model+`,"strict":"`+strict+`"`, ""))
		server := sites.Serve(t, s)
		for _, tc := range bodies {
			if len(tc.body) > 40 {
				continue
			}
			for cut := 1; cut < len(tc.body); cut++ {
				conn := sites.Dial(t, server)
				fmt.Fprintf(conn, "POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n%x\r\n%s\r\n", cut, tc.body[:cut])
				fmt.Fprintf(conn, "%x\r\n%s\r\n0\r\n\r\n", len(tc.body)-cut, tc.body[cut:])
				res, err := http.ReadResponse(conn.Reader, nil)
				if err != nil {
					t.Fatal(err)
				}
				conn.Close()
				w, got := wantOf(strict, tc.strict, tc.lax), s.taken()
				if res.StatusCode != w.status || got != nil && (got.body != tc.body || got.status != w.result || got.header.Get("X-Model") != w.header) {
					t.Errorf("%q cut at %d: got %d, %+v, want %+v", tc.body, cut, res.StatusCode, got, w)
				}
			}
		}
	})
}

// TestFields checks several members: those that are there are set, and the result says whether all are.
func TestFields(t *testing.T) {
	const fields = `"fields":[{"field":"model","header":"X-Model"},{"field":"stream","header":"x-stream"},{"field":"n","header":"X-N"}]`
	byStrict(t, func(t *testing.T, strict string) {
		s := newSite(t, pipelineOf(t, fields+`,"strict":"`+strict+`"`, ""))
		for body, w := range map[string]string{
			`{"n":1,"stream":true,"model":"a"}`:       "a true 1 found",
			`{"model":"a","stream":false,"n":1}`:      "a false 1 found",
			`{"model":"a","n":null}`:                  "a   missing",
			`{"stream":true}`:                         " true  missing",
			`{"model":"é","stream":true,"n":2}`:       " true 2 missing",
			`{"x":[{"model":"b"}],"n":2,"model":"c"}`: "c  2 missing",
		} {
			_, got := s.post(t, client(t, false), body)
			if got == nil {
				t.Fatalf("%s: didn't come through", body)
			}
			if h := got.header; strings.Join([]string{h.Get("X-Model"), h.Get("X-Stream"), h.Get("X-N"), got.status}, " ") != w {
				t.Errorf("%s: got %v, %q, want %q", body, h, got.status, w)
			}
		}
	})
}

// TestEncoded checks that a compressed body is not taken for JSON, whatever its bytes look like.
func TestEncoded(t *testing.T) {
	var packed bytes.Buffer
	w := gzip.NewWriter(&packed)
	if _, err := w.Write([]byte(`{"model":"a"}`)); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	byStrict(t, func(t *testing.T, strict string) {
		s := newSite(t, pipelineOf(t, model+`,"on_invalid":"reject","on_missing":"reject","strict":"`+strict+`"`, ""))
		encoded := wantOf(strict, want{status: http.StatusUnsupportedMediaType}, want{http.StatusOK, "encoded", ""})
		c := client(t, false)
		for _, body := range []string{packed.String(), `{"model":"a"}`} {
			for _, encoding := range []string{"gzip", "br", "GZIP", "identity, gzip", "x"} {
				s.check(t, c, body, encoded, "Content-Encoding: "+encoding)
				s.check(t, c, body, encoded, "chunked", "Content-Encoding: "+encoding)
			}
			s.check(t, c, body, encoded, "Content-Encoding: identity", "Content-Encoding: gzip")
		}
		s.check(t, c, ``, empty, "Content-Encoding: gzip")
		s.check(t, c, `{"model":"a"}`, found("a"), "Content-Encoding: Identity")
		if strict == on {
			if res, _ := s.post(t, c, packed.String(), "Content-Encoding: gzip"); res.Header.Get("Accept-Encoding") != "identity" {
				t.Errorf("got %v, want Accept-Encoding", res.Header)
			}
		}
	})
}
