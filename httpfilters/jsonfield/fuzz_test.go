package jsonfield

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/caddy-sluice/sluice/httpfilters/pipeline"
	"github.com/caddy-sluice/sluice/internal/testkit/sites"
)

// inPieces reads a body in pieces of some length, and says only after the last one that it is over.
type inPieces struct {
	rest []byte
	size int
}

func (p *inPieces) Read(to []byte) (int, error) {
	if len(p.rest) == 0 {
		return 0, io.EOF
	}
	n := copy(to, p.rest[:min(p.size, len(p.rest))])
	p.rest = p.rest[n:]
	return n, nil
}

// pass has the handler see a body of some type, without a connection. It returns the header that the next handler gets,
// nil if the request is refused with the status.
func pass(t testing.TB, h *pipeline.Handler, body []byte, contentType string, piece int) (header http.Header, result string, status int) {
	t.Helper()
	r := httptest.NewRequest(http.MethodPost, "/", &inPieces{body, piece})
	if contentType != "" {
		r.Header.Set("Content-Type", contentType)
	}
	r.ContentLength = int64(len(body))
	w := httptest.NewRecorder()
	repl := caddy.NewReplacer()
	r = caddyhttp.PrepareRequest(r, repl, w, new(caddyhttp.Server))
	err := h.ServeHTTP(w, r, caddyhttp.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) error {
		header, result = r.Header.Clone(), repl.ReplaceAll("{http.filters.json_field.status}", "")
		got, err := io.ReadAll(r.Body)
		if !bytes.Equal(got, body) {
			t.Fatalf("got the body %q, want %q", got, body)
		}
		return err
	}))
	if err != nil {
		return nil, "", sites.Status(err)
	}
	return header, result, 0
}

// FuzzReaders states what the filter is for: a backend that reads the body, whatever reader it has, finds the value that
// is in the header, also if it heeds the charset that the request says. Without strict it is the value that a reader finds
// who takes the first of several, and no notice of the charset.
func FuzzReaders(f *testing.F) {
	for i, tc := range bodies {
		f.Add([]byte(tc.body), uint8(3), uint8(i))
	}
	f.Add([]byte(`{"model":"small","x":"+ACIALAAiAG0AbwBkAGUAbAAiADoAIg-large"}`), uint8(3), uint8(5))
	f.Add([]byte(`+AHsAIg-model":"large"+AH0-`), uint8(3), uint8(5))
	strict, lax := pipelineOf(f, model, ""), pipelineOf(f, model+`,"strict":"off"`, "")
	f.Fuzz(func(t *testing.T, body []byte, piece, charset uint8) {
		as := charsets[int(charset)%len(charsets)]
		header, result, status := pass(t, strict, body, as.contentType, int(piece)+1)
		if again, same, other := pass(t, strict, body, as.contentType, len(body)+1); again.Get("X-Model") != header.Get("X-Model") || same != result || other != status {
			t.Fatalf("%q in pieces of %d: got %v %q %d, in one %v %q %d", body, int(piece)+1, header, result, status, again, same, other)
		}
		if header != nil {
			checkStrict(t, as.decode(body), header, result)
		}
		header, result, status = pass(t, lax, body, as.contentType, int(piece)+1)
		if header == nil {
			t.Fatalf("%q without strict: got %d", body, status)
		}
		if values, found := header["X-Model"]; found != (result == "found") || found && values[0] != textOf(firstModel(t, body)) {
			t.Fatalf("%q without strict: got %q, %q", body, values, result)
		}
	})
}

// withoutPadding removes what some readers pass over in names.
var withoutPadding = strings.NewReplacer("-", "", "_", "")

// checkStrict checks what comes through with strict.
func checkStrict(t *testing.T, body []byte, header http.Header, result string) {
	t.Helper()
	values, found := header["X-Model"]
	if found != (result == "found") {
		t.Fatalf("%q: got %q, %q", body, values, result)
	}
	var folded struct {
		Model any `json:"model"`
	}
	exact := make(map[string]any)
	readExact, readFolded := numbers(body, &exact), numbers(body, &folded)
	for name := range exact {
		if name != "model" && strings.EqualFold(withoutPadding.Replace(name), "model") {
			t.Fatalf("%q: got %q, %q, and some reader takes %q for it", body, values, result, name)
		}
	}
	if found {
		first, last, err := models(body)
		if readExact != nil || readFolded != nil || err != nil {
			t.Fatalf("%q: got %q of what others can't read: %v, %v", body, values, readExact, err)
		}
		for reader, value := range map[string]any{"map": exact["model"], "struct": folded.Model, "first": first, "last": last} {
			if text := textOf(value); text != values[0] || !fits(value) {
				t.Fatalf("%q: got %q, and %q by %s", body, values[0], text, reader)
			}
		}
		return
	}
	if readExact == nil && fits(exact["model"]) || readFolded == nil && fits(folded.Model) {
		t.Fatalf("%q: got nothing, %q, and others find %v and %v", body, result, exact["model"], folded.Model)
	}
}

// numbers reads a document, with numbers as they stand there.
func numbers(body []byte, to any) error {
	d := json.NewDecoder(bytes.NewReader(body))
	d.UseNumber()
	if err := d.Decode(to); err != nil {
		return err
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return errors.New("something follows")
	}
	return nil
}

// models walks the tokens of a document and returns the first and the last of its models.
func models(body []byte) (first, last any, err error) {
	d := json.NewDecoder(bytes.NewReader(body))
	d.UseNumber()
	if token, err := d.Token(); err != nil || token != json.Delim('{') {
		return nil, nil, errors.New("no object")
	}
	seen := false
	for d.More() {
		name, err := d.Token()
		if err != nil {
			return first, last, err
		}
		var value any
		if err := d.Decode(&value); err != nil {
			return first, last, err
		}
		if name != "model" {
			continue
		}
		if last = value; !seen {
			first, seen = value, true
		}
	}
	_, err = d.Token()
	return first, last, err
}

// firstModel returns the first model that somebody finds who reads no further.
func firstModel(t *testing.T, body []byte) any {
	t.Helper()
	first, _, _ := models(body)
	return first
}

// textOf returns the text of a value for a header.
func textOf(value any) string {
	switch value := value.(type) {
	case string:
		return value
	case json.Number:
		return value.String()
	case bool:
		return map[bool]string{true: "true", false: "false"}[value]
	}
	return ""
}

// fits reports whether a value can stand in a header as it is.
func fits(value any) bool {
	switch value.(type) {
	case string, json.Number, bool:
	default:
		return false
	}
	text := textOf(value)
	for _, c := range []byte(text) {
		if c < ' ' || c > '~' {
			return false
		}
	}
	return len(text) <= 256 && (text == "" || text[0] != ' ' && text[len(text)-1] != ' ')
}
