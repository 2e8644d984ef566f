package clusterproxy

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/caddy-sluice/sluice/internal/testkit/sites"
	"github.com/caddy-sluice/sluice/modules/reserved"
)

// TestH61_StatusesArePassedOn checks that answers with these statuses are neither followed nor changed.
func TestH61_StatusesArePassedOn(t *testing.T) {
	for _, tc := range []struct{ status, headers, body string }{
		{"301 Moved Permanently", "Location: http://127.0.0.1:1/other", "moved"},
		{"302 Found", "Location: /other", "found"},
		{"303 See Other", "Location: //b.example/", ""},
		{"307 Temporary Redirect", "Location: http://127.0.0.1:1/other", ""},
		{"308 Permanent Redirect", "Location: other", "x"},
		{"304 Not Modified", `Etag: "a"`, ""},
		{"206 Partial Content", "Content-Range: bytes 0-1/9", "ab"},
		{"417 Expectation Failed", "X-A: 1", "no"},
		{"418 I'm a teapot", "X-A: 1", "tea"},
	} {
		t.Run(tc.status, func(t *testing.T) {
			answer := []string{"HTTP/1.1 " + tc.status, tc.headers}
			if !strings.HasPrefix(tc.status, "304") {
				answer = append(answer, fmt.Sprintf("Content-Length: %d", len(tc.body)))
			}
			address, requests := recording(t, lines(answer...)+tc.body)
			s := newSite(t, web([]string{address}, nil), nil)
			got := s.exchange(t, lines("GET / HTTP/1.1", "Host: a.example"))
			only(t, requests)
			if got.line != "HTTP/1.1 "+tc.status || got.body != tc.body {
				t.Errorf("got %q %q, want %q %q", got.line, got.body, tc.status, tc.body)
			}
			name, value, _ := strings.Cut(tc.headers, ": ")
			checkHas(t, got.header, map[string][]string{name: {value}})
			s.idle(t)
		})
	}
}

// TestH63_ExpectContinue has a client that waits before it sends its body. It hears that it may once, from us, although
// the endpoint says so too, and only if somebody wants the body.
func TestH63_ExpectContinue(t *testing.T) {
	request := lines("POST / HTTP/1.1", "Host: a.example", "Expect: 100-continue", "Content-Length: 4", "Connection: close")
	live := newBackend(t, echo) // Go's server sends a 100 when the body is read
	for _, tc := range []struct {
		name      string
		transport object
	}{
		{"at_once", object{"protocol": "http"}},
		{"when_the_endpoint_says_so", object{"protocol": "http", "expect_continue_timeout": int64(sites.Patience)}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := newSite(t, web([]string{live.address}, nil), object{"transport": tc.transport})
			c := sites.Dial(t, s.Server)
			fmt.Fprint(c, request)
			if m, err := readMessage(c.Reader); m.line != "HTTP/1.1 100 Continue" {
				t.Fatalf("got %q, %v, want 100", m.line, err)
			}
			fmt.Fprint(c, "body")
			if got := rest(t, c.Reader); !strings.HasPrefix(got, "HTTP/1.1 200 OK\r\n") || !strings.Contains(got, "POST body") {
				t.Errorf("got %q, want the answer and nothing before it", got)
			}
			s.idle(t)
		})
	}
	t.Run("nobody_reads", func(t *testing.T) {
		s := newSite(t, web([]string{dead(t)}, nil), nil)
		c := sites.Dial(t, s.Server)
		fmt.Fprint(c, request)
		if got := rest(t, c.Reader); !strings.HasPrefix(got, "HTTP/1.1 502 ") || strings.Contains(got, "Continue") {
			t.Errorf("got %q, want 502 and nothing before it", got)
		}
	})
	t.Run("refused_by_the_endpoint", func(t *testing.T) {
		address, _ := recordingHeads(t, lines("HTTP/1.1 417 Expectation Failed", "Content-Length: 0", "Connection: close"))
		s := newSite(t, web([]string{address}, nil), object{"transport": object{"protocol": "http", "expect_continue_timeout": int64(sites.Patience)}})
		c := sites.Dial(t, s.Server)
		fmt.Fprint(c, request)
		if got := rest(t, c.Reader); !strings.HasPrefix(got, "HTTP/1.1 417 ") {
			t.Errorf("got %q, want 417 and nothing before it", got)
		}
		s.idle(t)
	})
	t.Run("unasked", func(t *testing.T) {
		address, _ := recording(t, lines("HTTP/1.1 100 Continue")+plainAnswer)
		s := newSite(t, web([]string{address}, nil), nil)
		c := sites.Dial(t, s.Server)
		fmt.Fprint(c, lines("GET / HTTP/1.1", "Host: a.example", "Connection: close"))
		if got := rest(t, c.Reader); strings.Count(got, "100 Continue") > 1 || strings.Count(got, "200 OK") != 1 {
			t.Errorf("got %q", got)
		}
	})
}

