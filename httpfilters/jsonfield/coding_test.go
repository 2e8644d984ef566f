package jsonfield

import (
	"net/http"
	"strings"
	"testing"
)

// clearTypes and foreignTypes are values of Content-Type: those with which everybody reads the same text, and the others.
var (
	clearTypes = []string{
		"", "application/json", "text/plain", "nothing", "application/json;", "multipart/form-data; boundary=x",
		"application/json; charset=utf-8", "application/json;charset=UTF-8", `application/json; charset="utf-8"`,
		"application/json; charset=utf8", "application/json; charset=US-ASCII", "application/x-www-form-urlencoded; charset=UTF-8",
		"application/json; Charset=utf-8; x=y", "text/plain; x=y; CHARSET=Utf-8;", "application/json; profile=\"a;b\"",
	}
	foreignTypes = []string{
		"application/json; charset=utf-7", "application/json; charset=UTF-16", "application/json; charset=utf-16le",
		"application/json; charset=hz-gb-2312", "application/json; charset=iso-8859-1", `text/plain; charset="utf-7"`,
		"application/json; CHARSET=utf-7", "application/json; charset=", "application/json; charset", `application/json; charset=""`,
		"application/json; charset=utf-8; charset=utf-7", "application/json; charset=utf-8; charset=utf-8",
		"application/json; charset =utf-7", "application/json; charset= utf-7", "application/json; charset=utf-8 utf-7",
		"application/json; charset=utf-8, text/plain", "application/json, text/plain; charset=utf-7", "charset=utf-8",
		`application/json; x="a; charset=utf-7"`, `application/json; x="charset=utf-8"`, `application/json; charset="utf-8`,
		"application/json charset=utf-7", "application/json; xcharset=utf-7", "application/json; charset='utf-7'",
		"application/json; charset*=utf-8''utf-7", "application/json; charset*=utf-8''utf-8", "application/json; charset*0=ut; charset*1=f-7",
		`application/json; charset="ut\f-8"`, "application/json; charset=utf-8\\", "application/json; charset=utf_8",
	}
)

// TestCharsets checks bodies whose type says that they are text of some kind. With strict those go on that are the same
// text to everybody; a request without a body goes on all the same.
func TestCharsets(t *testing.T) {
	byStrict(t, func(t *testing.T, strict string) {
		s := newSite(t, pipelineOf(t, model+`,"strict":"`+strict+`"`, ""))
		const body, other = `{"model":"small","x":"+ACIALAAiAG0AbwBkAGUAbAAiADoAIg-large"}`, `+AHsAIg-model":"large"+AH0-`
		for _, http2 := range []bool{false, true} {
			c := client(t, http2)
			for _, value := range clearTypes {
				s.check(t, c, body, found("small"), "Content-Type: "+value)
				s.check(t, c, other, invalid, "Content-Type: "+value)
			}
			s.check(t, c, body, found("small"), "Content-Type: a/b; charset=utf-8", "Content-Type: a/b; charset=utf-8")
			for _, value := range foreignTypes {
				s.check(t, c, body, wantOf(strict, refused, found("small")), "Content-Type: "+value)
				s.check(t, c, body, wantOf(strict, refused, found("small")), "chunked", "Content-Type: "+value)
				s.check(t, c, other, wantOf(strict, refused, invalid), "Content-Type: "+value)
				s.check(t, c, "", empty, "Content-Type: "+value)
			}
			s.check(t, c, body, wantOf(strict, refused, found("small")), "Content-Type: a/b", "Content-Type: a/c")
			s.check(t, c, body, wantOf(strict, refused, found("small")), "Content-Type: a/b", "Content-Type: a/b; charset=utf-7")
		}
	})
}

// TestEmptyCodings checks that a Content-Encoding that names nothing is none, as are several that do nothing.
func TestEmptyCodings(t *testing.T) {
	byStrict(t, func(t *testing.T, strict string) {
		s := newSite(t, pipelineOf(t, model+`,"strict":"`+strict+`"`, ""))
		c := client(t, false)
		for _, value := range []string{"", " ", ",", "identity,", ", identity , IDENTITY"} {
			s.check(t, c, `{"model":"a"}`, found("a"), "Content-Encoding: "+value)
		}
		s.check(t, c, `{"model":"a"}`, found("a"), "Content-Encoding: ", "Content-Encoding: identity")
		encoded := wantOf(strict, want{status: http.StatusUnsupportedMediaType}, want{http.StatusOK, "encoded", ""})
		for _, value := range []string{",gzip", "identity, gzip", "identity identity", "gzip,"} {
			s.check(t, c, `{"model":"a"}`, encoded, "Content-Encoding: "+value)
		}
		s.check(t, c, `{"model":"a"}`, encoded, "Content-Encoding: ", "Content-Encoding: br")
	})
}

// TestUsualType checks that the usual types cost nothing.
func TestUsualType(t *testing.T) {
	for _, value := range []string{"application/json", "application/json; charset=utf-8"} {
		r := &http.Request{Header: http.Header{"Content-Type": {value}, "Content-Encoding": {"identity"}}}
		if n := testing.AllocsPerRun(100, func() { _ = encoded(r) || foreign(r) }); n > 0 || foreign(r) || encoded(r) {
			t.Errorf("%s: got %v allocations, foreign %v, encoded %v", value, n, foreign(r), encoded(r))
		}
	}
}

// TestForeignRefusal checks what is said of a charset, and that it is no reason to say more of the body.
func TestForeignRefusal(t *testing.T) {
	h := pipelineOf(t, model+`,"on_missing":"reject","on_invalid":"reject"`, "")
	const words = "the body could be read in several ways: the charset in Content-Type is not utf-8"
	for _, body := range []string{`{"model":"a"}`, `{}`, `[`, strings.Repeat("x", 5000)} {
		result, err := refusalWith(t, h, body, "Content-Type", "a/b; charset=utf-7")
		if err == nil || err.Error() != words || result != statusAmbiguous {
			t.Errorf("%.20q: got %q, %v, want %q, %q", body, result, err, statusAmbiguous, words)
		}
	}
}
