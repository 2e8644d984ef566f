package clusterproxy

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/caddy-sluice/sluice/internal/testkit/sites"
	"github.com/caddy-sluice/sluice/modules/cluster"
)

// The headers of requests with a body: half of ten bytes are sent, and of the long one more than the transport holds back.
const (
	half = "Host: a.test\r\nContent-Length: 10\r\n"
	long = "Host: a.test\r\nContent-Length: 10000\r\n"
)

// stall connects to a site, and sends what is to be sent before the client stalls.
func (s *site) stall(t *testing.T, method, header, body string) *sites.Conn {
	t.Helper()
	c := sites.Dial(t, s.Server)
	if _, err := fmt.Fprintf(c, "%s / HTTP/1.1\r\n%s\r\n%s", method, header, body); err != nil {
		t.Fatal(err)
	}
	return c
}

// answered reads an answer.
func answered(t *testing.T, in *bufio.Reader) reply {
	t.Helper()
	res, err := http.ReadResponse(in, nil)
	if err != nil {
		t.Fatal(err)
	}
	body, err := io.ReadAll(res.Body)
	return reply{res.StatusCode, res.Header, string(body), err}
}

// over checks that a connection is at its end: what the client sends after its answer isn't taken for a request.
func over(t *testing.T, c *sites.Conn) {
	t.Helper()
	_, _ = fmt.Fprint(c, "fghijGET /next HTTP/1.1\r\nHost: a.test\r\n\r\n")
	if rest, _ := io.ReadAll(c.Reader); len(rest) > 0 {
		t.Errorf("got %q after the answer", rest)
	}
}

// TestStalledClient checks that a client which is late with its body holds nothing for longer than the request may take.
func TestStalledClient(t *testing.T) {
	for _, tc := range []struct {
		name, method, header, body string
		duplex                     bool
	}{
		{"nothing", "POST", half, "", false},
		{"half", "POST", half, "abcde", false},
		{"full_duplex", "POST", half, "abcde", true},
		{"method_that_is_tried_again", "GET", half, "abcde", false},
		{"chunks", "POST", "Host: a.test\r\nTransfer-Encoding: chunked\r\n", "5\r\nabcde\r\n", false},
		{"longer_than_what_is_kept", "POST", "Host: a.test\r\nContent-Length: 100000\r\n", strings.Repeat("a", 70000), false},
		{"expect", "POST", half + "Expect: 100-continue\r\n", "", false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			b := newBackend(t, echo)
			s := newSite(t, web([]string{b.address}, object{"request_timeout": int64(2 * tick), "passive": object{"fall": 1}}), nil)
			s.duplex = tc.duplex
			c := s.stall(t, tc.method, tc.header, tc.body)
			got := answered(t, c.Reader)
			if got.status == http.StatusContinue {
				got = answered(t, c.Reader)
			}
			got.want(t, http.StatusGatewayTimeout)
			s.idle(t)
			over(t, c)
			if got := failuresOf(t, b.address); got != 0 {
				t.Errorf("got a streak of %d failures, want 0", got)
			}
		})
	}
	t.Run("http2", func(t *testing.T) {
		b := newBackend(t, echo)
		s := newSite(t, web([]string{b.address}, object{"request_timeout": int64(2 * tick)}), nil)
		s.Server = sites.ServeBoth(t, s)
		tr := &http.Transport{Protocols: new(http.Protocols)}
		tr.Protocols.SetUnencryptedHTTP2(true)
		t.Cleanup(tr.CloseIdleConnections)
		body, client := io.Pipe()
		defer client.Close()
		res, err := (&http.Client{Transport: tr}).Post(s.URL, "text/plain", body)
		if err != nil || res.StatusCode != http.StatusGatewayTimeout {
			t.Fatalf("got %v, %v, want 504", res, err)
		}
		_ = res.Body.Close()
		s.idle(t)
	})
}

