package validaterequest

import (
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/caddy-sluice/sluice/internal/testkit/counts"
)

// lines ends each line as HTTP does, and the header with it.
func lines(text ...string) string { return strings.Join(text, "\r\n") + "\r\n\r\n" }

// TestRefusedByGo proves on raw sockets that Go's server refuses these requests before a handler is asked.
func TestRefusedByGo(t *testing.T) {
	s := newSite(t, `{}`)
	const get, post, host = "GET / HTTP/1.1", "POST / HTTP/1.1", "Host: a.example"
	for _, tc := range []struct {
		name, request string
		status        int
	}{
		{"H06_no_host", lines(get), 400},
		{"H09_two_hosts", lines(get, host, "Host: b.example"), 400},
		{"H10_same_host_twice", lines(get, host, host), 400},
		{"H11_host_with_and_without_port", lines(get, "Host: localhost", "Host: localhost:80"), 400},
		{"H12_host_of_2_MiB", lines(get, "Host: "+strings.Repeat("a", 2<<20)), 431},
		{"H13_two_lengths", lines(post, host, "Content-Length: 1", "Content-Length: 2") + "ab", 400},
		{"H13_two_lengths_in_one", lines(post, host, "Content-Length: 1, 2") + "ab", 400},
		{"H16_negative_length", lines(post, host, "Content-Length: -1"), 400},
		{"H16_signed_length", lines(post, host, "Content-Length: +1") + "a", 400},
		{"H16_overflow", lines(post, host, "Content-Length: 18446744073709551617"), 400},
		{"H16_overflow_signed", lines(post, host, "Content-Length: 9223372036854775808"), 400},
		{"H16_empty_length", lines(post, host, "Content-Length:"), 400},
		{"H19_gzip", lines(post, host, "Transfer-Encoding: gzip"), 501},
		{"H19_gzip_chunked", lines(post, host, "Transfer-Encoding: gzip, chunked") + "0\r\n\r\n", 501},
		{"H22_fold_in_host", lines(get, "Host: a.example\r\n b.example"), 400},
		{"H22_fold_in_length", lines(post, host, "Content-Length: 1\r\n 1") + "abcdefghijk", 400},
		{"fold_first", lines(get, " "+host), 400},
		{"H30_cr_in_value", lines(get, host, "X-A: b\rc"), 400},
		{"H30_nul_in_value", lines(get, host, "X-A: b\x00c"), 400},
		{"H30_nul_in_name", lines(get, host, "X\x00A: b"), 400},
		{"H30_space_in_name", lines(get, host, "X A: b"), 400},
		{"H30_space_before_colon", lines(get, host, "X-A : b"), 400},
		{"H30_no_name", lines(get, host, ": b"), 400},
		{"H31_header_of_2_MiB", lines(get, host, "X-A: "+strings.Repeat("a", 2<<20)), 431},
		{"H32_garbage", "\x01\x02\x03\xff\r\n\r\n", 400},
		{"H32_nonsense_method", lines("G@T / HTTP/1.1", host), 400},
		{"H32_no_version", lines("GET /", host), 400},
		{"H32_empty_request_line", "\r\n" + lines(get, host), 400},
		{"control_in_path", lines("GET /\x01 HTTP/1.1", host), 400},
		{"broken_escape", lines("GET /%zz HTTP/1.1", host), 400},
		{"user_in_host", lines(get, "Host: u@a.example"), 400},
		{"slash_in_host", lines(get, "Host: a/b"), 400},
	} {
		t.Run(tc.name, func(t *testing.T) {
			before := counts.Of(t, register)
			if got := s.exchange(t, tc.request); got.status != tc.status {
				t.Errorf("got %d, want %d", got.status, tc.status)
			}
			s.checkRefusal(t, before, "")
			if got := s.exchange(t, lines(get, host)); got.status != 200 {
				t.Errorf("the next request: got %d, want 200", got.status)
			}
			s.taken()
		})
	}
}

