package healthchecks

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/caddy-sluice/sluice/internal/testkit/conns"
)

// web is a server that answers with the status and the body that the path and the query ask for: /<status>?<body>. It
// tells what it was asked.
type web struct {
	addr net.Addr
	seen chan *http.Request
}

func newWeb(t *testing.T) *web {
	t.Helper()
	w := &web{seen: make(chan *http.Request, 100)}
	server := httptest.NewServer(w)
	t.Cleanup(server.Close)
	w.addr = server.Listener.Addr()
	return w
}

func (w *web) ServeHTTP(rw http.ResponseWriter, r *http.Request) {
	w.seen <- r
	status := http.StatusOK
	_, _ = fmt.Sscanf(r.URL.Path, "/%d", &status)
	rw.Header().Set("Location", "/200")
	rw.WriteHeader(status)
	_, _ = io.WriteString(rw, r.URL.RawQuery)
}

// TestHTTP checks which answers pass.
func TestHTTP(t *testing.T) {
	w := newWeb(t)
	for _, tc := range []struct{ name, settings, err string }{
		{"status_200", `"path":"/200"`, ""},
		{"status_204", `"path":"/204"`, ""},
		{"status_299", `"path":"/299"`, ""},
		{"status_404", `"path":"/404"`, "got status 404, expected 2xx"},
		{"status_500", `"path":"/500"`, "got status 500"},
		{"redirect", `"path":"/302"`, "got status 302"},
		{"redirect_expected", `"path":"/302","expect_status":["302"]`, ""},
		{"code", `"path":"/503","expect_status":["503"]`, ""},
		{"class", `"path":"/404","expect_status":["2xx","4xx"]`, ""},
		{"range", `"path":"/403","expect_status":["200-403"]`, ""},
		{"beyond_the_range", `"path":"/404","expect_status":["200-403"]`, "got status 404, expected 200-403"},
		{"success_not_expected", `"path":"/200","expect_status":["204"]`, "got status 200, expected 204"},
		{"body", `"path":"/200?state=ready","expect_body":"^state=(ready|up)$"`, ""},
		{"body_mismatch", `"path":"/200?state=starting","expect_body":"^state=(ready|up)$"`, `the body does not match "^state=(ready|up)$"`},
		{"body_of_another_status", `"path":"/500?ready","expect_body":"ready"`, "got status 500"},
		{"body_empty", `"path":"/204","expect_body":"ready"`, "the body does not match"},
		{"head", `"path":"/200?x","method":"HEAD"`, ""},
		{"post", `"path":"/200","method":"POST"`, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			expect(t, ask(t, load(t, "http", `{`+tc.settings+`}`), at(w.addr)), tc.err)
		})
	}
}

// TestHTTPRequest checks what is asked, by default and with all options.
func TestHTTPRequest(t *testing.T) {
	w := newWeb(t)
	e := at(w.addr)
	t.Setenv("HEALTH_TOKEN", "secret")
	t.Setenv("HTTP_PROXY", "http://127.0.0.1:1")
	expect(t, ask(t, load(t, "http", `{"path":"/200"}`), e), "")
	r := <-w.seen
	if r.Method != http.MethodGet || r.RequestURI != "/200" || r.Host != w.addr.String() || r.Proto != "HTTP/1.1" || !r.Close ||
		r.UserAgent() != "Caddy-Sluice" || len(r.Header) != 2 {
		t.Errorf("got request %+v", r)
	}
	expect(t, ask(t, load(t, "http", `{"path":"/200/{env.HEALTH_TOKEN}?a=b%20c","method":"OPTIONS","host":"{env.HEALTH_TOKEN}.test:8080",
		"headers":{"authorization":["Bearer {env.HEALTH_TOKEN}"],"x-a":["1","2"],"user-agent":["mine"]}}`), e), "")
	r = <-w.seen
	if r.Method != http.MethodOptions || r.RequestURI != "/200/secret?a=b%20c" || r.Host != "secret.test:8080" || r.UserAgent() != "mine" ||
		r.Header.Get("Authorization") != "Bearer secret" || strings.Join(r.Header["X-A"], " ") != "1 2" {
		t.Errorf("got request %+v", r)
	}
	if len(e.conns) != 2 {
		t.Errorf("got %d connections, want one for each check", len(e.conns))
	}
}

