package clusterproxy

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/caddy-sluice/sluice/modules/cluster"
)

// retryAll is a retry block for methods whose requests change something.
func retryAll(more object) object {
	retry := object{"max": 3, "backoff_base": 1_000_000, "backoff_cap": 1_000_000, "methods": []string{"GET", "HEAD", "OPTIONS", "POST"}}
	maps.Copy(retry, more)
	return object{"retry": retry}
}

// readRequest reads a request with its body.
func readRequest(c net.Conn) (*http.Request, []byte, error) {
	r, err := http.ReadRequest(bufio.NewReader(c))
	if err != nil {
		return nil, nil, err
	}
	body, err := io.ReadAll(r.Body)
	return r, body, err
}

// resetAfter is an endpoint that reads so many requests on each connection, answers all but the last of them, and resets.
func resetAfter(t testing.TB, requests int) *raw {
	return newRaw(t, func(_ int, c net.Conn) {
		in := bufio.NewReader(c)
		for n := range requests {
			r, err := http.ReadRequest(in)
			if err != nil {
				return
			}
			_, _ = io.Copy(io.Discard, r.Body)
			if n == requests-1 {
				_ = c.(*net.TCPConn).SetLinger(0)
				return
			}
			fmt.Fprint(c, "HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nraw")
		}
	})
}

// TestDeadEndpoint checks which requests are tried again at another endpoint when the first refuses the connection.
func TestDeadEndpoint(t *testing.T) {
	small, large := strings.Repeat("x", 65536), strings.Repeat("x", 65537)
	huge := strings.Repeat("0123456789", 1<<20)
	for _, tc := range []struct {
		name, method, body string
		settings           object
		status             int
	}{
		{"Z69_H106_get", "GET", "", nil, 200},
		{"H112_post", "POST", "", nil, 502},
		{"H112_put", "PUT", "x", nil, 502},
		{"H112_delete", "DELETE", "", nil, 502},
		{"H113_get_with_a_body_at_the_limit", "GET", small, nil, 200},
		{"H113_get_with_a_longer_body_of_which_nothing_was_read", "GET", large, nil, 200},
		{"D80_post_of_100_KB", "POST", strings.Repeat("x", 100_000), retryAll(nil), 200},
		{"D81_Z71_post_of_10_MB", "POST", huge, retryAll(nil), 200},
	} {
		t.Run(tc.name, func(t *testing.T) {
			live := newBackend(t, echo)
			s := newSite(t, web([]string{dead(t), live.address}, tc.settings), nil)
			r := s.do(t, tc.method, tc.body)
			r.want(t, tc.status)
			want := int32(0)
			if tc.status == 200 {
				want = 1
				if r.body != tc.method+" "+tc.body {
					t.Errorf("got a body of %d bytes, want %d", len(r.body), len(tc.body))
				}
				if got := s.placeholder("attempts"); got != "2" {
					t.Errorf("got %s attempts, want 2", got)
				}
			}
			if got := live.requests.Load(); got != want {
				t.Errorf("got %d requests, want %d", got, want)
			}
			s.idle(t)
		})
	}
}

// TestDeadCluster checks what a client gets when no endpoint can be connected to, and how often it is tried.
func TestDeadCluster(t *testing.T) {
	addresses := []string{dead(t), dead(t), dead(t), dead(t), dead(t)}
	s := newSite(t, web(addresses, nil), nil)
	t.Run("H111_four_attempts", func(t *testing.T) {
		s.get(t).want(t, http.StatusBadGateway)
		if got := s.placeholder("attempts"); got != "4" {
			t.Errorf("got %s attempts, want 4", got)
		}
		if got := s.placeholder("failure"); got != "connect" {
			t.Errorf("got failure %s, want connect", got)
		}
	})
	t.Run("H110_the_fourth_works", func(t *testing.T) {
		live := newBackend(t, echo)
		s := newSite(t, web(append(addresses[:3:3], live.address), nil), nil)
		s.get(t).want(t, http.StatusOK)
	})
	s.idle(t)
}