// TestRefused has what the handler refuses.
func TestRefused(t *testing.T) {
	const strict = `{"encoded_dot_segments":"refuse","encoded_slashes":"refuse"}`
	const own = `{"reserved_headers":["x-praxis-*","X-Ext-Protocol-*","x-ext-agent-*","X-User"]}`
	const get, post, host = "GET / HTTP/1.1", "POST / HTTP/1.1", "Host: a.example"
	path := func(p string) string { return lines("GET "+p+" HTTP/1.1", host) }
	for _, tc := range []struct{ name, config, request, reason string }{
		{"H08_empty_host", `{}`, lines(get, "Host:"), "host_missing"},
		{"H08_blank_host", `{}`, lines(get, "Host: \t "), "host_missing"},
		{"H12_long_host", `{}`, lines(get, "Host: "+strings.Repeat("a", 300)), "host_malformed"},
		{"host_with_bad_port", `{}`, lines(get, "Host: a.example:x"), "host_malformed"},
		{"host_with_large_port", `{}`, lines(get, "Host: a.example:65536"), "host_malformed"},
		{"host_with_brackets", `{}`, lines(get, "Host: [a.example]"), "host_malformed"},
		{"H33_absolute_form_with_user", `{}`, lines("GET http://u@b.example/ HTTP/1.1", host), "host_malformed"},
		{"H15_two_types", `{}`, lines(post, host, "Content-Type: a/b", "Content-Type: a/c", "Content-Length: 0"), "content_type"},
		{"H15_types_differ_in_case", `{}`, lines(get, host, "Content-Type: a/b", "Content-Type: A/b"), "content_type"},
		{"H23_lower_case", own, lines(get, host, "x-praxis-a: 1"), "reserved_header"},
		{"H23_upper_case", own, lines(get, host, "X-PRAXIS-A: 1"), "reserved_header"},
		{"H23_protocol", own, lines(get, host, "x-ext-protocol-x: 1"), "reserved_header"},
		{"H23_agent", own, lines(get, host, "x-ext-agent-x:"), "reserved_header"},
		{"H23_default", `{}`, lines(get, host, "x-sluice-Model: a"), "reserved_header"},
		{"reserved_without_star", own, lines(get, host, "x-user: 1"), "reserved_header"},
		{"reserved_with_underscores", own, lines(get, host, "x_praxis-a: 1"), "reserved_header"},
		{"reserved_with_dots", own, lines(get, host, "x.praxis.a: 1"), "reserved_header"},
		{"reserved_trailer", own, lines(post, host, "Transfer-Encoding: chunked", "Trailer: X-Praxis-A") + "0\r\nX-Praxis-A: 1\r\n\r\n", "reserved_header"},
		{"H34_dot_segment", `{}`, path("/a/../b"), "dot_segment"},
		{"dot_segment_at_the_end", `{}`, path("/a/.."), "dot_segment"},
		{"dot_segment_with_backslash", `{}`, path(`/a\..\b`), "dot_segment"},
		{"dot_segment_beside_encoded", `{}`, path("/%61/../%2e%2e"), "dot_segment"},
		{"H34_encoded_dots", strict, path("/a/%2e%2E/b"), "encoded_dot_segment"},
		{"half_encoded_dots", strict, path("/a/.%2e/b"), "encoded_dot_segment"},
		{"dots_and_encoded_slash", strict, path("/..%2fb"), "encoded_dot_segment"},
		{
			"encoded_dots_beside_plain_ones", `{"dot_segments":"allow","encoded_dot_segments":"refuse"}`,
			path("/a/../%2e%2e/b"), "encoded_dot_segment",
		},
		{"encoded_slash", strict, path("/a%2Fb"), "encoded_slash"},
		{"backslash", strict, path(`/a\b`), "encoded_slash"},
		{"encoded_backslash", strict, path("/a%5cb"), "encoded_slash"},
		{"H30_nul_in_path", `{"dot_segments":"allow"}`, path("/a%00b"), "nul_in_path"},
		{"dot_segment_without_authority", `{}`, path("http:../a"), "dot_segment"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := newSite(t, tc.config)
			before := counts.Of(t, register)
			got := s.exchange(t, tc.request)
			if got.status != 400 || !got.closes {
				t.Errorf("got %d, closes %v, want 400 and an end", got.status, got.closes)
			}
			s.checkRefusal(t, before, tc.reason)
		})
	}
}

