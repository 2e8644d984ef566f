package validaterequest

import (
	"errors"
	"net/http"
	"net/url"
	"reflect"
	"strings"
	"testing"

	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/caddy-sluice/sluice/internal/testkit/counts"
	"github.com/caddy-sluice/sluice/internal/testkit/modules"
	"github.com/caddy-sluice/sluice/modules/reserved"
)

func TestProvision(t *testing.T) {
	for _, tc := range []struct{ config, err string }{
		{`{}`, ""},
		{`{"reserved_headers":[],"dot_segments":"allow","encoded_dot_segments":"refuse","encoded_slashes":"refuse","max_forwards":"off"}`, ""},
		{`{"reserved_headers":["X-A","x-b-*"],"dot_segments":"refuse","encoded_dot_segments":"allow","encoded_slashes":"allow","max_forwards":"on"}`, ""},
		{`{"reserved_headers":[""]}`, `reserved_headers: "" is no name of a header`},
		{`{"reserved_headers":["*"]}`, `reserved_headers: "*" is no name of a header`},
		{`{"reserved_headers":["X-*-A"]}`, `reserved_headers: "X-*-A" is no name of a header`},
		{`{"reserved_headers":["X A"]}`, `reserved_headers: "X A" is no name of a header`},
		{`{"dot_segments":"on"}`, `dot_segments: "on" is not known; must be one of refuse, allow`},
		{`{"encoded_dot_segments":"off"}`, `encoded_dot_segments: "off" is not known; must be one of allow, refuse`},
		{`{"encoded_slashes":"x"}`, `encoded_slashes: "x" is not known; must be one of allow, refuse`},
		{`{"max_forwards":"allow"}`, `max_forwards: "allow" is not known; must be one of on, off`},
	} {
		_, err := modules.Load(t, "http.handlers.validate_request", tc.config)
		if (err == nil) != (tc.err == "") || err != nil && !strings.Contains(err.Error(), tc.err) {
			t.Errorf("%s: got error %v, want one with %q", tc.config, err, tc.err)
		}
	}
}

func TestUnmarshalCaddyfile(t *testing.T) {
	for _, tc := range []struct {
		text string
		want Handler
		err  string
	}{
		{"validate_request", Handler{}, ""},
		{"validate_request {\nreserved_headers off\n}", Handler{ReservedHeaders: []string{}}, ""},
		{
			"validate_request {\nreserved_headers X-A X-B-*\ndot_segments allow\nencoded_dot_segments refuse\nencoded_slashes refuse\nmax_forwards off\n}",
			Handler{ReservedHeaders: []string{"X-A", "X-B-*"}, DotSegments: "allow", EncodedDotSegments: "refuse", EncodedSlashes: "refuse", MaxForwards: "off"},
			"",
		},
		{"validate_request on", Handler{}, `validate_request takes no argument, got "on"`},
		{"validate_request {\nreserved_headers\n}", Handler{}, "reserved_headers needs"},
		{"validate_request {\ndot_segments on\n}", Handler{}, `dot_segments: "on" is not known`},
		{"validate_request {\nmax_forwards on\nmax_forwards on\n}", Handler{}, "max_forwards is given twice"},
		{"validate_request {\nhosts a\n}", Handler{}, `unrecognized option "hosts"`},
	} {
		var h Handler
		err := h.UnmarshalCaddyfile(caddyfile.NewTestDispenser(tc.text))
		if (err == nil) != (tc.err == "") || err != nil && !strings.Contains(err.Error(), tc.err) {
			t.Errorf("%q: got error %v, want one with %q", tc.text, err, tc.err)
		}
		if err == nil && !reflect.DeepEqual(h, tc.want) {
			t.Errorf("%q: got %+v, want %+v", tc.text, h, tc.want)
		}
	}
}

// TestReasons checks that each reason has a name, an error that doesn't name what the client sent, and a counter.
func TestReasons(t *testing.T) {
	have := counts.Of(t, register)
	for r := inOrder + 1; r < reasonCount; r++ {
		if _, ok := have["caddy_sluice_validate_request_rejected_total "+r.String()]; !ok || r.String() == "" || r.err() == nil {
			t.Errorf("reason %d: got name %q, error %v, counter %v", r, r, r.err(), ok)
		}
	}
	if len(have) != int(reasonCount)-1 {
		t.Errorf("got %d counters, want %d", len(have), reasonCount-1)
	}
}