// TestResetBeforeAnswer checks what is tried again when the endpoint resets the connection after the request.
func TestResetBeforeAnswer(t *testing.T) {
	for _, tc := range []struct {
		name, method, body string
		chunked            bool
		settings           object
		status             int
	}{
		{"default_covers_no_reset", "GET", "", false, nil, 502},
		{"get", "GET", "", false, retryAll(nil), 200},
		{"Z72_post_with_a_kept_body", "POST", "hello", false, retryAll(nil), 200},
		{"post_in_chunks", "POST", "hello", true, retryAll(nil), 200},
		{"Z73_post_at_the_limit", "POST", "12345", false, retryAll(object{"body_limit": 5}), 200},
		{"Z73_post_in_chunks_at_the_limit", "POST", "12345", true, retryAll(object{"body_limit": 5}), 200},
		{"Z73_post_above_the_limit", "POST", "123456", false, retryAll(object{"body_limit": 5}), 502},
		{"Z73_post_in_chunks_above_the_limit", "POST", "123456", true, retryAll(object{"body_limit": 5}), 502},
		{"post_without_a_limit_for_bodies", "POST", "1", false, retryAll(object{"body_limit": 0}), 502},
	} {
		t.Run(tc.name, func(t *testing.T) {
			live, broken := newBackend(t, echo), resetAfter(t, 1)
			s := newSite(t, web([]string{broken.address, live.address}, tc.settings), nil)
			r := s.request(t, tc.method, "/", tc.body)
			if tc.chunked {
				r.ContentLength = -1
			}
			got := s.send(t, r)
			got.want(t, tc.status)
			if tc.status == 200 && got.body != tc.method+" "+tc.body {
				t.Errorf("got %q, want the whole body", got.body)
			}
			if failed := failuresOf(t, broken.address); failed != 0 {
				t.Errorf("got %d failures without a detector", failed)
			}
			s.idle(t)
		})
	}
}

// TestInformational checks that nothing is tried again once the client has got some of an answer.
func TestInformational(t *testing.T) {
	for _, tc := range []struct{ name, line string }{
		{"Z85_early_hints", "HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n"},
		{"Z85_continue", "HTTP/1.1 100 Continue\r\n\r\n"},
		{"Z74_part_of_the_head", "HTTP/1.1 200 OK\r\nContent-"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			broken := newRaw(t, func(_ int, c net.Conn) {
				if _, _, err := readRequest(c); err == nil {
					fmt.Fprint(c, tc.line)
				}
			})
			live := newBackend(t, echo)
			s := newSite(t, web([]string{broken.address, live.address}, retryAll(nil)), nil)
			s.get(t).want(t, http.StatusBadGateway)
			if got := live.requests.Load(); got != 0 {
				t.Errorf("got %d requests at the other endpoint, want 0", got)
			}
			s.idle(t)
		})
	}
}

// TestGarbage checks that what isn't HTTP is a failure.
func TestGarbage(t *testing.T) {
	for _, tc := range []struct{ name, answer string }{
		{"H107_garbage", "hello, world\r\n\r\n"},
		{"H107_nothing", ""},
		{"H107_part", "HTTP/1.1 200"},
		{"H107_bad_length", "HTTP/1.1 200 OK\r\nContent-Length: x\r\n\r\n"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			broken := newRaw(t, func(_ int, c net.Conn) {
				if _, _, err := readRequest(c); err == nil {
					fmt.Fprint(c, tc.answer)
				}
			})
			s := newSite(t, web([]string{broken.address}, object{"passive": object{"fall": 5}}), nil)
			s.get(t).want(t, http.StatusBadGateway)
			if got := failuresOf(t, broken.address); got != 1 {
				t.Errorf("got a streak of %d failures, want 1", got)
			}
			s.idle(t)
		})
	}
}

// TestBrokenBody checks that an answer which breaks off is cut for the client too, and is a failure.
func TestBrokenBody(t *testing.T) {
	broken := newRaw(t, func(_ int, c net.Conn) {
		if _, _, err := readRequest(c); err == nil {
			fmt.Fprint(c, "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\npart")
		}
	})
	live := newBackend(t, echo)
	settings := retryAll(nil)
	settings["passive"] = object{"fall": 5}
	s := newSite(t, web([]string{broken.address, live.address}, settings), nil)
	t.Run("Z74_Z106_cut", func(t *testing.T) {
		r := s.get(t)
		if r.err == nil || r.status != http.StatusOK || r.body != "part" {
			t.Errorf("got %d %q, %v, want 200, part, and an error", r.status, r.body, r.err)
		}
		eventually(t, "cut answer", func() bool { return s.aborted.Load() == 1 })
		s.idle(t)
		if got := failuresOf(t, broken.address); got != 1 {
			t.Errorf("got a streak of %d failures, want 1", got)
		}
		if got := live.requests.Load(); got != 0 {
			t.Errorf("got %d requests at the other endpoint, want 0", got)
		}
	})
}