// TestPassed has what comes through, and what it is then.
func TestPassed(t *testing.T) {
	const get, host = "GET / HTTP/1.1", "Host: a.example"
	path := func(p string) string { return lines("GET "+p+" HTTP/1.1", host) }
	is := func(name string, values ...string) func(seen) bool {
		return func(r seen) bool { return slices.Equal(r.Header.Values(name), values) }
	}
	uri := func(want string) func(seen) bool {
		return func(r seen) bool { return r.RequestURI == want && strings.HasSuffix(want, r.URL.EscapedPath()) }
	}
	for _, tc := range []struct {
		name, config, request string
		check                 func(seen) bool
	}{
		{"H07_http_1_0_without_host", `{}`, lines("GET / HTTP/1.0"), func(r seen) bool { return r.Host == "" }},
		{"host_in_brackets", `{}`, lines(get, "Host: [2001:db8::1]:443"), func(r seen) bool { return r.Host == "[2001:db8::1]:443" }},
		{"host_with_empty_port", `{}`, lines(get, "Host: a.example:"), nil},
		{"host_of_253", `{}`, lines(get, "Host: "+strings.Repeat("a", 253)+".:65535"), nil},
		{"H14_same_length_twice", `{}`, lines("POST / HTTP/1.1", host, "Content-Length: 2", "Content-Length: 2") + "ab", func(r seen) bool {
			return r.body == "ab" && is("Content-Length", "2")(r)
		}},
		{"H15_same_type_twice", `{}`, lines(get, host, "Content-Type: a/b", "Content-Type: a/b"), is("Content-Type", "a/b")},
		{"H18_chunked_in_capitals", `{}`, lines("POST / HTTP/1.1", host, "Transfer-Encoding: Chunked") + "2\r\nab\r\n0\r\n\r\n", func(r seen) bool {
			return r.body == "ab" && r.err == nil
		}},
		{"H21_fold", `{}`, lines(get, host, "X-A: b\r\n \t c\r\n\td"), is("X-A", "b c d")},
		{"H24_near_name", `{}`, lines(get, host, "X-Sluic-A: 1", "X-Sluices: 1", "Sluice-A: 1", "X-Sluice: 1"), is("X-Sluice", "1")},
		{"H24_near_ext", `{"reserved_headers":["x-ext-protocol-*"]}`, lines(get, host, "x-ext-other-a: 1", "x-praxi-: 1"), is("X-Ext-Other-A", "1")},
		{"reserved_off", `{"reserved_headers":[]}`, lines(get, host, "X-Sluice-A: 1"), is("X-Sluice-A", "1")},
		{"H27_options", `{}`, lines("OPTIONS / HTTP/1.1", host, "Max-Forwards: 3"), is("Max-Forwards", "2")},
		{"H27_trace", `{}`, lines("TRACE / HTTP/1.1", host, "Max-Forwards: 1"), is("Max-Forwards", "0")},
		{"H28_get", `{}`, lines(get, host, "Max-Forwards: 0"), is("Max-Forwards", "0")},
		{"H29_no_number", `{}`, lines("OPTIONS / HTTP/1.1", host, "Max-Forwards: abc"), is("Max-Forwards", "abc")},
		{"negative_max_forwards", `{}`, lines("TRACE / HTTP/1.1", host, "Max-Forwards: -1"), is("Max-Forwards", "-1")},
		{"two_max_forwards", `{}`, lines("TRACE / HTTP/1.1", host, "Max-Forwards: 0", "Max-Forwards: 1"), is("Max-Forwards", "0", "1")},
		{"max_forwards_off", `{"max_forwards":"off"}`, lines("TRACE / HTTP/1.1", host, "Max-Forwards: 0"), is("Max-Forwards", "0")},
		{"H31_300_headers", `{}`, lines(get, host, strings.Repeat("X-A: b\r\n", 299)+"X-A: b"), func(r seen) bool { return len(r.Header["X-A"]) == 300 }},
		{"H31_uri_of_64_KiB", `{}`, path("/" + strings.Repeat("a", 64<<10)), nil},
		{"H32_unknown_method", `{}`, lines("BREW / HTTP/1.1", host), func(r seen) bool { return r.Method == "BREW" }},
		{"H33_absolute_form", `{}`, lines("GET http://b.example/x HTTP/1.1", host), func(r seen) bool { return r.Host == "b.example" }},
		{"H34_encoded_dots", `{}`, path("/a/%2e%2e/b"), uri("/a/%2e%2e/b")},
		{"dots_allowed", `{"dot_segments":"allow","encoded_dot_segments":"refuse"}`, path("/a/../b"), uri("/a/../b")},
		{"dots_in_a_name", `{"encoded_dot_segments":"refuse","encoded_slashes":"refuse"}`, path("/a..b/...;/..c/d.."), uri("/a..b/...;/..c/d..")},
		{"dots_in_the_query", `{}`, path("/?a=/../b"), nil},
		{"encoded_slash", `{}`, path("/a%2fb%5cc"), uri("/a%2fb%5cc")},
		{"H35_double_slash", `{"encoded_slashes":"refuse"}`, path("//a///b"), uri("//a///b")},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := newSite(t, tc.config)
			if got := s.exchange(t, tc.request); got.status != 200 || got.body != "ok" {
				t.Fatalf("got %d %q, want 200", got.status, got.body)
			}
			requests := s.taken()
			if len(requests) != 1 || tc.check != nil && !tc.check(requests[0]) {
				t.Errorf("got %d requests; the first: %+v", len(requests), requests[0])
			}
		})
	}
}

