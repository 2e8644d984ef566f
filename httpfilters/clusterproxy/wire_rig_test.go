package clusterproxy

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httputil"
	"net/textproto"
	"strconv"
	"strings"
	"testing"

	"github.com/caddy-sluice/sluice/internal/testkit/sites"
)

// message is a request or an answer of HTTP/1 as it was on the wire: nothing is tidied but the case of names.
type message struct {
	line    string
	header  http.Header
	body    string
	trailer http.Header
}

// readMessage reads a message. One without a length and without chunks has no body.
func readMessage(r *bufio.Reader) (message, error) {
	var m message
	in := textproto.NewReader(r)
	line, err := in.ReadLine()
	if err != nil {
		return m, err
	}
	header, err := in.ReadMIMEHeader()
	if err != nil {
		return m, err
	}
	m.line, m.header = line, http.Header(header)
	var body []byte
	if m.header.Get("Transfer-Encoding") == "chunked" {
		if body, err = io.ReadAll(httputil.NewChunkedReader(r)); err == nil {
			var trailer textproto.MIMEHeader
			trailer, err = in.ReadMIMEHeader()
			m.trailer = http.Header(trailer)
		}
	} else if text := m.header.Get("Content-Length"); text != "" {
		n, _ := strconv.Atoi(text)
		body = make([]byte, n)
		_, err = io.ReadFull(r, body)
	}
	m.body = string(body)
	return m, err
}

// lines ends each line as HTTP does, and the header with it.
func lines(text ...string) string { return strings.Join(text, "\r\n") + "\r\n\r\n" }

// plainAnswer is one that has nothing to say.
var plainAnswer = lines("HTTP/1.1 200 OK", "Content-Length: 2") + "ok"

// recording is an endpoint that gives the same answer to every request, and keeps what it got.
func recording(t testing.TB, answer string) (address string, requests <-chan message) {
	t.Helper()
	got := make(chan message, 64)
	b := newRaw(t, func(_ int, c net.Conn) {
		for in := bufio.NewReader(c); ; {
			m, err := readMessage(in)
			if err != nil {
				return
			}
			got <- m
			fmt.Fprint(c, answer)
		}
	})
	return b.address, got
}

// exchange sends what a test writes, and returns the answer as it came.
func (s *site) exchange(t testing.TB, request string) message {
	t.Helper()
	c := sites.Dial(t, s.Server)
	fmt.Fprint(c, request)
	m, err := readMessage(c.Reader)
	if err != nil {
		t.Fatalf("got %+v, %v", m, err)
	}
	return m
}

// only returns the one request that an endpoint got.
func only(t testing.TB, requests <-chan message) message {
	t.Helper()
	if n := len(requests); n != 1 {
		t.Fatalf("got %d requests at the endpoint, want 1", n)
	}
	return <-requests
}

// rest reads all that is left on a connection. A reset is an end.
func rest(t testing.TB, r io.Reader) string {
	t.Helper()
	text, err := io.ReadAll(r)
	if timeout, ok := errors.AsType[net.Error](err); ok && timeout.Timeout() {
		t.Fatalf("no end after %q", text)
	}
	return string(text)
}

// checkAbsent checks that a header has none of the names.
func checkAbsent(t testing.TB, header http.Header, names ...string) {
	t.Helper()
	for _, name := range names {
		if values, ok := header[http.CanonicalHeaderKey(name)]; ok {
			t.Errorf("got %s: %q, want none", name, values)
		}
	}
}

// checkHas checks the values of a header.
func checkHas(t testing.TB, header http.Header, want map[string][]string) {
	t.Helper()
	for name, values := range want {
		if got := header.Values(name); fmt.Sprintf("%q", got) != fmt.Sprintf("%q", values) {
			t.Errorf("%s: got %q, want %q", name, got, values)
		}
	}
}