// TestHTTP3 checks the rules with a request as the HTTP/3 server makes it. A refusal ends its stream only.
func TestHTTP3(t *testing.T) {
	h := load(t, `{}`)
	request := func(host string, header http.Header) *http.Request {
		return &http.Request{
			Method: http.MethodGet, Proto: "HTTP/3.0", ProtoMajor: 3, Host: host, Header: header,
			URL: &url.URL{Path: "/"}, RequestURI: "/",
		}
	}
	for _, tc := range []struct {
		name, host string
		header     http.Header
		want       error
	}{
		{"authority", "a.example", http.Header{}, nil},
		{"same_host", "a.example", http.Header{"Host": {"a.example"}}, nil},
		{"other_host", "a.example", http.Header{"Host": {"b.example"}}, hostConflict.err()},
		{"no_host", "", http.Header{}, hostMissing.err()},
		{"bad_port", "a.example:-1", http.Header{}, hostMalformed.err()},
		{"reserved", "a.example", http.Header{"X-Sluice-A": {"1"}}, reservedHeader.err()},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w := &discard{header: make(http.Header)}
			err := h.ServeHTTP(w, request(tc.host, tc.header), caddyhttp.HandlerFunc(answering))
			if !errors.Is(err, tc.want) || (tc.want == nil) != (err == nil) {
				t.Errorf("got %v, want %v", err, tc.want)
			}
			if refused, ok := errors.AsType[caddyhttp.HandlerError](err); ok && refused.StatusCode != http.StatusBadRequest {
				t.Errorf("got status %d, want 400", refused.StatusCode)
			}
			if w.header.Get("Connection") != "" || tc.header.Get("Host") != "" && tc.want == nil {
				t.Errorf("got headers %v in the answer, %v in the request", w.header, tc.header)
			}
		})
	}
}

func TestAuthorities(t *testing.T) {
	for text, want := range map[string]bool{
		"a.example": true, "a": true, "a.example.": true, "A_b-c": true, "192.0.2.1:80": true, "a%20b": true, "a:": true, "a:0": true, "a:65535": true,
		"[::1]": true, "[::1]:": true, "[::1]:80": true, "[::ffff:192.0.2.1]": true,
		"": false, ":80": false, "a:80:80": false, "::1": false, "a:65536": false, "a:8o": false, "a:-1": false, "a:+1": false, "a: 1": false,
		"a b": false, "a@b": false, "a/b": false, "a?b": false, "a#b": false, `a\b`: false, "a\x00": false, "\xff": false, "ä": false, "a\"b": false, "<a>": false,
		"[": false, "]": false, "[]": false, "[::1": false, "::1]": false, "[a]": false, "[192.0.2.1]": false, "[::1]a": false, "[::1]]": false, "[[::1]]": false,
		"a[::1]": false, "[fe80::1%25eth0]": false, "[::1]:65536": false,
	} {
		if got := validAuthority(text); got != want {
			t.Errorf("%q: got %v, want %v", text, got, want)
		}
	}
}

// FuzzJudge states laws: what is refused is refused for one reason, judging again changes nothing, and what passes has no
// reserved header, no Host beside r.Host, and one value of each header that must have one.
func FuzzJudge(f *testing.F) {
	f.Add("a.example", "/a/../b", "X-Sluice-A", "1", "2")
	f.Add("[::1]:80", "/%2e%2e", "Content-Length", "1", "1")
	f.Add("a", `/a\..%5cb`, "Host", "a", "a")
	f.Add("a:80", "/a%00", "Content-Type", "a", "b")
	f.Fuzz(func(t *testing.T, host, target, name, value, value2 string) {
		u, err := url.ParseRequestURI(target)
		if err != nil {
			return
		}
		h := &Handler{DotSegments: refuse, EncodedDotSegments: refuse, EncodedSlashes: refuse}
		if h.reserved, err = reserved.Parse([]string{defaultReserved}); err != nil {
			t.Fatal(err)
		}
		r := &http.Request{ProtoMajor: 2, Host: host, URL: u, Header: http.Header{http.CanonicalHeaderKey(name): {value, value2}}}
		first := h.judge(r)
		if again := h.judge(r); again != first && first == inOrder {
			t.Fatalf("got %v, then %v", first, again)
		}
		if first != inOrder {
			return
		}
		if host == "" || strings.ContainsAny(host, "@/\\ ") || r.Header["Host"] != nil {
			t.Errorf("passed: host %q, Host %q", host, r.Header["Host"])
		}
		for _, single := range []string{"Content-Length", "Content-Type"} {
			if len(r.Header[single]) > 1 {
				t.Errorf("passed: %s %q", single, r.Header[single])
			}
		}
		if strings.HasPrefix(http.CanonicalHeaderKey(name), "X-Sluice-") {
			t.Errorf("passed: header %s", name)
		}
		for segment := range strings.SplitSeq(strings.ReplaceAll(u.Path, `\`, "/"), "/") {
			if segment == ".." || strings.ContainsRune(segment, 0) {
				t.Errorf("passed: path %q", u.Path)
			}
		}
	})
}
