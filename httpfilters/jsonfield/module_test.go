package jsonfield

import (
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/caddy-sluice/sluice/internal/testkit/modules"
	"github.com/caddy-sluice/sluice/internal/testkit/sites"
)

func TestProvision(t *testing.T) {
	long, many := strings.Repeat("a", 129), strings.Repeat(`{"field":"a","header":"X-A"},`, 17)
	for _, tc := range []struct{ config, err string }{
		{`{` + model + `}`, ""},
		{`{` + model + `,"strict":"off","on_invalid":"reject","on_missing":"reject","on_limit":"continue","limit":67108863,"max_value":4096}`, ""},
		{`{` + model + `,"limit":67108864}`, ""},
		{`{` + model + `,"on_limit":"continue","limit":67108864}`, `limit: 67108864 bytes must be less than request_body_limit, 67108864 bytes; on_limit continue has to see`},
		{`{` + model + `,"strict":"on","on_invalid":"continue","on_missing":"continue","on_limit":"reject","limit":1,"max_value":1}`, ""},
		{`{"strict":"off","fields":[{"field":"model","header":"X-A"},{"field":"Model","header":"X-B"}]}`, ""},
		{`{}`, `fields: 0 fields, 1 to 16 are needed`},
		{`{"fields":[` + many[:len(many)-1] + `]}`, `fields: 17 fields, 1 to 16 are needed`},
		{`{"fields":[{"header":"X-A"}]}`, `fields[0].field: missing`},
		{`{"fields":[{"field":"a"}]}`, `fields[0].header: "" is not the name of a header`},
		{`{"fields":[{"field":"a","header":"X A"}]}`, `fields[0].header: "X A" is not the name of a header`},
		{`{"fields":[{"field":"a","header":"X-A"},{"field":"b","header":"x-a"}]}`, `fields[1].header: "x-a" is given twice`},
		{`{"fields":[{"field":"a","header":"X-A"},{"field":"b","header":"x_a"}]}`, `fields[1].header: "x_a" is "X-A" to some backends`},
		{`{"fields":[{"field":"a","header":"X-A"},{"field":"a","header":"X-B"}]}`, `fields: name "a" is given twice`},
		{`{"fields":[{"field":"a","header":"X-A"},{"field":"A","header":"X-B"}]}`, `fields: names "a" and "A" are one name to some readers`},
		{`{"fields":[{"field":"` + long + `","header":"X-A"}]}`, `has 129 bytes, more than 128`},
		{`{"fields":[{"field":"a\u0000","header":"X-A"}]}`, `fields: name "a\x00" has a NUL`},
		{`{` + model + `,"strict":"yes"}`, `strict: "yes" is not known; must be one of on, off`},
		{`{` + model + `,"on_invalid":"drop"}`, `on_invalid: "drop" is not known; must be one of continue, reject`},
		{`{` + model + `,"on_missing":"on"}`, `on_missing: "on" is not known; must be one of continue, reject`},
		{`{` + model + `,"on_limit":"x"}`, `on_limit: "x" is not known; must be one of reject, continue`},
		{`{` + model + `,"on_limit":"continue"}`, `limit: missing; on_limit continue needs it`},
		{`{` + model + `,"limit":-1}`, `limit: -1 is out of range, 1 to 67108864 (64MiB)`},
		{`{` + model + `,"limit":67108865}`, `limit: 67108865 is out of range`},
		{`{` + model + `,"max_value":-1}`, `max_value: -1 is out of range, 1 to 4096`},
		{`{` + model + `,"max_value":4097}`, `max_value: 4097 is out of range`},
		{`{` + model + `,"colour":"red"}`, `unknown field "colour"`},
	} {
		_, err := modules.Load(t, "http.filters.json_field", tc.config)
		if (err == nil) != (tc.err == "") || err != nil && !strings.Contains(err.Error(), tc.err) {
			t.Errorf("%s: got error %v, want one with %q", tc.config, err, tc.err)
		}
	}
}

// TestForbiddenHeaders checks that no body can set what belongs to the protocol.
func TestForbiddenHeaders(t *testing.T) {
	for _, name := range []string{
		"Host", "Connection", "content-length", "TRANSFER-ENCODING", "Trailer", "TE", "Upgrade", "Keep-Alive", "Expect",
		"Content-Encoding", "Proxy-Connection", "Proxy-Authorization", "HTTP2-Settings", "Content_Length", "transfer.encoding",
	} {
		_, err := modules.Load(t, "http.filters.json_field", `{"fields":[{"field":"a","header":"`+name+`"}]}`)
		if err == nil || !strings.Contains(err.Error(), "fields[0].header: ") || !strings.Contains(err.Error(), "is the protocol's own") {
			t.Errorf("%s: got error %v", name, err)
		}
	}
}

// TestOwnedHeaders checks that what clients send under the names of the headers is gone: whether a member is found or
// not, in other spellings, and where the filter doesn't apply.
func TestOwnedHeaders(t *testing.T) {
	const filters = `{"filters":[{"filter":{"filter":"json_field",` + model + `},"conditions":[{"unless":[{"header":{"X-Skip":["1"]}}]}]}]}`
	s := newSite(t, handlerOf(t, filters))
	forged := []string{"X-Model: forged", "x-model: forged", "X-MODEL: forged", "X_Model: forged", "x.model: forged"}
	for _, tc := range []struct {
		body, header string
		headers      []string
	}{
		{`{"model":"a"}`, "a", nil},
		{`{"other":"a"}`, "", nil},
		{`{"model":null}`, "", nil},
		{`no JSON`, "", nil},
		{``, "", nil},
		{`{"model":"a"}`, "", []string{"X-Skip: 1"}},
	} {
		for _, http2 := range []bool{false, true} {
			headers := slices.Concat(tc.headers, forged)
			if http2 { // which has lower case only
				headers = slices.Concat(tc.headers, forged[:1], forged[3:])
			}
			_, got := s.post(t, client(t, http2), tc.body, headers...)
			if got == nil {
				t.Fatalf("%q: didn't come through", tc.body)
			}
			for name, values := range got.header {
				if strings.EqualFold(strings.NewReplacer("_", "-", ".", "-").Replace(name), "X-Model") && (name != "X-Model" || !slices.Equal(values, []string{tc.header})) {
					t.Errorf("%q %v: got %s %q", tc.body, tc.headers, name, values)
				}
			}
			if got.header.Get("X-Model") != tc.header {
				t.Errorf("%q %v: got %q, want %q", tc.body, tc.headers, got.header.Get("X-Model"), tc.header)
			}
		}
	}
}

// TestForgedTrailer checks the same of trailers.
func TestForgedTrailer(t *testing.T) {
	s := newSite(t, pipelineOf(t, model, ""))
	trailers := make(chan http.Header, 1)
	server := sites.Serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.ServeHTTP(w, r)
		trailers <- r.Trailer
	}))
	conn := sites.Dial(t, server)
	_, err := conn.Write([]byte("POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\nTrailer: X-Model\r\n\r\n" +
		"d\r\n{\"model\":\"a\"}\r\n0\r\nX-Model: forged\r\n\r\n"))
	if err != nil {
		t.Fatal(err)
	}
	if got := <-trailers; got.Get("X-Model") != "" {
		t.Errorf("got the trailers %v", got)
	}
	if got := s.taken(); got == nil || got.header.Get("X-Model") != "a" {
		t.Errorf("got %+v", got)
	}
}