// TestNoDesync sends what servers have read differently, with the beginning of another request behind it: what is taken
// for that request must be the one that really comes next, or nothing.
func TestNoDesync(t *testing.T) {
	const smuggled = "GET /smuggled HTTP/1.1\r\nHost: a.example\r\n\r\n"
	length := strconv.Itoa(len(smuggled))
	for _, tc := range []struct {
		name, header, body string
		statuses           []int
	}{
		{"H17_leading_zero", "Content-Length: 0" + length, smuggled, []int{200, 400}},
		{"H17_padded_encoding", "Transfer-Encoding:  chunked \t", "0\r\n\r\n", []int{200, 400}},
		{"H17_empty_encoding", "Transfer-Encoding:", "", []int{200, 400, 501}},
		{"H17_encoding_twice", "Transfer-Encoding: chunked\r\nTransfer-Encoding: identity", "0\r\n\r\n", []int{400, 501}},
		{"H20_both", "Content-Length: 999\r\nTransfer-Encoding: chunked", "2\r\nab\r\n0\r\n\r\n", []int{200, 400}},
		{"H20_both_other_order", "Transfer-Encoding: chunked\r\nContent-Length: 4", "0\r\n\r\n", []int{200, 400}},
		{"H64_trailers", "Transfer-Encoding: chunked\r\nTrailer: X-A", "2\r\nab\r\n0\r\nX-A: b\r\n\r\n", []int{200}},
		{"no_length", "", "", []int{200}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := newSite(t, `{}`)
			c := s.dial(t)
			c.write("POST /first HTTP/1.1\r\nHost: a.example\r\n" + strings.TrimPrefix(tc.header+"\r\n\r\n", "\r\n") + tc.body)
			if got := c.read(t, http.MethodPost); !slices.Contains(tc.statuses, got.status) {
				t.Fatalf("got %d, want one of %v", got.status, tc.statuses)
			}
			c.write(lines("GET /next HTTP/1.1", "Host: a.example"))
			if got := c.read(t, http.MethodGet); got.status != 200 && got.status != 0 {
				t.Errorf("the next request: got %d, want 200 or an end", got.status)
			}
			for _, r := range s.taken() {
				if r.URL.Path != "/first" && r.URL.Path != "/next" {
					t.Errorf("got a request for %s", r.URL.Path)
				}
				if lengths := r.Header.Values("Content-Length"); slices.Contains(lengths, "999") || len(lengths) > 0 && len(r.TransferEncoding) > 0 {
					t.Errorf("got lengths %v and encoding %v", lengths, r.TransferEncoding)
				}
			}
		})
	}
}