// recordingHeads is recording with an endpoint that doesn't wait for bodies.
func recordingHeads(t testing.TB, answer string) (address string, requests <-chan *http.Request) {
	t.Helper()
	got := make(chan *http.Request, 64)
	b := newRaw(t, func(_ int, c net.Conn) {
		r, err := http.ReadRequest(bufio.NewReader(c))
		if err != nil {
			return
		}
		got <- r
		fmt.Fprint(c, answer)
	})
	return b.address, got
}

// TestH64_Trailers sends trailers both ways.
func TestH64_Trailers(t *testing.T) {
	names, err := reserved.Parse([]string{"X-Sluice-*"})
	if err != nil {
		t.Fatal(err)
	}
	chunked := func(trailer string) string {
		return lines("POST / HTTP/1.1", "Host: a.example", "Transfer-Encoding: chunked", "Trailer: X-Sum, X-Other") + "3\r\nabc\r\n0\r\n" + trailer + "\r\n"
	}
	for _, tc := range []struct {
		name, sent string
		strip      bool
		want       map[string][]string
	}{
		{"announced", chunked("X-Sum: 1\r\nx-other: 2\r\n"), false, map[string][]string{"X-Sum": {"1"}, "X-Other": {"2"}}},
		{"on_a_changed_request", chunked("X-Sum: 1\r\n"), true, map[string][]string{"X-Sum": {"1"}}},
		{"unannounced", chunked("X-Late: 1\r\nX-Sum: 1\r\n"), false, map[string][]string{"X-Sum": {"1"}, "X-Late": {"1"}}},
		{"for_headers_only", chunked("Content-Length: 9\r\nHost: b.example\r\nTransfer-Encoding: x\r\nAuthorization: x\r\nX-Sum: 1\r\n"), false, map[string][]string{
			"Content-Length": nil, "Host": nil, "Transfer-Encoding": nil, "Authorization": nil, "X-Sum": {"1"},
		}},
		{"H50_reserved", chunked("X-Sluice-Model: 1\r\nX-Sum: 1\r\n"), false, map[string][]string{"X-Sluice-Model": nil, "X-Sum": {"1"}}},
		{"none", chunked(""), false, map[string][]string{"X-Sum": nil}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			address, requests := recording(t, plainAnswer)
			s := newSite(t, web([]string{address}, nil), nil)
			s.before = func(r *http.Request) {
				caddyhttp.SetVar(r.Context(), reserved.Var, &names)
				if tc.strip {
					r.Header["Upgrade"] = []string{"h2c"}
				}
			}
			if got := s.exchange(t, tc.sent); got.line != "HTTP/1.1 200 OK" {
				t.Fatalf("got %q", got.line)
			}
			m := only(t, requests)
			if m.body != "abc" || m.header.Get("Host") != "a.example" || m.header.Get("Content-Length") != "" {
				t.Errorf("got %+v", m)
			}
			checkHas(t, m.trailer, tc.want)
		})
	}
	t.Run("read_before", func(t *testing.T) {
		address, requests := recording(t, plainAnswer)
		s := newSite(t, web([]string{address}, nil), object{"request_buffers": 1 << 10})
		s.exchange(t, chunked("Transfer-Encoding: x\r\nX-Sum: 1\r\n"))
		m := only(t, requests)
		checkHas(t, m.trailer, map[string][]string{"X-Sum": {"1"}, "Transfer-Encoding": nil})
	})
	t.Run("of_the_answer", func(t *testing.T) {
		address, _ := recording(t, lines("HTTP/1.1 200 OK", "Transfer-Encoding: chunked", "Trailer: X-Sum")+"2\r\nok\r\n0\r\nX-Sum: 1\r\nX-Late: 2\r\n\r\n")
		s := newSite(t, web([]string{address}, nil), nil)
		got := s.exchange(t, lines("GET / HTTP/1.1", "Host: a.example", "TE: trailers"))
		if got.body != "ok" {
			t.Errorf("got %q", got.body)
		}
		checkHas(t, got.trailer, map[string][]string{"X-Sum": {"1"}, "X-Late": {"2"}})
	})
}

