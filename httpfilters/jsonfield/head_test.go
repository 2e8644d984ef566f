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
