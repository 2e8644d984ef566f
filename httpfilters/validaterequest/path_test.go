package validaterequest

import (
	"testing"

	"github.com/caddy-sluice/sluice/internal/testkit/counts"
)

// TestDotsWithParameters checks segments of two dots that have parameters, which servers cut off that know of them.
func TestDotsWithParameters(t *testing.T) {
	const strict, lax = `{"encoded_dot_segments":"refuse"}`, `{"dot_segments":"allow"}`
	for _, tc := range []struct{ path, config, reason string }{
		{"/a/..;/b", `{}`, "dot_segment"},
		{"/a/..;x=1/b", `{}`, "dot_segment"},
		{"/..;x", `{}`, "dot_segment"},
		{`/a\..;\b`, `{}`, "dot_segment"},
		{"/a/..;/b", lax, ""},
		{"/a/%2e%2e;/b", `{}`, ""},
		{"/a/%2e%2e;/b", strict, "encoded_dot_segment"},
		{"/a/.%2E;x=1/b", strict, "encoded_dot_segment"},
		{"/a/..%3b/b", strict, "encoded_dot_segment"},
		{"/a/..%3b/b", `{}`, ""},
		{"/a/...;/b;../..c;/.;./x..;", strict, ""},
		{"/a;x=../b", strict, ""},
	} {
		t.Run(tc.path+tc.config, func(t *testing.T) {
			s := newSite(t, tc.config)
			before := counts.Of(t, register)
			got := s.exchange(t, lines("GET "+tc.path+" HTTP/1.1", "Host: a.example"))
			if tc.reason != "" {
				s.checkRefusal(t, before, tc.reason)
			} else if requests := s.taken(); got.status != 200 || len(requests) != 1 || requests[0].RequestURI != tc.path {
				t.Errorf("got %d, %d requests, want 200 and one as it came", got.status, len(requests))
			}
		})
	}
}

// TestH33_Asterisk asks for the server itself: Go's answers, and the handler has no part in it, whatever the request says.
func TestH33_Asterisk(t *testing.T) {
	s := newSite(t, `{}`)
	for _, extra := range []string{"X-Kept: 1", "X-Sluice-A: 1", "Max-Forwards: 0"} {
		before := counts.Of(t, register)
		got := s.exchange(t, lines("OPTIONS * HTTP/1.1", "Host: a.example", extra))
		if got.status != 200 || got.body != "" {
			t.Errorf("%s: got %d %q, want 200 without a body", extra, got.status, got.body)
		}
		s.checkRefusal(t, before, "")
	}
}
