package jsonfield

import (
	"fmt"
	"net/http"
	"testing"

	"github.com/caddy-sluice/sluice/internal/testkit/sites"
)

// TestRefusedUnread checks that what is refused for its header is refused before any of it is there, and that the client
// isn't told to send it.
func TestRefusedUnread(t *testing.T) {
	s := newSite(t, pipelineOf(t, model, ""))
	for header, status := range map[string]int{
		"Content-Encoding: gzip": http.StatusUnsupportedMediaType, "Content-Type: a/b; charset=utf-7": http.StatusBadRequest,
	} {
		for _, expect := range []string{"X-Kept: 1", "Expect: 100-continue"} {
			conn := sites.Dial(t, sites.Serve(t, s))
			fmt.Fprintf(conn, "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 100\r\n%s\r\n%s\r\n\r\n", header, expect)
			res, err := http.ReadResponse(conn.Reader, nil)
			if err != nil || res.StatusCode != status || s.taken() != nil {
				t.Errorf("%s, %s: got %v, %v, want %d", header, expect, res, err, status)
			}
		}
	}
}

// TestEmptyWithoutLength checks that what has no length, and turns out to be no body, isn't refused for its header.
func TestEmptyWithoutLength(t *testing.T) {
	for _, settings := range []string{"", `,"strict":"off"`, `,"on_limit":"continue","limit":100`} {
		s := newSite(t, pipelineOf(t, model+settings, ""))
		for _, h2 := range []bool{false, true} {
			c := client(t, h2)
			for _, header := range []string{"Content-Encoding: gzip", "Content-Type: a/b; charset=utf-7"} {
				s.check(t, c, "", want{status: http.StatusOK, result: "empty"}, "chunked", header)
			}
		}
	}
}

// TestRefusedWithFirstBytes checks that of a body without a length, which never ends, the first bytes are enough.
func TestRefusedWithFirstBytes(t *testing.T) {
	s := newSite(t, pipelineOf(t, model, ""))
	conn := sites.Dial(t, sites.Serve(t, s))
	fmt.Fprint(conn, "POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\nContent-Encoding: gzip\r\n\r\n1\r\nx\r\n")
	res, err := http.ReadResponse(conn.Reader, nil)
	if err != nil || res.StatusCode != http.StatusUnsupportedMediaType || s.taken() != nil {
		t.Errorf("got %v, %v, want 415", res, err)
	}
}
