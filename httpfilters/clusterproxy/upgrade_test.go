package clusterproxy

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/caddy-sluice/sluice/modules/cluster"
)

const (
	wsKey    = "dGhlIHNhbXBsZSBub25jZQ=="
	wsAccept = "s3pPLMBiTxaQ9kYGzzhZRbK+xOo="
)

// switching answers a request to switch protocols, and then sends back what it gets, line by line, until the other side
// has finished; then it says goodbye.
func switching(t testing.TB, answer string) *raw {
	return newRaw(t, func(_ int, c net.Conn) {
		in := bufio.NewReader(c)
		if _, err := http.ReadRequest(in); err != nil {
			return
		}
		fmt.Fprintf(c, "HTTP/1.1 %s\r\n\r\n", answer)
		for {
			line, err := in.ReadString('\n')
			if err != nil {
				fmt.Fprint(c, "goodbye\n")
				return
			}
			fmt.Fprint(c, line)
		}
	})
}

const accepting = "101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Accept: " + wsAccept

// shake asks for another protocol, and returns the connection and the answer.
func (s *site) shake(t testing.TB, headers ...string) (*net.TCPConn, *bufio.Reader, *http.Response) {
	t.Helper()
	c, err := net.Dial("tcp", s.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	_ = c.SetDeadline(time.Now().Add(patience))
	fmt.Fprintf(c, "GET /chat HTTP/1.1\r\nHost: example.com\r\n%s\r\n\r\n", strings.Join(headers, "\r\n"))
	in := bufio.NewReader(c)
	res, err := http.ReadResponse(in, nil)
	if err != nil {
		t.Fatal(err)
	}
	return c.(*net.TCPConn), in, res
}

// wsHeaders ask for WebSocket.
var wsHeaders = []string{"Connection: Upgrade", "Upgrade: websocket", "Sec-WebSocket-Version: 13", "Sec-WebSocket-Key: " + wsKey}

func TestWebSocket(t *testing.T) {
	b := switching(t, accepting)
	s := newSite(t, web([]string{b.address}, object{"request_timeout": int64(ample), "per_try_timeout": int64(ample)}), nil)
	t.Run("Z100_both_ways_and_half_closed", func(t *testing.T) {
		c, in, res := s.shake(t, wsHeaders...)
		if res.StatusCode != http.StatusSwitchingProtocols {
			t.Fatalf("got %d, want 101", res.StatusCode)
		}
		for _, line := range []string{"hello\n", "again\n"} {
			fmt.Fprint(c, line)
			if got, err := in.ReadString('\n'); got != line {
				t.Fatalf("got %q, %v, want %q", got, err, line)
			}
		}
		if st, _ := cluster.StatusOf("web"); st.Requests != 1 || st.Connections != 1 {
			t.Errorf("got %d requests and %d connections, want 1 and 1", st.Requests, st.Connections)
		}
		_ = c.CloseWrite()
		if got, _ := in.ReadString('\n'); got != "goodbye\n" {
			t.Errorf("got %q, want what the endpoint says after our end", got)
		}
		_ = c.Close()
		s.idle(t)
		eventually(t, "no connection", func() bool { serving, _ := connections(); return serving == 0 })
	})
	t.Run("outlives_the_timeouts_of_a_request", func(t *testing.T) {
		c, in, _ := s.shake(t, wsHeaders...)
		time.Sleep(ample + tick) // longer than a request may take
		fmt.Fprint(c, "still\n")
		if got, err := in.ReadString('\n'); got != "still\n" {
			t.Errorf("got %q, %v", got, err)
		}
	})
	t.Run("drained", func(t *testing.T) {
		_, in, _ := s.shake(t, wsHeaders...)
		deadline := time.Nanosecond
		if err := cluster.Override("web", b.address, cluster.Change{State: "drain", Deadline: deadline}); err != nil {
			t.Fatal(err)
		}
		if _, err := io.ReadAll(in); err != nil && !strings.Contains(err.Error(), "reset") {
			t.Errorf("got %v, want the end", err)
		}
		s.idle(t)
	})
}

// TestSwitchAnswers checks that an answer which switches protocols counts only if it was asked for.
func TestSwitchAnswers(t *testing.T) {
	for _, tc := range []struct {
		name, answer string
		asks         []string
		status       int
	}{
		{"right", accepting, wsHeaders, 101},
		{"H54_unasked", accepting, []string{"X-Nothing: 1"}, 502},
		{"H54_stripped_request", accepting, []string{"Connection: Upgrade", "Upgrade: websocket", "Upgrade: h2c"}, 502},
		{"H54_h2c", strings.Replace(accepting, "websocket", "h2c", 1), []string{"Connection: Upgrade, HTTP2-Settings", "Upgrade: h2c", "HTTP2-Settings: x"}, 502},
		{"another_protocol", strings.Replace(accepting, "websocket", "other", 1), wsHeaders, 502},
		{"no_protocol", "101 Switching Protocols\r\nConnection: Upgrade", wsHeaders, 502},
		{"no_connection_token", strings.Replace(accepting, "Connection: Upgrade", "Connection: close", 1), wsHeaders, 502},
		{"H55_no_accept", "101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket", wsHeaders, 502},
		{"H55_wrong_accept", strings.Replace(accepting, "s3pP", "AAAA", 1), wsHeaders, 502},
	} {
		t.Run(tc.name, func(t *testing.T) {
			b := switching(t, tc.answer)
			s := newSite(t, web([]string{b.address}, object{"passive": object{"fall": 9}}), nil)
			c, _, res := s.shake(t, tc.asks...)
			if res.StatusCode != tc.status {
				t.Errorf("got %d, want %d", res.StatusCode, tc.status)
			}
			want := 0
			if tc.status == 502 {
				want = 1
			}
			if got := failuresOf(t, b.address); got != want {
				t.Errorf("got a streak of %d failures, want %d", got, want)
			}
			_ = c.Close()
			s.idle(t)
		})
	}
}

// TestUpgradeRequests checks what reaches the endpoint when a client asks for another protocol.
func TestUpgradeRequests(t *testing.T) {
	b := newBackend(t, func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintf(w, "%q %q", r.Header["Upgrade"], r.Header["Connection"])
	})
	const stripped, kept = "[] []", `["websocket"] ["Upgrade"]`
	for _, tc := range []struct {
		name  string
		asks  []string
		allow []string
		want  string
	}{
		{"websocket", wsHeaders, nil, kept},
		{"websocket_in_capitals", []string{"Connection: upgrade", "Upgrade: WebSocket"}, nil, kept},
		{"H52_h2c", []string{"Connection: Upgrade", "Upgrade: h2c"}, nil, stripped},
		{"H52_list", []string{"Connection: Upgrade", "Upgrade: h2c, websocket"}, nil, stripped},
		{"H53_websocket_and_h2c", []string{"Connection: Upgrade", "Upgrade: websocket", "Upgrade: h2c"}, nil, stripped},
		{"H53_h2c_and_websocket", []string{"Connection: Upgrade", "Upgrade: h2c", "Upgrade: websocket"}, nil, stripped},
		{"H53_twice", []string{"Connection: Upgrade", "Upgrade: websocket", "Upgrade: websocket"}, nil, stripped},
		{"without_the_token", []string{"Upgrade: websocket"}, nil, stripped},
		{"allowed", []string{"Connection: Upgrade", "Upgrade: spdy/3.1"}, []string{"SPDY/3.1"}, `["spdy/3.1"] ["Upgrade"]`},
		{"another_than_allowed", []string{"Connection: Upgrade", "Upgrade: spdy/2"}, []string{"SPDY/3.1"}, stripped},
	} {
		t.Run(tc.name, func(t *testing.T) {
			options := object{}
			if tc.allow != nil {
				options["allow_upgrade"] = tc.allow
			}
			s := newSite(t, web([]string{b.address}, nil), options)
			_, _, res := s.shake(t, tc.asks...)
			if got, _ := io.ReadAll(res.Body); string(got) != tc.want {
				t.Errorf("got %s, want %s", got, tc.want)
			}
		})
	}
}