// TestClientLeaves checks that a client which leaves is nobody's failure, and that nothing is done for it any more.
func TestClientLeaves(t *testing.T) {
	t.Run("Z80_waiting_for_an_answer", func(t *testing.T) {
		arrived := make(chan struct{}, 8)
		slow := newBackend(t, func(_ http.ResponseWriter, r *http.Request) {
			arrived <- struct{}{}
			<-r.Context().Done()
		})
		settings := retryAll(nil)
		settings["passive"] = object{"fall": 5}
		s := newSite(t, web([]string{slow.address}, settings), nil)
		ctx, cancel := context.WithCancel(t.Context())
		go func() {
			<-arrived
			cancel()
		}()
		if r := s.send(t, s.request(t, "GET", "/", "").WithContext(ctx)); r.err == nil {
			t.Fatalf("got %d, want an error", r.status)
		}
		s.idle(t)
		if got := failuresOf(t, slow.address); got != 0 {
			t.Errorf("got a streak of %d failures, want 0", got)
		}
		if got := slow.requests.Load(); got != 1 {
			t.Errorf("got %d requests, want 1", got)
		}
	})
	t.Run("Z80_in_the_middle_of_its_body", func(t *testing.T) {
		b := newBackend(t, echo)
		settings := retryAll(nil)
		settings["passive"] = object{"fall": 5}
		s := newSite(t, web([]string{b.address}, settings), nil)
		c, err := net.Dial("tcp", s.Listener.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprint(c, "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\nhalf")
		eventually(t, "request at the endpoint", func() bool { return b.requests.Load() == 1 })
		_ = c.Close()
		s.idle(t)
		if got := failuresOf(t, b.address); got != 0 {
			t.Errorf("got a streak of %d failures, want 0", got)
		}
		if got := b.requests.Load(); got != 1 {
			t.Errorf("got %d requests, want 1", got)
		}
	})
	t.Run("Z68_Z66_waiting_for_a_retry", func(t *testing.T) {
		settings := retryAll(object{"backoff_base": int64(time.Hour), "backoff_cap": int64(time.Hour)})
		s := newSite(t, web([]string{dead(t), dead(t)}, settings), nil)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		go func() {
			for ctx.Err() == nil {
				if st, _ := cluster.StatusOf("web"); st.Retries == 1 {
					cancel()
				}
				time.Sleep(time.Millisecond) // between two looks
			}
		}()
		if r := s.send(t, s.request(t, "GET", "/", "").WithContext(ctx)); r.err == nil {
			t.Fatalf("got %d, want an error", r.status)
		}
		s.idle(t)
		s.mu.Lock()
		defer s.mu.Unlock()
		if len(s.failures) > 0 {
			t.Errorf("got %v, want no failure", s.failures)
		}
	})
}

// TestRetriedStream checks that a retry is over when its answer is passed on: streams that began with one don't keep others from
// it.
func TestRetriedStream(t *testing.T) {
	stream := newBackend(t, func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprint(w, "data: 1\n\n")
		_ = http.NewResponseController(w).Flush()
		if r.URL.Path == "/stream" {
			<-r.Context().Done()
		}
	})
	s := newSite(t, web([]string{dead(t), stream.address}, object{"retry": object{"max": 1, "budget_min": 1}}), nil)
	for range 3 {
		res, err := s.Client().Do(s.request(t, "GET", "/stream", ""))
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		if res.StatusCode != http.StatusOK {
			t.Errorf("got %d, want 200", res.StatusCode)
		}
		if st, _ := cluster.StatusOf("web"); st.Retries != 0 {
			t.Errorf("got %d retries, want 0", st.Retries)
		}
	}
	s.get(t).want(t, http.StatusOK)
	if got := s.placeholder("retries"); got != "1" {
		t.Errorf("got %s retries, want 1", got)
	}
}
