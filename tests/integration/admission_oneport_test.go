package integration

import (
	"bufio"
	"crypto/tls"
	"io"
	"net/http"
	"testing"
)

// TestAdmissionOnOnePort checks that a connection to Caddy's own site counts until it is closed, and is logged then, and
// that the listen address is the one of the HTTP server.
func TestAdmissionOnOnePort(t *testing.T) {
	l := newLab(t)
	p := startOnePort(l, "access_log\nadmission {\nmax_connections 1\n}\n"+passthrough(l.echo()), whoAmI)
	base := p.metric(gateCount("listener"))
	first := p.dial()
	site := tls.Client(first.stream, &tls.Config{ServerName: "www.site.test", RootCAs: p.authority().pool})
	reader := bufio.NewReader(site)
	for range 2 { // one connection, two requests
		if _, err := site.Write([]byte("GET / HTTP/1.1\r\nHost: www.site.test\r\n\r\n")); err != nil {
			t.Fatal(err)
		}
		res, err := http.ReadResponse(reader, nil)
		if err != nil || res.StatusCode != http.StatusOK {
			t.Fatalf("got %v, %v", res, err)
		}
		if _, err := io.Copy(io.Discard, res.Body); err != nil {
			t.Fatal(err)
		}
		res.Body.Close()
		p.dial().expectClosed()
	}
	if got := p.metric(gateCount("listener")) - base; got != 2 || p.metric(admitted) != 1 {
		t.Errorf("got %v refusals and %v connections, want 2 and 1", got, p.metric(admitted))
	}
	if err := p.reload(); err != nil {
		t.Fatal(err)
	}
	first.Close()
	p.awaitMetric(admitted, 0)
	lines := p.accessLines(3)
	p.expectLine(lines[2], map[string]any{"reason": "handed_over", "server_name": "www.site.test", "listener": p.addr, "upstream": "-"})
	for _, name := range []string{"bytes_in", "bytes_out"} {
		if got, _ := lines[2][name].(float64); got < 100 {
			t.Errorf("%s: got %v, want the bytes of the site", name, got)
		}
	}
}