// TestEndpointLeavesStalledClient checks that an endpoint which ends its connection while the client is late is noticed, and
// that the next one gets the whole body.
func TestEndpointLeavesStalledClient(t *testing.T) {
	for _, reset := range []bool{false, true} {
		for retries, settings := range []object{nil, retryAll(object{"max": 1})} {
			t.Run(fmt.Sprintf("reset_%v_retries_%d", reset, retries), func(t *testing.T) {
				leaves := newRaw(t, func(_ int, c net.Conn) {
					_, _ = http.ReadRequest(bufio.NewReader(c))
					if reset {
						_ = c.(*net.TCPConn).SetLinger(0)
					}
				})
				live := newBackend(t, echo)
				s := newSite(t, web([]string{leaves.address, live.address}, with(settings, object{"passive": object{"fall": 9}})), nil)
				c := s.stall(t, "POST", long, strings.Repeat("a", 9000))
				eventually(t, "failure", func() bool { return failuresOf(t, leaves.address) == 1 })
				if retries > 0 {
					fmt.Fprint(c, strings.Repeat("b", 1000))
					got := answered(t, c.Reader)
					if want := "POST " + strings.Repeat("a", 9000) + strings.Repeat("b", 1000); got.status != http.StatusOK || got.body != want {
						t.Errorf("got %d %q, want the whole body", got.status, got.body)
					}
				}
				s.idle(t) // though the server may wait for the rest of the body before it sends an error
				if got := s.placeholder("failure"); got != "reset" {
					t.Errorf("got failure %s, want reset", got)
				}
			})
		}
	}
}

// hasty is an endpoint that answers as soon as it has the header of a request.
func hasty(t *testing.T, answer string) *raw {
	return newRaw(t, func(_ int, c net.Conn) {
		_, _ = http.ReadRequest(bufio.NewReader(c))
		fmt.Fprint(c, answer)
		_, _ = io.Copy(io.Discard, c)
	})
}

// TestNonsenseForStalledClient checks that what an endpoint has said while the client was late isn't forgotten.
func TestNonsenseForStalledClient(t *testing.T) {
	b := hasty(t, "nonsense\r\n\r\n")
	s := newSite(t, web([]string{b.address}, object{"passive": object{"fall": 9}}), nil)
	s.stall(t, "POST", long, strings.Repeat("a", 9000))
	eventually(t, "failure", func() bool { return failuresOf(t, b.address) == 1 })
	s.idle(t)
	if got := s.placeholder("failure"); got != "malformed" {
		t.Errorf("got failure %s, want malformed", got)
	}
}

// TestAnsweredBeforeStall checks that an answer which doesn't wait for the rest of the body is complete at once if both go on
// at the same time, and that the connection ends with it.
func TestAnsweredBeforeStall(t *testing.T) {
	b := hasty(t, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nraw\r\n0\r\n\r\n")
	s := newSite(t, web([]string{b.address}, nil), nil)
	s.duplex = true
	c := s.stall(t, "POST", long, strings.Repeat("a", 9000))
	if got := answered(t, c.Reader); got.status != http.StatusOK || got.body != "raw" || got.err != nil {
		t.Errorf("got %d %q, %v", got.status, got.body, got.err)
	}
	over(t, c)
	s.idle(t)
	if st, _ := cluster.StatusOf("web"); st.Connections != 0 {
		t.Errorf("got %d connections, want 0", st.Connections)
	}
}

// TestClosedReader checks that a reader which is closed doesn't wait for the client, and that the keeper's own read has ended
// when the body is released.
func TestClosedReader(t *testing.T) {
	src, client := io.Pipe()
	k := newKeeper(src, -1, 10)
	first, ended := k.reader(nil), make(chan error)
	go func() {
		_, err := io.ReadAll(first)
		ended <- err
	}()
	if _, err := client.Write([]byte("abc")); err != nil {
		t.Fatal(err)
	}
	_ = first.Close()
	if err := <-ended; !errors.Is(err, errBodyClosed) {
		t.Errorf("got %v, want %v", err, errBodyClosed)
	}
	kept := make([]byte, 3)
	if _, err := io.ReadFull(k.reader(nil), kept); err != nil || !bytes.Equal(kept, []byte("abc")) {
		t.Errorf("got %q, %v, want what is kept", kept, err)
	}
	second := k.reader(nil)
	go func() {
		_, err := io.ReadAll(second)
		ended <- err
	}()
	eventually(t, "read that waits", func() bool {
		k.mu.Lock()
		defer k.mu.Unlock()
		return k.arrival != nil
	})
	k.release(func() { _ = src.CloseWithError(io.ErrClosedPipe) })
	if k.arrival != nil || k.buf != nil {
		t.Error("got a read that goes on")
	}
	if err := <-ended; err == nil {
		t.Error("got the end of a body that was cut")
	}
}
