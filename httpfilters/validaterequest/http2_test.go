package validaterequest

import (
	"bytes"
	"errors"
	"io"
	"testing"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	"github.com/caddy-sluice/sluice/internal/testkit/counts"
	"github.com/caddy-sluice/sluice/internal/testkit/sites"
)

// field is a header field of HTTP/2, in the order in which it is sent.
type field struct{ name, value string }

// exchange2 sends one request of HTTP/2, of frames, and returns the status; it is empty if the stream was reset.
func (s *site) exchange2(t testing.TB, body string, fields ...field) string {
	t.Helper()
	c := s.dial(t)
	c.write(http2.ClientPreface)
	framer := http2.NewFramer(c, c.Reader)
	framer.ReadMetaHeaders = hpack.NewDecoder(4096, nil)
	if err := framer.WriteSettings(); err != nil {
		t.Fatal(err)
	}
	var block bytes.Buffer
	encoder := hpack.NewEncoder(&block)
	for _, f := range fields {
		if err := encoder.WriteField(hpack.HeaderField{Name: f.name, Value: f.value}); err != nil {
			t.Fatal(err)
		}
	}
	err := framer.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: block.Bytes(), EndHeaders: true, EndStream: body == ""})
	if err == nil && body != "" {
		err = framer.WriteData(1, true, []byte(body))
	}
	if err != nil {
		t.Fatal(err)
	}
	return status2(t, framer)
}

// status2 reads frames until there is a header, or the end of the stream.
func status2(t testing.TB, framer *http2.Framer) string {
	t.Helper()
	for {
		frame, err := framer.ReadFrame()
		if errors.Is(err, io.EOF) {
			return ""
		}
		if err != nil {
			t.Fatal(err)
		}
		switch frame := frame.(type) {
		case *http2.MetaHeadersFrame:
			return frame.PseudoValue("status")
		case *http2.RSTStreamFrame, *http2.GoAwayFrame:
			return ""
		}
	}
}

// TestHTTP2 sends frames. Go leaves more to handlers here than with HTTP/1.
func TestHTTP2(t *testing.T) {
	pseudo := func(authority string, rest ...field) []field {
		fields := []field{{":method", "POST"}, {":scheme", "http"}, {":path", "/"}}
		if authority != "-" {
			fields = append(fields, field{":authority", authority})
		}
		return append(fields, rest...)
	}
	for _, tc := range []struct {
		name, body     string
		fields         []field
		status, reason string
		check          func(seen) bool
	}{
		{"authority", "", pseudo("a.example"), "200", "", nil},
		{"host_only", "", pseudo("-", field{"host", "a.example"}), "200", "", func(r seen) bool {
			return r.Host == "a.example" && r.Header["Host"] == nil
		}},
		{"H10_same_host_twice", "", pseudo("a.example", field{"host", "a.example"}), "200", "", func(r seen) bool {
			return r.Host == "a.example" && r.Header["Host"] == nil
		}},
		{"H09_other_host", "", pseudo("a.example", field{"host", "b.example"}), "400", "host_conflict", nil},
		{"H09_two_hosts", "", pseudo("-", field{"host", "a.example"}, field{"host", "b.example"}), "400", "host_conflict", nil},
		{"H11_host_with_port", "", pseudo("localhost", field{"host", "localhost:80"}), "400", "host_conflict", nil},
		{"H06_no_host", "", pseudo("-"), "400", "host_missing", nil},
		{"H08_empty_authority", "", pseudo(""), "400", "host_missing", nil},
		{"H08_blank_authority", "", pseudo(" "), "400", "host_missing", nil},
		{"authority_with_user", "", pseudo("u@a.example"), "", "", nil},
		{"H13_two_lengths", "ab", pseudo("a.example", field{"content-length", "2"}, field{"content-length", "3"}), "400", "content_length", nil},
		{"H14_same_length_twice", "ab", pseudo("a.example", field{"content-length", "2"}, field{"content-length", "2"}), "200", "", func(r seen) bool {
			return len(r.Header["Content-Length"]) == 1 && r.body == "ab"
		}},
		{"H16_no_number", "", pseudo("a.example", field{"content-length", "2x"}), "400", "content_length", nil},
		{"H15_two_types", "", pseudo("a.example", field{"content-type", "a/b"}, field{"content-type", "a/c"}), "400", "content_type", nil},
		{"H15_same_type_twice", "", pseudo("a.example", field{"content-type", "a/b"}, field{"content-type", "a/b"}), "200", "", func(r seen) bool {
			return len(r.Header["Content-Type"]) == 1
		}},
		{"H23_reserved", "", pseudo("a.example", field{"x-sluice-a", "1"}), "400", "reserved_header", nil},
		{"upper_case", "", pseudo("a.example", field{"X-Sluice-A", "1"}), "", "", nil},
		{"two_authorities", "", pseudo("a.example", field{":authority", "b.example"}), "", "", nil},
		{"transfer_encoding", "", pseudo("a.example", field{"transfer-encoding", "chunked"}), "400", "", nil},
		{"H30_nul_in_value", "", pseudo("a.example", field{"x-a", "b\x00"}), "", "", nil},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := prepare(t, `{}`)
			s.Server = sites.ServeBoth(t, s)
			before := counts.Of(t, register)
			if got := s.exchange2(t, tc.body, tc.fields...); got != tc.status {
				t.Fatalf("got status %q, want %q", got, tc.status)
			}
			if tc.status != "200" {
				s.checkRefusal(t, before, tc.reason)
				return
			}
			requests := s.taken()
			if len(requests) != 1 || tc.check != nil && !tc.check(requests[0]) {
				t.Errorf("got %d requests; the first: %+v", len(requests), requests[0])
			}
		})
	}
}