// TestH65_ResponseSplitting has endpoints that try to make two answers of one. The client gets one, or a 502, and nothing
// behind it.
func TestH65_ResponseSplitting(t *testing.T) {
	const evil = "HTTP/1.1 200 OK\r\nContent-Length: 4\r\nX-Evil: 1\r\n\r\nevil"
	ok := func(header string) string { return "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n" + header + "\r\n\r\nok" }
	for _, tc := range []struct{ name, answer, status, body string }{
		{"cr_in_value", ok("X-A: a\rX-Evil: 1"), "502", ""},
		{"cr_at_the_end_of_a_value", ok("X-A: a\r\r"), "502", ""},
		{"nul_in_value", ok("X-A: a\x00b"), "502", ""},
		{"control_in_value", ok("X-A: a\x01b"), "502", ""},
		{"cr_in_name", ok("X-A\rX-Evil: 1"), "502", ""},
		{"nul_in_name", ok("X\x00A: 1"), "502", ""},
		{"space_before_colon", ok("X-Evil : 1"), "200", "ok"},
		{"no_colon", ok("X-Evil"), "502", ""},
		{"fold", ok("X-A: a\r\n X-Evil: 1"), "200", "ok"},
		{"lf_ends_a_line", ok("X-A: a\nX-B: b"), "200", "ok"},
		{"double_crlf_in_value", "HTTP/1.1 200 OK\r\nX-A: a\r\n\r\n" + evil, "200", evil},
		{"second_answer", "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok" + evil, "200", "ok"},
		{"second_answer_behind_204", "HTTP/1.1 204 No Content\r\n\r\n" + evil, "204", ""},
		{"second_answer_behind_304", "HTTP/1.1 304 Not Modified\r\nContent-Length: 4\r\n\r\n" + evil, "304", ""},
		{"two_lengths", ok("Content-Length: 60"), "502", ""},
		{"length_and_chunks", "HTTP/1.1 200 OK\r\nContent-Length: 90\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n" + evil, "200", "ok"},
		{"status_line", "HTTP/1.1 200 OK\rX-Evil: 1\r\nContent-Length: 2\r\n\r\nok", "200", "ok"},
		{"in_early_hints", "HTTP/1.1 103 Early Hints\r\nLink: a\rX-Evil: 1\r\n\r\n" + ok("X-A: 1"), "502", ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			b := newRaw(t, func(_ int, c net.Conn) {
				if _, _, err := readRequest(c); err == nil {
					fmt.Fprint(c, tc.answer)
				}
			})
			s := newSite(t, web([]string{b.address}, nil), nil)
			c := sites.Dial(t, s.Server)
			fmt.Fprint(c, lines("GET / HTTP/1.1", "Host: a.example", "Connection: close"))
			text := rest(t, c.Reader)
			in := bufio.NewReader(strings.NewReader(text))
			res, err := http.ReadResponse(in, nil)
			if err != nil || !strings.HasPrefix(res.Status, tc.status) {
				t.Fatalf("got %q, %v, want status %s", text, err, tc.status)
			}
			checkAbsent(t, res.Header, "X-Evil")
			body, err := io.ReadAll(res.Body)
			if tc.status != "502" && string(body) != tc.body || err != nil {
				t.Errorf("got body %q, %v, want %q", body, err, tc.body)
			}
			if left, _ := io.ReadAll(in); len(left) > 0 {
				t.Errorf("got %q behind the answer", left)
			}
			head, _, _ := strings.Cut(text, "\r\n\r\n")
			if bare := strings.NewReplacer("\r\n", "").Replace(head); strings.ContainsAny(bare, "\r\n\x00") {
				t.Errorf("got control characters in %q", head)
			}
			s.idle(t)
		})
	}
}
