package integration

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// askRaw writes a request line and headers as they stand there, and returns the answer and its body. Its error is for
// the caller: it may run on any goroutine.
func askRaw(addr, line string, headers ...string) (*http.Response, string, error) {
	c, err := net.Dial("tcp", addr)
	if err != nil {
		return nil, "", err
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(patience))
	head := slices.Concat([]string{line, "Host: 127.0.0.1", "Connection: close"}, headers)
	fmt.Fprint(c, strings.Join(head, "\r\n")+"\r\n\r\n")
	method, _, _ := strings.Cut(line, " ")
	res, err := http.ReadResponse(bufio.NewReader(c), &http.Request{Method: method})
	if err != nil {
		return nil, "", err
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	return res, string(body), err
}

// asked is askRaw for the goroutine of the test.
func asked(t *testing.T, addr, line string, headers ...string) (*http.Response, string) {
	t.Helper()
	res, body, err := askRaw(addr, line, headers...)
	if err != nil {
		t.Fatalf("%s: %v", line, err)
	}
	return res, body
}

// TestExampleGuard runs the example http-guard, and tries what its first lines say.
func TestExampleGuard(t *testing.T) {
	l := newLab(t)
	p, ports := l.example("http-guard")
	addr := "127.0.0.1:" + ports["8080"]
	const refusals = "caddy_sluice_validate_request_rejected_total"
	before := p.metrics()
	for _, tc := range []struct {
		line   string
		header string
		status int
		body   string
	}{
		{"GET / HTTP/1.1", "X-Kept: 1", 200, "hello"},
		{"GET / HTTP/1.1", "X-Internal-User: root", 400, "400 Bad Request"},
		{"GET /a/../b HTTP/1.1", "X-Kept: 1", 400, "400 Bad Request"},
		{"GET /a/..;x/b HTTP/1.1", "X-Kept: 1", 400, "400 Bad Request"},
		{"GET /a/%2e%2e/b HTTP/1.1", "X-Kept: 1", 400, "400 Bad Request"},
	} {
		res, body := asked(t, addr, tc.line, tc.header)
		if res.StatusCode != tc.status || body != tc.body {
			t.Errorf("%s, %s: got %d %q, want %d %q", tc.line, tc.header, res.StatusCode, body, tc.status, tc.body)
		}
		if inside := res.Header.Get("X-Internal-Host"); inside != "" {
			t.Errorf("%s: got X-Internal-Host %q in the answer", tc.line, inside)
		}
	}
	res, body := asked(t, addr, "TRACE / HTTP/1.1", "Max-Forwards: 0")
	if res.StatusCode != http.StatusOK || !strings.HasPrefix(body, "TRACE / HTTP/1.1\r\nHost: 127.0.0.1\r\n") {
		t.Errorf("TRACE: got %d %q, want the request", res.StatusCode, body)
	}
	after := p.metrics()
	for reason, want := range map[string]float64{"reserved_header": 1, "dot_segment": 2, "encoded_dot_segment": 1} {
		series := fmt.Sprintf("%s{reason=%q}", refusals, reason)
		if got := after[series] - before[series]; got != want {
			t.Errorf("%s: got %v more, want %v", series, got, want)
		}
	}
	p.checkCrowd(addr)
}

// checkCrowd asks four times at once for what takes long: there is room for three.
func (p *proxy) checkCrowd(addr string) {
	p.Helper()
	p.eventually("the fourth of four is refused", func() (string, bool) {
		var crowd sync.WaitGroup
		said := make([]string, 4)
		for i := range said {
			crowd.Go(func() {
				res, body, err := askRaw(addr, "GET /slow HTTP/1.1")
				if err != nil {
					said[i] = err.Error()
					return
				}
				said[i] = fmt.Sprintf("%d %q %q", res.StatusCode, body, res.Header.Get("Retry-After"))
			})
		}
		crowd.Wait()
		slices.Sort(said)
		const slow = `502 "" ""`
		return fmt.Sprintf("%q", said), slices.Equal(said, []string{slow, slow, slow, `503 "503 Service Unavailable" "1"`})
	})
}

// TestExampleBodyHeaders runs the example body-filters, and sends the header that only the filter may set: it is no reason
// to go elsewhere, with a body that names a model or without.
func TestExampleBodyHeaders(t *testing.T) {
	l := newLab(t)
	p, ports := l.example("body-filters")
	addr := "127.0.0.1:" + ports["8080"]
	for _, header := range []string{"X-Kept: 1", "X-Model: large", "x-model: large"} {
		for _, path := range []string{"/", "/v1/chat"} {
			if res, body := asked(t, addr, "GET "+path+" HTTP/1.1", header); res.StatusCode != http.StatusOK || body != "small model" {
				t.Errorf("%s, %s: got %d %q, want small model", path, header, res.StatusCode, body)
			}
		}
	}
	p.addr = addr
	if got, err := p.askInsecurely(`{"model":"large"}`, "http://127.0.0.1/v1/chat"); err != nil || got != "large model" {
		t.Errorf("got %q, %v, want large model", got, err)
	}
}

// TestH33_Asterisk asks Caddy's server for itself: it answers, and no site and no backend has a part in it.
func TestH33_Asterisk(t *testing.T) {
	l := newLab(t)
	p := l.startSites("http://all.test:PORT, http://127.0.0.1:PORT {\nvalidate_request\ncluster_proxy one\n}\n")
	for _, header := range []string{"X-Kept: 1", "X-Sluice-A: 1", "Max-Forwards: 0"} {
		if res, body := asked(t, p.addr, "OPTIONS * HTTP/1.1", header); res.StatusCode != http.StatusOK || body != "" {
			t.Errorf("%s: got %d %q, want 200 without a body", header, res.StatusCode, body)
		}
	}
	if got := p.origins[0].taken(); len(got) > 0 {
		t.Errorf("got %d requests at the backend, want none", len(got))
	}
}