// TestRewrittenPaths checks that a rewrite doesn't lead to another place than it says.
func TestRewrittenPaths(t *testing.T) {
	b := newBackend(t, func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, r.RequestURI) })
	s := newSite(t, web([]string{b.address}, nil), nil)
	for _, tc := range []struct {
		name, path string
		status     int
	}{
		{"H105_plain", "/other", 200},
		{"H105_dots_in_a_name", "/a..b/...", 200},
		{"H105_two_slashes", "//evil.example.com/x", 500},
		{"H105_up", "/a/../b", 500},
		{"H105_up_at_the_end", "/a/..", 500},
		{"H105_absolute", "http://evil.example.com/x", 500},
		{"H105_empty", "", 500},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s.before = func(r *http.Request) { r.URL.Path, r.URL.RawPath = tc.path, "" }
			s.get(t).want(t, tc.status)
			s.idle(t)
		})
	}
	t.Run("as_the_client_sent_it", func(t *testing.T) {
		s.before = nil
		r := s.request(t, "GET", "/", "")
		r.URL.Path = "//a/../b"
		got := s.send(t, r)
		got.want(t, http.StatusOK)
		if got.body != "//a/../b" {
			t.Errorf("got %q", got.body)
		}
	})
	t.Run("H105_by_the_option", func(t *testing.T) {
		s := newSite(t, web([]string{b.address}, nil), object{"rewrite": object{"path_regexp": []object{{"find": "^/api", "replace": ""}}}})
		s.send(t, s.request(t, "GET", "/api/x", "")).want(t, http.StatusOK)
		s.send(t, s.request(t, "GET", "/api//x", "")).want(t, http.StatusInternalServerError)
	})
}

// TestStreamCloseDelay checks that an upgraded connection outlives its config as `stream_close_delay` says.
func TestStreamCloseDelay(t *testing.T) {
	b := switching(t, accepting)
	s := newSite(t, web([]string{b.address}, nil), object{"stream_close_delay": int64(time.Hour)})
	c, in, _ := s.shake(t, wsHeaders...)
	if err := s.handler.(*Handler).Cleanup(); err != nil {
		t.Fatal(err)
	}
	fmt.Fprint(c, "after\n")
	if got, err := in.ReadString('\n'); got != "after\n" {
		t.Errorf("got %q, %v", got, err)
	}
}