// TestHTTPAnswers has endpoints that answer what no server should.
func TestHTTPAnswers(t *testing.T) {
	body := func(length int, text string) string {
		return fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s", length, text)
	}
	for _, tc := range []struct{ name, settings, answer, err string }{
		{"garbage", ``, "\x15\x03\x01\x00\x02\x02\x16\r\n\r\n", "malformed HTTP"},
		{"garbage_is_cut", ``, strings.Repeat("\x00", 4000) + "\r\n\r\n", `\x00\x0...`},
		{"interim", ``, "HTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\nHTTP/1.1 200 OK\r\n\r\n", ""},
		{"interim_for_ever", ``, strings.Repeat("HTTP/1.1 100 Continue\r\n\r\n", maxHead/20), "its head is longer than 65536 bytes"},
		{"header_flood", ``, "HTTP/1.1 200 OK\r\n" + strings.Repeat("X: "+strings.Repeat("y", 1000)+"\r\n", 70), "its head is longer than 65536 bytes"},
		{"header_nearly_a_flood", ``, "HTTP/1.1 200 OK\r\n" + strings.Repeat("X: "+strings.Repeat("y", 1000)+"\r\n", 64) + "\r\n", ""},
		{"line_without_end", ``, strings.Repeat("H", 2*maxHead), "its head is longer than 65536 bytes"},
		{"version_1.0", `,"expect_body":"ready"`, "HTTP/1.0 200 OK\r\nContent-Length: 5\r\n\r\nready", ""},
		{"switch", ``, "HTTP/1.1 101 Switching Protocols\r\n\r\n", "got status 101"},
		{"switch_expected", `,"expect_status":["101"]`, "HTTP/1.1 101 Switching Protocols\r\n\r\n", ""},
		{"body_is_not_waited_for", ``, body(100, ""), ""},
		{"match_at_the_limit", `,"expect_body":"ready$"`, body(maxBody+100, strings.Repeat("x", maxBody-5)+"ready"+strings.Repeat("x", 100)), ""},
		{"match_beyond_the_limit", `,"expect_body":"ready"`, body(maxBody+100, strings.Repeat("x", maxBody-4)+"ready"+strings.Repeat("x", 99)), "does not match"},
		{"body_after_a_long_head", `,"expect_body":"ready$"`, "HTTP/1.1 200 OK\r\nContent-Length: 60000\r\n" + strings.Repeat("X: "+strings.Repeat("y", 1000)+"\r\n", 60) +
			"\r\n" + strings.Repeat("x", 60000-5) + "ready", ""},
		{"bad_chunks", `,"expect_body":"ready"`, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nnine\r\nready", "reading body: "},
	} {
		t.Run(tc.name, func(t *testing.T) {
			expect(t, ask(t, load(t, "http", `{"path":"/"`+tc.settings+`}`), at(conns.Serve(t, says(tc.answer)))), tc.err)
		})
	}
	t.Run("body_ends_early", func(t *testing.T) {
		early := conns.Serve(t, func(conn net.Conn) {
			_, _ = conn.Read(make([]byte, 4096))
			_, _ = io.WriteString(conn, body(100, "ready"))
		})
		expect(t, ask(t, load(t, "http", `{"path":"/","expect_body":"ready"}`), at(early)), "reading body: unexpected EOF")
	})
	t.Run("closes_at_once", func(t *testing.T) {
		expect(t, ask(t, load(t, "http", `{"path":"/"}`), at(conns.Serve(t, func(net.Conn) {}))), "reading answer: ")
	})
	t.Run("refused", func(t *testing.T) {
		expect(t, ask(t, load(t, "http", `{"path":"/"}`), at(refused(t))), "refused")
	})
}

// TestSharedChecker asks many endpoints at the same time, as a cluster does.
func TestSharedChecker(t *testing.T) {
	w := newWeb(t)
	c := load(t, "http", `{"path":"/200?ready","expect_body":"ready","headers":{"X-A":["1"]}}`)
	var checks sync.WaitGroup
	for range 16 {
		checks.Go(func() { expect(t, ask(t, c, at(w.addr)), "") })
	}
	checks.Wait()
	if len(w.seen) != 16 {
		t.Errorf("got %d requests, want 16", len(w.seen))
	}
}
