package clusterproxy

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

// TestHTTP2Client checks a client that speaks HTTP/2: its requests are tried again as others are.
func TestHTTP2Client(t *testing.T) {
	live := newBackend(t, echo)
	plain := newSite(t, web([]string{dead(t), live.address}, retryAll(nil)), nil)
	s := &site{handler: plain.handler}
	s.Server = httptest.NewUnstartedServer(s)
	s.EnableHTTP2 = true
	s.StartTLS()
	t.Cleanup(s.Close)
	for range 3 {
		body := strings.Repeat("x", 100_000)
		r := s.request(t, "POST", "/", "")
		r.Body, r.ContentLength = io.NopCloser(strings.NewReader(body)), -1
		got := s.send(t, r)
		got.want(t, http.StatusOK)
		if got.body != "POST "+body {
			t.Errorf("got %d bytes, want %d", len(got.body), len(body)+5)
		}
	}
	s.idle(t)
}

// TestRequestBuffers checks that what Caddy's handler has buffered can be sent again too.
func TestRequestBuffers(t *testing.T) {
	live, broken := newBackend(t, echo), resetAfter(t, 1)
	s := newSite(t, web([]string{broken.address, live.address}, retryAll(nil)), object{"request_buffers": 1 << 10})
	for _, body := range []string{"hello", strings.Repeat("x", 2<<10)} {
		r := s.do(t, "POST", body)
		r.want(t, http.StatusOK)
		if r.body != "POST "+body {
			t.Errorf("got %d bytes, want %d", len(r.body), len(body)+5)
		}
	}
	s.idle(t)
}

// TestExpect checks that a client which waits before it sends its body is told to go on by an endpoint that is there, not
// before.
func TestExpect(t *testing.T) {
	for _, tc := range []struct {
		name   string
		first  bool
		status int
	}{
		{"endpoint", true, http.StatusContinue},
		{"no_endpoint", false, http.StatusBadGateway},
	} {
		t.Run(tc.name, func(t *testing.T) {
			address := dead(t)
			if tc.first {
				address = newBackend(t, echo).address
			}
			s := newSite(t, web([]string{address}, nil), nil)
			c, err := net.Dial("tcp", s.Listener.Addr().String())
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			_ = c.SetDeadline(time.Now().Add(patience))
			fmt.Fprint(c, "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\nExpect: 100-continue\r\n\r\n")
			in := bufio.NewReader(c)
			res, err := http.ReadResponse(in, nil)
			if err != nil || res.StatusCode != tc.status {
				t.Fatalf("got %v, %v, want %d", res, err, tc.status)
			}
			if !tc.first {
				return
			}
			fmt.Fprint(c, "hello")
			for err == nil && res.StatusCode == http.StatusContinue {
				res, err = http.ReadResponse(in, nil)
			}
			if err != nil {
				t.Fatal(err)
			}
			if body, _ := io.ReadAll(res.Body); string(body) != "POST hello" {
				t.Errorf("got %d %q", res.StatusCode, body)
			}
		})
	}
}
